package query

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/testdb"
)

// Variables of the process in which a merge of many groups is measured.
const (
	memoryGroups = "ROWMILL_QUERY_TEST_GROUPS"
	memoryLimit  = "ROWMILL_QUERY_TEST_MEMORY"
)

// TestMemoryIsBounded merges more groups than fit in the limit, in a process of its own, whose
// largest resident memory is measured.
func TestMemoryIsBounded(t *testing.T) {
	if os.Getenv(memoryGroups) != "" {
		measureMerge(t)
		return
	}
	t.Parallel()
	mergeInProcess(t, 100_000, 4<<20, 64<<20)
}

// TestMemoryOfTenMillionGroups is the same at full size: 10 million groups with 256 MB need less
// than 300 MB.
func TestMemoryOfTenMillionGroups(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestMemoryIsBounded")
	mergeInProcess(t, 10_000_000, 256<<20, 300<<20)
}

func mergeInProcess(t *testing.T, groups, limit, most int64) {
	t.Helper()
	testdb.Kinds(t, "mariadb") // or it is skipped
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector needs memory for itself")
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestMemoryIsBounded$", "-test.v")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", memoryGroups, groups), fmt.Sprintf("%s=%d", memoryLimit, limit))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, rest, _ := strings.Cut(string(out), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		t.Fatalf("no figure in %s", out)
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d groups with %d MB: %d MB", groups, limit>>20, kb>>10)
	t.Log(string(out))
	if kb<<10 > most {
		t.Errorf("the process needed %d kB, and not less than %d", kb, most>>10)
	}
}

// measureMerge is what the process does.
func measureMerge(t *testing.T) {
	ctx := context.Background()
	number := func(name string) int64 {
		n, err := strconv.ParseInt(os.Getenv(name), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	groups := number(memoryGroups)
	f := &fixture{Reader: openReader(t, "mariadb"), t: t, kind: "mariadb"}
	f.s, f.state = sessionOf(ctx, t, f.Reader)
	// A sequence of MariaDB is a table without storage; its pieces are ranges, and overlap by a tenth.
	f.table = &engine.TableParts{Name: fmt.Sprintf("seq_1_to_%d", groups), Columns: []engine.SchemaColumn{{Name: "seq"}}, Parts: []engine.TablePart{{}, {}}}
	p := &plan.Plan{
		Statement: plan.Statement{Text: "SELECT COUNT(*)", State: f.state},
		Source:    plan.Source{Table: f.table},
		Partials:  plan.Partials{Keys: 1, Partial: [2]string{"SELECT seq AS k1, COUNT(*) AS p1, SUM(seq) AS p2 FROM ", " AS t GROUP BY seq"}},
		Merge: plan.Merge{
			Kind: plan.InMemory, Limit: -1, Steps: twoSums,
			Outputs: []plan.Output{{Key: 0}, {Key: -1, Parts: []int{1}, Zero: true}, {Key: -1, Parts: []int{2}}},
			Typed:   "SELECT seq AS k1, COUNT(*) AS p1, SUM(seq) AS p2 FROM " + f.table.Name + " GROUP BY seq",
			Groups:  "SELECT k1, SUM(p1), SUM(p2) FROM rowmill_partial GROUP BY k1",
			Final:   "SELECT k1 AS seq, p1 AS n, p2 AS s FROM rowmill_group",
		},
	}
	for i := range int64(8) {
		p.Pieces = append(p.Pieces, plan.Piece{Where: fmt.Sprintf("seq > %d AND seq <= %d", max(0, groups/8*i-groups/80), groups/8*(i+1))})
	}
	p.Columns = f.describe("SELECT seq, COUNT(*) AS n, SUM(seq) AS s FROM " + f.table.Name + " GROUP BY seq")
	p.PartialColumns = f.describe(p.PieceText(f.Reader, 0))
	r := New(f.Reader, Options{Parallel: 2, Memory: number(memoryLimit)})
	defer r.Close()
	sum := &summing{}
	report, err := r.Run(ctx, p, sum)
	if err != nil {
		t.Fatal(err)
	}
	if sum.rows != groups/8*8 || sum.counted != report.Moved || !report.Server || report.Rerun != "" {
		t.Errorf("%d groups of %d rows; %+v", sum.rows, sum.counted, report)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("the resident memory isn't known here: ", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	t.Logf("%s for %d groups; VmHWM:%s", report.Took, sum.rows, line)
}

// A summing counts rows, and adds the second column.
type summing struct{ rows, counted int64 }

func (*summing) Columns([]engine.ResultColumn) error { return nil }

func (s *summing) Row(v [][]byte) error {
	n, err := strconv.ParseInt(string(v[1]), 10, 64)
	s.rows++
	s.counted += n
	return err
}
