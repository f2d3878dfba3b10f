package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A Job says what a policy of a table will do next. The process that keeps the table records the
// Job each time that the process looks at the table.
type Job struct {
	Policy string
	// Task is the policy's next task, "" if none is known. Next is when the task is due, by the clock
	// of the table; zero if that is unknown.
	Task string
	Next time.Time
	// Problem is why the policy's last pass, or the last look at the table, failed; "" if both
	// succeeded. Failures is the number of failed passes since the last successful one.
	Problem  string
	Failures int
	// Since is the time since which Problem is the same.
	Since time.Time
}

// Policies are the policies of a table, with their actions.
var Policies = []struct {
	Name    string
	Actions []string
}{
	{"create", []string{"create", "enclose"}},
	{"rollup", []string{"rollup"}},
	{"keep", []string{"seal", "check", "archive", DropKind}},
	{"rebuild", []string{"rebuild", "merge", "publish"}},
}

// PolicyOf returns the policy of an action, "" for an action of the command line.
func PolicyOf(action string) string {
	for _, p := range Policies {
		if slices.Contains(p.Actions, action) {
			return p.Name
		}
	}
	return ""
}

// A schedule records the jobs of each table.
type schedule struct{ *database }

// Jobs returns the jobs of a table.
func (s schedule) Jobs(ctx context.Context, table string) ([]Job, error) {
	return list(ctx, s.database, "jobs of "+table, func(r *sql.Rows, j *Job) error {
		err := r.Scan(&j.Policy, &j.Task, micros{&j.Next}, &j.Problem, &j.Failures, micros{&j.Since})
		if j.Next.UnixMicro() == 0 {
			j.Next = time.Time{}
		}
		return err
	}, "SELECT policy, task, next_us, problem, failures, since_us FROM rowmill_schedule WHERE table_name = ? ORDER BY policy", table)
}

// Schedule records the jobs of a table, with the Since of each, if they differ from the recorded
// jobs. If rowmill's tables are from an earlier version, one is missing; the error is
// engine.ErrNoTable.
func (s schedule) Schedule(ctx context.Context, table string, jobs []Job) error {
	were, err := s.Jobs(ctx, table)
	if err != nil {
		return err
	}
	same := len(were) == len(jobs)
	var rows [][]any
	for _, j := range jobs {
		j.Since = time.Now()
		if i := slices.IndexFunc(were, func(w Job) bool { return w.Policy == j.Policy }); i < 0 {
			same = false
		} else {
			if were[i].Problem == j.Problem {
				j.Since = were[i].Since
			}
			same = same && were[i].Task == j.Task && were[i].Next.Equal(j.Next) && were[i].Problem == j.Problem && were[i].Failures == j.Failures
		}
		next := int64(0)
		if !j.Next.IsZero() {
			next = j.Next.UnixMicro()
		}
		rows = append(rows, []any{table, j.Policy, j.Task, next, j.Problem, j.Failures, j.Since.UnixMicro()})
	}
	if same {
		return nil
	}
	return s.within(ctx, func(tx *sql.Tx) error {
		what := "record the jobs of " + table
		if err := s.run(ctx, tx, what, "DELETE FROM rowmill_schedule WHERE table_name = ?", table); err != nil {
			return err
		}
		return because(what, s.insert(ctx, tx, "rowmill_schedule (table_name, policy, task, next_us, problem, failures, since_us)", rows...))
	})
}

// A view is an SQL view on rowmill's own tables, for users.
type view struct{ name, query string }

// views returns the views. Their times are in UTC.
func (s *database) views() []view {
	words := s.db.Words()
	at := func(us string) string { return words.FromPosition(&engine.Table{}, us) }
	var of strings.Builder
	for _, p := range Policies {
		fmt.Fprintf(&of, " WHEN a.action IN ('%s') THEN '%s'", strings.Join(p.Actions, "', '"), p.Name)
	}
	policy := "CASE" + of.String() + " ELSE a.action END"
	actions := "FROM rowmill_actions a WHERE a.table_name = s.table_name AND " + policy + " = s.policy"
	last := func(column string) string {
		return "(SELECT " + column + " " + actions + " ORDER BY a.at_us DESC, a.serial DESC LIMIT 1)"
	}
	pauses := "FROM rowmill_pauses p WHERE p.table_name = s.table_name AND p.policy IN (s.policy, '" + PauseAll + "') AND p.until_us > " + words.Now()
	const result = "CASE WHEN a.error = '' THEN 'ok' ELSE 'failed' END"
	return []view{
		{"rowmill_jobs", "SELECT j.table_name, j.policy, CASE WHEN j.until_us IS NOT NULL THEN 'paused' WHEN j.problem <> '' THEN 'failing' ELSE 'scheduled' END AS state, " +
			at("j.due_us") + " AS next_start, j.task AS next_task, " + at("j.last_us") + " AS last_run, j.last_task, j.last_result, " + at("j.success_us") + " AS last_success, " +
			"j.failures, j.problem, " + at("j.since_us") + " AS since, " + at("j.until_us") + " AS paused_until, j.pause_reason FROM (" +
			"SELECT s.table_name, s.policy, NULLIF(s.next_us, 0) AS due_us, s.task, s.failures, s.problem, s.since_us, " +
			last("a.at_us") + " AS last_us, " + last("a.action") + " AS last_task, " + last(result) + " AS last_result, " +
			"(SELECT MAX(a.at_us) " + actions + " AND a.error = '') AS success_us, " +
			"(SELECT MAX(p.until_us) " + pauses + ") AS until_us, " +
			"(SELECT p.reason " + pauses + " ORDER BY p.until_us DESC LIMIT 1) AS pause_reason FROM rowmill_schedule s) j"},
		{"rowmill_job_history", "SELECT a.table_name, " + policy + " AS policy, a.action, a.detail, " + at("a.at_us - a.took_us") + " AS started, " + at("a.at_us") + " AS ended, " +
			"a.took_us / 1000000.0 AS seconds, " + result + " AS result, a.error, a.by_whom FROM rowmill_actions a ORDER BY a.at_us DESC, a.serial DESC"},
	}
}

// Views returns the names of the views.
func (s *database) Views() (out []string) {
	for _, v := range s.views() {
		out = append(out, v.name)
	}
	return out
}

// lackingViews returns the names of the views that don't exist, and the statements that create
// them.
func (s *database) lackingViews(ctx context.Context) (names, statements []string, err error) {
	for _, v := range s.views() {
		_, err := s.db.Describe(ctx, v.name)
		if errors.Is(err, engine.ErrNoTable) {
			words, ok := s.db.Words().(engine.SumWords)
			if !ok {
				return nil, nil, fmt.Errorf("create view %s: %s has no views", v.name, s.db.Info().Engine)
			}
			names, statements = append(names, v.name), append(statements, words.ReplaceView(v.name, v.query)...)
		} else if err != nil {
			return nil, nil, fmt.Errorf("look for view %s: %w", v.name, err)
		}
	}
	return names, statements, nil
}
