package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload/oltp"
	"github.com/rowmill/rowmill/result"
)

// A TPCCSpec has the options of TPC-C's transactions.
type TPCCSpec struct {
	Warehouses int `json:"warehouses" toml:"warehouses"`
	Terminals  int `json:"terminals" toml:"terminals"`
	// Keying makes terminals wait as users do. Deep examines all consistency conditions.
	Keying bool `json:"keying,omitempty" toml:"keying,omitempty"`
	Deep   bool `json:"deep,omitempty" toml:"deep,omitempty"`
	// Scale is the share of a warehouse's rows that are loaded, for tests; 0 is all.
	Scale float64 `json:"scale,omitempty" toml:"scale,omitempty"`
}

func (s *Spec) tpccOptions() *oltp.TPCCOptions {
	c := s.TPCC
	return &oltp.TPCCOptions{Warehouses: c.Warehouses, Terminals: c.Terminals, Seed: uint64(s.Seed), Keying: c.Keying, Scale: c.Scale}
}

func (s *Spec) validateTPCC() error {
	if err := cmp.Or(s.validateTargets(1), s.validateInterval(), s.validateKills(), s.validateWarmup(),
		s.limits("warehouses", s.TPCC.Warehouses, 1, oltp.MaxWarehouses),
		s.limits("terminals", s.TPCC.Terminals, 1, oltp.MaxTerminals),
		s.no(s.MaxTime <= 0, "--time 60s", "--time %v: want more than 0", s.MaxTime.D())); err != nil {
		return err
	}
	db, err := target.Dry(s.Target())
	if err == nil {
		_, err = oltp.NewTPCC(db, *s.tpccOptions())
	}
	return s.refused(err)
}

// tpccRetry is longer than a server's restart.
const tpccRetry = time.Minute

func (e *Env) tpcc(ctx context.Context, t *Trial) ([]result.Record, error) {
	m := measurement{env: e, trial: t}
	return m.run(ctx, func() error { return m.tpcc(ctx) })
}

// tpccNodes opens the members of a cluster, or the nodes among which the warehouses are divided.
func (m *measurement) tpccNodes(ctx context.Context, o *oltp.TPCCOptions, head *result.TPCC) (closeAll func() error, err error) {
	var opened []*target.DB
	closeAll = func() (err error) {
		for _, db := range opened {
			err = errors.Join(err, db.Close())
		}
		return err
	}
	o.Causal = m.db.Causal()
	for _, n := range m.db.Nodes[1:] {
		if n.Replica {
			continue
		}
		db, err := target.Open(ctx, n.Target, m.env.Show.Note)
		if err != nil {
			return closeAll, fmt.Errorf("open node %s: %w", n.Target, err)
		}
		if opened = append(opened, db); n.Member {
			o.Members = append(o.Members, db.DB)
		} else {
			o.Shards = append(o.Shards, db.DB)
		}
	}
	switch head.Nodes = len(o.Shards); {
	case m.db.Nodes[0].Member:
		o.Members = append([]engine.DB{m.db.DB}, o.Members...)
		head.Nodes = len(o.Members)
	case head.Nodes == 0:
		head.Nodes = 1
	default:
		head.Sharded = true
		if m.trial.Spec.KillEvery > 0 {
			return closeAll, refuse("a target whose nodes each have all rows, or no --kill-server-every", "--kill-server-every: a transaction on several nodes of %s is not one for a server that is killed", m.db.Text)
		}
	}
	return closeAll, nil
}

