package main

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/maintain"
)

// told is an io.Writer that calls the function with each text written.
type told func(text string)

func (f told) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

func statusJSON(t *testing.T, text string) *maintain.Status {
	t.Helper()
	var s maintain.Status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return &s
}

// TestStatusOfAdoption checks that the status of a table that is being adopted is the
// progress of the adoption, and that status exits with 1 if no process continues it.
func TestStatusOfAdoption(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		file, _ := plainTable(t, kind, 5000)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var text, inJSON session
		copied := regexp.MustCompile(`copy: [1-9]\d* of`)
		code := run(ctx, []string{"apply", file, "--yes", "--allow-duplicates"}, strings.NewReader(""), &bytes.Buffer{}, told(func(line string) {
			// The first line of the next step is written when all rows are copied.
			if strings.Contains(line, "Z verify") || copied.MatchString(line) {
				text, inJSON = rowmill(t.Context(), "status", file), rowmill(t.Context(), "status", file, "--json")
				cancel()
			}
		}))
		if code != exitInterrupted {
			t.Fatalf("exit %d", code)
		}
		if text.code != exitDone || !strings.Contains(text.stdout, "it is being adopted, at ") || !strings.Contains(text.stdout, "of about 5,000") || !strings.Contains(text.stdout, "No action required.") {
			t.Errorf("meanwhile: exit %d\n%s%s", text.code, text.stdout, text.stderr)
		}
		if s := statusJSON(t, inJSON.stdout); !s.Adopting || len(s.Changes) != 1 || s.Changes[0].Percent == nil || s.Changes[0].Of != 5000 || s.Changes[0].Interrupted || time.Since(s.Changes[0].Since) > time.Minute {
			t.Errorf("meanwhile: %s", inJSON.stdout)
		}
		s := rowmill(t.Context(), "status", file)
		if s.code != exitFailed || !strings.Contains(s.stdout, "it is being adopted, and no process works on it") ||
			!regexp.MustCompile(`! stopped: the adoption was interrupted at its step (copy|verify), and no process works on it\n  Try: rowmill apply FILE`).MatchString(s.stdout) {
			t.Errorf("interrupted: exit %d\n%s%s", s.code, s.stdout, s.stderr)
		}
		if s := statusJSON(t, rowmill(t.Context(), "status", file, "--json").stdout); len(s.Problems) != 1 || s.Problems[0].Code != "stopped" || !s.Changes[0].Interrupted {
			t.Errorf("interrupted: %+v", s)
		}
		mustPass(t, rowmill(t.Context(), "apply", file, "--yes", "--allow-duplicates"))
		s = rowmill(t.Context(), "status", file)
		if s.code != exitDone || !regexp.MustCompile(`(?m)^adopt +kept `).MatchString(s.stdout) || strings.Contains(s.stdout, "being adopted") {
			t.Errorf("afterwards: exit %d\n%s%s", s.code, s.stdout, s.stderr)
		}

		undoing, stop := context.WithCancel(t.Context())
		defer stop()
		code = run(undoing, []string{"apply", file, "--undo", "--yes"}, strings.NewReader(""), &bytes.Buffer{}, told(func(line string) {
			if strings.Contains(line, "Z back") {
				stop()
			}
		}))
		s = rowmill(t.Context(), "status", file)
		if code != exitInterrupted || s.code != exitFailed || !strings.Contains(s.stdout, "its adoption is being undone, and no process works on it") ||
			!regexp.MustCompile(`! stopped: the undo of the adoption was interrupted at its step back\S*, and no process works on it\n  Try: rowmill apply FILE --undo`).MatchString(s.stdout) {
			t.Errorf("interrupted undo: exit %d and %d\n%s%s", code, s.code, s.stdout, s.stderr)
		}
		mustPass(t, rowmill(t.Context(), "apply", file, "--undo", "--yes"))
	})
}

// TestStatusOfAdoptionNamesBlockers checks that the status names the session whose
// lock delays the cut-over.
func TestStatusOfAdoptionNamesBlockers(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, kind string) {
		file, db := plainTable(t, kind, 100)
		tx, err := db.SQL().BeginTx(t.Context(), nil)
		must(t, err)
		defer tx.Rollback() // a second call does nothing
		opened, tries := false, 0
		var last session
		code := run(t.Context(), []string{"apply", file, "--yes", "--allow-duplicates"}, strings.NewReader(""), &bytes.Buffer{}, told(func(line string) {
			if strings.Contains(line, "Z verify") && !opened {
				opened = true
				var n int
				if err := tx.QueryRow("SELECT COUNT(*) FROM readings").Scan(&n); err != nil {
					t.Error(err)
				}
			}
			if strings.Contains(line, "change the names waits") && tries < 10 {
				tries++
				if last = rowmill(t.Context(), "status", file); strings.Contains(last.stdout, "IN THE WAY") || tries == 10 {
					tries = 10
					if err := tx.Rollback(); err != nil {
						t.Error(err)
					}
				}
			}
		}))
		if code != exitDone || last.code != exitDone || !regexp.MustCompile(`(?m)^adopt +swap `).MatchString(last.stdout) || !strings.Contains(last.stdout, "IN THE WAY") {
			t.Errorf("exit %d; the status, of exit %d:\n%s%s", code, last.code, last.stdout, last.stderr)
		}
	})
}
