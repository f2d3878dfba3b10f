package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

var _ engine.Encloser = (*DB)(nil)

// provePart renders the CHECK that proves that all rows of the default partition lie within a
// period. The server reads these rows while others write.
func (d dialect) provePart(t *engine.Table, child string, p rolling.Partition) []string {
	return []string{d.addCheck(t, child, p) + " NOT VALID", fmt.Sprintf("ALTER TABLE %s VALIDATE CONSTRAINT %s", d.Quote(child), d.Quote(boundsCheck(p.Period)))}
}

// boundDefault renders the transaction that turns the default partition into the partition of a
// period, and creates an empty default partition.
func (d dialect) boundDefault(t *engine.Table, child string, p rolling.Partition) []string {
	name := childName(t, p)
	out := append(d.exclusive(t.Name, child), d.detach(t, child), d.renameTable(child, name), d.attach(t, p), d.dropCheck(name, boundsCheck(p.Period)))
	return append(out, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s DEFAULT", d.Quote(child), d.Quote(t.Name)), commitStatement)
}

func (d dialect) encloseDefault(s engine.Enclose) ([]string, error) {
	if err := fits(s.Table, s.Part); err != nil {
		return nil, err
	}
	child := childName(s.Table, s.Tail)
	return append(d.provePart(s.Table, child, s.Part), d.boundDefault(s.Table, child, s.Part)...), nil
}

// Enclose implements engine.Encloser for the default partition. It copies no rows.
func (db *server) Enclose(ctx context.Context, t *engine.Table, period rolling.Partition, _ string) error {
	conn, err := db.dialSession(ctx, engine.Connect{Maintenance: true})
	if err != nil {
		return err
	}
	defer discard(conn)
	err = db.try(ctx, conn, 1, func(c *changer) { c.enclose(ctx, t, period) })
	if err != nil {
		return fmt.Errorf("make the rows of the default partition of %s those of period %s: %w", t.Name, period.Name, err)
	}
	return nil
}

func (c *changer) enclose(ctx context.Context, t *engine.Table, p rolling.Partition) {
	c.fail(fits(t, p))
	_, err := c.db.catalog().Partitions(ctx, t)
	var is *engine.DefaultError
	name := childName(t, p)
	switch r := c.look(ctx, t, name); {
	case r[name].holds(t, p.Period):
		return // done
	case r[name].exists:
		c.fail(taken(name))
	case !errors.As(err, &is):
		c.fail(engine.Classed(engine.ErrUnsupported, errors.Join(errors.New("it has no default partition"), err)))
	}
	if c.err != nil {
		return
	}
	child := childName(t, is.Part)
	proof := c.provePart(t, child, p)
	if !c.yes(ctx, "SELECT EXISTS (SELECT FROM pg_constraint WHERE conrelid = "+c.regclass(child)+" AND conname = "+quoteText(boundsCheck(p.Period))+")") {
		c.quiet(ctx, child)
		c.run(ctx, proof[0])
	}
	c.run(ctx, proof[1])
	c.quiet(ctx, t.Name, child)
	c.atOnce(ctx, c.boundDefault(t, child, p)...)
}
