package experiment

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowmill/rowmill/result"
)

type noted struct{ lines []string }

func (n *noted) Note(text string)         { n.lines = append(n.lines, text) }
func (n *noted) Begin(result.Run)         {}
func (n *noted) Interval(result.Interval) {}
func (n *noted) End(result.Summary)       {}

// TestWhile checks that a wait without progress of its own says every 5 s for what it waits, and
// that a short one says nothing.
func TestWhile(t *testing.T) {
	t.Parallel()
	for length, want := range map[time.Duration][]string{
		4 * time.Second:  nil,
		12 * time.Second: {"waiting: 5 s so far", "waiting: 10 s so far"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &noted{}
			if err := (&Env{Show: n}).while("waiting", func() error { time.Sleep(length); return t.Context().Err() }); err != nil || !slices.Equal(n.lines, want) {
				t.Errorf("%v: %q, %v", length, n.lines, err)
			}
		})
	}
}
