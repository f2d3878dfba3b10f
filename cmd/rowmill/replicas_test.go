package main

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// The delay of a sandbox's replicas is in the record, its summary and its text, also while source
// and replica are killed in turn; in the end the replica has all rows.
func TestBenchReplicas(t *testing.T) {
	if apart(t) {
		return
	}
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			testdb.Require(t, kind, sandbox.Installed(t.Context(), kind))
			t.Chdir(t.TempDir())
			s := verb(t, "bench insert --time 4s --rate 2k --kill-server-every 800ms --batch 50 --interval 250ms --out run.jsonl --json",
				"--target", "sandbox:"+kind+"?replicas=1&memory=64MB&redo=64MB")
			mustPass(t, s)
			rec, sum := records(t, "run.jsonl")[0], summaries(t, s)[0]
			if len(sum.ReplicaDelay) != 1 || sum.ReplicaDelay[0].Worst <= 0 || sum.ReplicaDelay[0].Mean > sum.ReplicaDelay[0].Worst {
				t.Errorf("delays %+v", sum.ReplicaDelay)
			}
			killed := map[string]bool{}
			for _, iv := range rec.Intervals {
				for _, e := range iv.Events {
					if whom, _, ok := strings.Cut(e.Object, ", process"); ok {
						killed[e.What+" "+whom] = true
					}
				}
			}
			for _, want := range []string{"kill server source", "server back source", "kill server replica 1"} {
				if !killed[want] && (rec.End.Kills > 1 || !strings.Contains(want, "replica")) { // a slow server is killed once
					t.Errorf("no event %q: %v", want, killed)
				}
			}
			if len(rec.Run.Nodes) != 2 || sum.Verified == nil || !sum.Verified.Sound() {
				t.Errorf("nodes %v, verified %+v", rec.Run.Nodes, sum.Verified)
			}
			contains(t, verb(t, "report run.jsonl").stdout, "Delay of the replicas")
			nothingLeft(t)
		})
	}
}

// What can't be a replica is refused before the run.
func TestReplicaRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"bench insert --replica mysql://r@127.0.0.1:1/d":                                                                    "it can't be a replica of sqlite:, which is private",
		"bench insert --target mysql://r@127.0.0.1:1/d --replica sqlite:":                                                   "want the URL of a server that repeats",
		"bench insert --target mysql://r@127.0.0.1:1/d --replica oracle:x":                                                  "unknown scheme",
		"bench insert --target mysql://r@127.0.0.1:1/d --replica mysql://r@127.0.0.1:2/d --replica mysql://r@127.0.0.1:2/d": "is named twice",
		"bench mixed --target mysql://r@127.0.0.1:1/d --target sqlite:a.db --replica mysql://r@127.0.0.1:2/d":               "of which of 2 targets",
	} {
		if s := verb(t, args); s.code != exitUsage || !strings.Contains(s.stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, s.code, s.stderr)
		}
	}
}