func (m *measurement) tpcc(ctx context.Context) (failed error) {
	s := m.trial.Spec
	if _, reads := m.db.DB.(engine.Reader); !reads {
		return refuse("--target "+target.ExampleServer, "--target %s: %s takes no statements of text", s.Target(), m.db.Info().Engine)
	}
	if loss := m.db.Info().CrashLoss; s.KillEvery > 0 && loss > 0 {
		return refuse("--target "+target.ExampleDurable, "--kill-server-every: with its durability, %s may lose the transactions of %v before it is killed, and the proof expects each one", m.db.Info().Engine, loss)
	}
	own, opt := result.Run{}, s.tpccOptions()
	own.TPCC = &result.TPCC{Note: result.NotAudited, Warehouses: s.TPCC.Warehouses, Terminals: s.TPCC.Terminals, Keying: s.TPCC.Keying, Scale: s.TPCC.Scale}
	closeNodes, err := m.tpccNodes(ctx, opt, own.TPCC)
	defer func() { failed = errors.Join(failed, closeNodes()) }()
	if err != nil {
		return err
	}
	w, err := oltp.NewTPCC(m.db.DB, *opt)
	if err != nil {
		return err
	}
	m.env.Show.Note("loading " + figure.Plural(s.TPCC.Warehouses, "warehouse"))
	schema, err := w.Load(ctx, s.DropExisting, m.env.noteRows(func(n int64) string { return "loaded " + rows(n) }))
	if err != nil {
		return err
	}
	if server := m.db.Server(); server != nil {
		if err := server.CatchUp(ctx); err != nil {
			return err
		}
	}
	warnings, err := m.env.settle(ctx, m.db, w.Tables())
	if err == nil {
		err = m.env.while("examining what was loaded", func() error { return w.ProveLoad(ctx, s.TPCC.Deep) })
	}
	if err != nil {
		return err
	}
	own.Name = fmt.Sprintf("%s, %s on %s", figure.Plural(s.TPCC.Warehouses, "warehouse"), figure.Plural(s.TPCC.Terminals, "terminal"), m.db.Info().Engine)
	if own.TPCC.Nodes > 1 {
		own.Name += fmt.Sprintf(", %d nodes", own.TPCC.Nodes)
	}
	if m.trial.Scenario != nil {
		own.Name = m.trial.Scenario.Run + ": " + own.Name
	}
	own.Speed = &result.Speed{Operation: result.NewOrder, Clients: s.TPCC.Terminals, Counts: result.CountsOrders, Filled: int64(s.TPCC.Warehouses)}
	own.Schema, own.Deviations, own.Warnings = schema, w.Deviations(), warnings
	cfg := bench.Config{Operation: result.NewOrder, Clients: s.TPCC.Terminals, Batch: 1, MaxTime: s.MaxTime.D(), Interval: s.Interval.D(), RetryFor: s.RetryFor.D()}
	var parts bench.Parts
	orders := int64(0)
	w.Took, m.note = parts.Took, func(iv *result.Interval) { // its rows are the new orders; the other transactions ran beside them
		iv.Latency, iv.Beside = map[string]result.Histogram{}, nil
		parts.Note(iv)
		iv.NewRows = iv.Beside[result.NewOrder].Rows
		orders += iv.NewRows
		iv.Rows = orders
		delete(iv.Beside, result.NewOrder)
	}
	if err := m.begin(ctx, w.Tables(), cfg, own, own.Name); err != nil {
		return err
	}
	return m.measure(ctx, m.withKills(ctx, w), func(ctx context.Context, end *result.End) error {
		end.Causes = w.Causes()
		elapsed := 1.0
		if n := len(m.rec.Intervals); n > 0 {
			elapsed = m.rec.Intervals[n-1].Elapsed
		}
		if tpm := 60 * float64(m.rows()) / elapsed; tpm > result.MostKeyed*float64(s.TPCC.Warehouses) {
			end.Warnings = append(end.Warnings, fmt.Sprintf("no keying time: users who type and think enter at most %.2f new orders a minute and warehouse", result.MostKeyed))
		}
		return m.env.while("examining the tables", func() (err error) {
			end.Verified, end.Conditions, end.Crossing, err = w.Prove(ctx, s.TPCC.Deep)
			return err
		})
	})
}
