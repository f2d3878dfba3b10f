package mysql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Table options that rowmill doesn't change if a declaration has them.
var (
	storageOption  = regexp.MustCompile(`(?i)\bENGINE\b`)
	innodbOption   = regexp.MustCompile(`(?i)\bENGINE\s*=?\s*InnoDB\b`)
	compressOption = regexp.MustCompile(`(?i)\b(PAGE_COMPRESSED|ROW_FORMAT|KEY_BLOCK_SIZE)\b`)
)

// tableOptions returns the part of a CREATE TABLE statement after the parentheses,
// without quoted text.
func tableOptions(text string) string {
	var out strings.Builder
	depth, closed := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'', '"', '`':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && c != '`' {
					i++
				}
			}
			out.WriteByte(' ')
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 && !closed {
				closed = true
				out.Reset()
			}
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// createDeclared renders a table as its owner declared it, with partitions.
func (d dialect) createDeclared(s engine.CreateTable) ([]string, error) {
	t := s.Table
	fail := func(format string, args ...any) ([]string, error) {
		return nil, fmt.Errorf("create table %s: "+format, append([]any{t.Name}, args...)...)
	}
	q := t.Definition.As(d.Quote(t.Name))
	options := tableOptions(q)
	innodb := innodbOption.MatchString(options)
	if d.storage != "" && !storageOption.MatchString(options) {
		q += " ENGINE=" + d.Quote(d.storage)
		innodb = strings.EqualFold(d.storage, "innodb")
	}
	if t.Compress && d.mariadb && innodb && !compressOption.MatchString(options) {
		// Only a table with the same options can be exchanged with a partition, so
		// either all of a table's periods are compressed or none.
		q += " PAGE_COMPRESSED=1"
	}
	if t.Rolling() {
		if len(s.Partitions) == 0 {
			return fail("a rolling table needs a first partition")
		}
		if err := d.checkBy(t); err != nil {
			return fail("%w", err)
		}
		if err := d.checkName(t.Name); err != nil {
			return fail("%w", err)
		}
		floor := floorTo(s.Partitions[0].From)
		defs, err := d.partitions(t, slices.Concat([]rolling.Partition{floor}, s.Partitions))
		if err != nil {
			return fail("%w", err)
		}
		q += fmt.Sprintf("\nPARTITION BY %s (%s)", d.partitionBy(t), defs)
	}
	out := []string{q}
	for i := range t.Definition.Indexes {
		ix := &t.Definition.Indexes[i]
		out = append(out, ix.As(d.Quote(ix.Name), d.Quote(t.Name)))
	}
	return out, nil
}

// fraction matches the number of fractional digits of a type.
var fraction = regexp.MustCompile(`\(\s*[1-6]\s*\)`)

// checkBy refuses a column by which the server can't partition a table with pruning.
func (d dialect) checkBy(t *engine.Table) error {
	c := t.Definition.Column(t.By)
	if c == nil || kindOf(t) != byTimestamp || d.mariadb || !fraction.MatchString(c.Type) {
		return nil
	}
	return engine.Hinted(engine.Classed(engine.ErrUnsupported,
		fmt.Errorf("MySQL can't cut a table by column %s: UNIX_TIMESTAMP of a %s is no integer", t.By, c.Type)),
		"%s as DATETIME(6) in UTC, or as TIMESTAMP without fractions", t.By)
}
