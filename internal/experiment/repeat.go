package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/result"
)

// A Repetition makes recorded runs again, for a comparison of two sides.
type Repetition struct {
	// Times is how often each configuration is run.
	Times int
	// A and B are the configurations of the two sides.
	A, B []Repeated
}

// Repeated is a configuration that is run again.
type Repeated struct {
	Spec *Spec // of one layout
	// Run is the recorded run, Side "A" or "B".
	Run  result.Run
	Side string
	// Tables are dropped and made anew for each run.
	Tables []string
}

// Add adds the configuration of a recorded run to a side of the comparison. It refuses a run that
// can't be made again. It opens no database.
func (r *Repetition) Add(side string, rec *result.Record) error {
	c, err := repeated(&rec.Run)
	if err != nil {
		return refuse(cmp.Or(engine.HintOf(err), "the commands by hand, with --out, and compare their records"),
			"--repeat: %q of %s can't be run again: %w", rec.Run.Name, rec.Source, err)
	}
	c.Side = side
	if side == "A" {
		r.A = append(r.A, c)
	} else {
		r.B = append(r.B, c)
	}
	return nil
}

func repeated(run *result.Run) (c Repeated, err error) {
	s, err := Recorded(run)
	switch {
	case err != nil:
		return c, err
	case s.Workload != Insert:
		return c, fmt.Errorf("it is a run of bench %s, not of bench insert", s.Workload)
	case s.FindRate:
		return c, errors.New("it is a search for a rate; --repeat of rowmill bench insert makes several")
	case !slices.Contains(s.Layouts, run.Layout):
		return c, fmt.Errorf("its spec doesn't make its layout, %q", run.Layout)
	}
	c.Run, c.Spec = *run, s.alone(run.Layout)
	c.Spec.DropExisting = true
	if err := c.Spec.Validate(); err != nil {
		return c, err
	}
	w, err := c.Spec.dryInsert(run.Layout)
	if err != nil {
		return c, err
	}
	for _, t := range w.Tables() {
		c.Tables = append(c.Tables, t.Name)
	}
	return c, nil
}

// trials returns the runs of all rounds. In a round, configurations to be compared
// follow each other.
func (r *Repetition) trials() (out []Trial) {
	var configs []Repeated
	for i := range max(len(r.A), len(r.B)) {
		for _, side := range [][]Repeated{r.A, r.B} {
			if i < len(side) {
				configs = append(configs, side[i])
			}
		}
	}
	for round := range r.Times {
		for _, c := range inTurn(configs, round) {
			out = append(out, Trial{Spec: c.Spec, Whole: c.Spec, Side: c.Side, Repeat: round + 1, Repeats: r.Times, command: c.Run.Command,
				Label: fmt.Sprintf("%s, layout %s, repeat %d", c.Side, c.Run.Layout, round+1)})
		}
	}
	return out
}

// Run makes the runs in turn and returns the records of the runs that began.
func (r *Repetition) Run(ctx context.Context, env *Env) ([]result.Record, error) {
	return env.trials(ctx, r.trials())
}

// Plan describes the runs, their targets, and the tables that are dropped on these targets. rowmill
// is the version of this program. out is the file for the records; "" if they go to no file.
func (r *Repetition) Plan(rowmill, out string) string {
	var b strings.Builder
	n := len(r.A) + len(r.B)
	fmt.Fprintf(&b, "Runs %d benchmarks, %d of each configuration, in turn, side A first in every other round:\n", n*r.Times, r.Times)
	for _, c := range slices.Concat(r.A, r.B) {
		fmt.Fprintf(&b, "\n  %s  %s layout %s: %s\n", c.Side, c.Run.Preset, c.Run.Layout, c.Spec.Settings())
		fmt.Fprintf(&b, "     on %s", c.Spec.Target())
		if target.Private(c.Spec.Target()) {
			fmt.Fprintln(&b, ", created for each run and removed afterwards")
		} else {
			fmt.Fprintf(&b, "\n     DROPS there, with all rows, and creates again for each run: %s\n", strings.Join(c.Tables, ", "))
		}
	}
	fmt.Fprintln(&b)
	for i := range r.A {
		for j := range r.B {
			if reflect.DeepEqual(r.A[i].Spec, r.B[j].Spec) {
				fmt.Fprintf(&b, "! A and B run the same command for layout %s: what differed between the records,\n"+
					"  such as the server's settings, can't be repeated; this compares a configuration with itself.\n", r.A[i].Run.Layout)
			}
		}
	}
	for _, c := range []Repeated{r.A[0], r.B[0]} {
		if v := c.Run.Rowmill; v != "" && v != rowmill {
			fmt.Fprintf(&b, "! %s was recorded by rowmill %s; this is %s.\n", c.Side, v, rowmill)
		}
	}
	if out == "" {
		fmt.Fprintln(&b, "! The records of these runs are not kept: --out FILE keeps them.")
	}
	return b.String()
}
