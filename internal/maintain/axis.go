package maintain

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// otherAxis describes how positions differ from those of the applied declaration,
// and how to declare them as they were; "" if they don't differ. All records of a
// table are by position: periods, seals, buckets.
func (t *Table) otherAxis(applied *rolling.Declaration) (differs, as string) {
	is := t.Declared
	if was := applied.Period.Axis(); was != t.Table.Grid.Axis() {
		return fmt.Sprintf("the period was %s, along %s, and is %s, along %s", applied.Period, axisName(was), t.Table.Grid, axisName(t.Table.Grid.Axis())), "periods of " + applied.Period.String()
	}
	if applied.Epoch != is.Epoch {
		return fmt.Sprintf("epoch was %s and is %s", epochText(applied), epochText(is)), "epoch as it was, " + epochText(applied)
	}
	return "", ""
}

func axisName(a rolling.Axis) string {
	if a == rolling.Sequence {
		return "a sequence"
	}
	return "time"
}

func epochText(d *rolling.Declaration) string {
	if d.Epoch == 0 {
		return "none"
	}
	return fmt.Sprintf("%q", rolling.EpochName(d.Epoch))
}

// sameAxis rejects a declaration under which the table's existing periods would
// have other bounds.
func (t *Table) sameAxis(applied *rolling.Declaration) error {
	differs, as := t.otherAxis(applied)
	if differs == "" {
		return nil
	}
	return engine.Hinted(fmt.Errorf("table %s: %s since it was applied: the periods that it has can't be followed by that", t.Table.Name, differs),
		"declare %s; or declare another table, and load its rows into that", as)
}

// anewByAxis reports whether a table is created anew with another axis. It rejects
// that if roll-ups of these names or archives of the former table are left.
func (t *Table) anewByAxis(ctx context.Context, applied *rolling.Declaration, rollups []string) (other bool, err error) {
	differs, as := t.otherAxis(applied)
	if differs == "" {
		return false, nil
	}
	is := "isn't there"
	if t.Schema != nil {
		is = "is a plain table now"
	}
	if len(rollups) > 0 {
		return true, engine.Hinted(fmt.Errorf("table %s %s, and its roll-ups have buckets of it (%s): %s", t.Table.Name, is, strings.Join(rollups, ", "), differs),
			"DROP TABLE %s first, if the buckets are not needed; declare roll-ups of other names; or declare %s", strings.Join(rollups, ", "), as)
	}
	known, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil {
		return true, err
	}
	for _, k := range known {
		if k.Archive != "" {
			return true, engine.Hinted(fmt.Errorf("table %s %s, and periods of the former one are archived, %s among them: %s", t.Table.Name, is, k.Archive, differs),
				"declare %s; or declare another table", as)
		}
	}
	return true, nil
}
