package main

import (
	"strings"
	"testing"
)

// TestBenchRefuses checks that invalid flags of the verbs below bench are a usage error
// with a hint for that verb, and that nothing is touched.
func TestBenchRefuses(t *testing.T) {
	if apart(t) {
		return
	}
	file := keepFile(t, "6h")
	t.Chdir(t.TempDir())
	for of, cases := range map[string]map[string]string{
		"ibench": {
			"now":                           "takes no arguments",
			"--rows 10":                     "want at least 5000 for 1 client",
			"--rows many":                   "is not a number",
			"--clients 0":                   "at least 1",
			"--clients 100000":              "at most",
			"--steps l.i3":                  `unknown step "l.i3"`,
			"--steps l.x,l.i0":              "the order is",
			"--steps l.i0,qr100":            "--steps with l.x",
			"--steps qr100 --query-time 0":  "want some time",
			"--target null:":                "stores nothing",
			"--target oracle:":              "unknown scheme",
			"--interval 0":                  "at least",
			"--interval 1ms":                "at least",
			"--interval-format csv":         "want rowmill, ibench",
			"--method fast":                 "unknown insert method",
			"--out no/such/run.jsonl":       "no folder",
			"--out x --html x":              "can't both be",
			"--out -":                       "standard output",
			"--steps qr100 --drop-existing": "without l.i0",
		},
		"insert": {
			"--p99 5ms":                                         "--p99 is for --find-rate",
			"--png x.svg":                                       "--png x.svg: it writes no .svg file",
			"--html a.png":                                      "--html a.png: it writes no .png file",
			"--time soon":                                       "write it like 90s, 1m30s, or 90 for seconds",
			"--tme 3s":                                          "unknown flag: --tme\nTry: did you mean --time?",
			"--trial 5s":                                        "--trial is for --find-rate",
			"--find-rate --rate 100":                            "--rate can't give it",
			"--find-rate --rows 0 --max-time 1m":                "--find-rate needs the table size",
			"--find-rate --target null:":                        "stores nothing",
			"--find-rate --p99 10us":                            "want at least 1ms",
			"--find-rate --trial 5s --interval 1s":              "10 times --interval 1s",
			"--find-rate --p99 10s":                             "too short to see whether --p99",
			"--resume nosuch.jsonl":                             "nosuch.jsonl",
			"--find-rate --layout plain --trial 0s":             "10 times --interval",
			"--keep-rows 10k --rows 5k":                         "nothing is ever removed",
			"--keep-rows 10k --keep-periods 3":                  "the one follows from the other",
			"--keep-rows 10k --period-rows 3k --layout rolling": "no periods of equal length",
			"--keep-rows 10k --preset sbtest":                   "the server assigns the keys",
			"--keep-rows 100k --preset timeseries --batch 100":  "whole seconds",
			"--keep-rows 50 --batch 100":                        "at least 10 batches",
			"--readers -1":                                      "--readers -1",
			"--readers 2 --preset timeseries":                   "has no queries",
			"--keep-rows 10001 --table-per-writer --writers 2":  "can't be shared",
		},
		"matrix": {
			"now":                              "takes no arguments",
			"--method fast":                    `unknown method "fast"`,
			"--method load":                    "sqlite has prepared",
			"--method multi,multi":             "multi is named twice",
			"--method=":                        "--method: the list is empty",
			"--batch 1,1k,1000":                "--batch: 1000 is named twice",
			"--batch 0,10":                     "--batch 0",
			"--batch 1,,2":                     "is not a number",
			"--batch ten":                      "is not a number",
			"--batch 10,200k":                  "more than the 100000 rows of a run",
			"--writers 0":                      "--writers 0",
			"--writers 100k":                   "want at most",
			"--indexes 0,4":                    "4 secondary indexes: preset classic has 0 to 3",
			"--layout heap":                    `unknown layout "heap"`,
			"--durability some":                `unknown durability "some"`,
			"--durability full --target null:": "a private server and for a file, not for",
			"--durability full --target mysql://u@h/db":                  "a private server and for a file, not for",
			"--durability full --target sqlite:?durability=none":         "sets it, too",
			"--durability full --target sandbox:mariadb?durability=none": "sets it, too",
			"--preset clasic":       `unknown preset "clasic"`,
			"--rows 0 --max-time 0": "needs an end",
			"--repeat 0":            "--repeat 0",
			"--threshold 5%":        "--threshold requires --baseline",
			"--retry-failed":        "requires --resume",
			"--out x/y.jsonl":       "no folder x",
			"--out a --html a":      "can't both be",
			"--json --md -":         "can't both be standard output",
			"--repeat 30":           "not confirmed",
			"--repeat 30000":        "more than 100000 runs",
		},
		"steady": {
			"now":                          `takes no arguments`,
			"--time 0s":                    "--time 0s: want a time",
			"--for -1":                     "--time -1s: want a time",
			"--time 5s --interval 10s":     "--interval 10s: want no more",
			"--interval 1ms":               "--interval 1ms: want at least 10ms",
			"--batch 0":                    "--batch 0",
			"--writers 0":                  "--writers 0",
			"--keep-periods 0":             "--keep-periods 0",
			"--p99 -1s":                    "--p99 -1s",
			"--retry-for 0s":               "--retry-for 0s",
			"--rate 1":                     "makes 1 operations in an interval of 10s: want at least 20",
			"--target oracle://x/y":        `unknown scheme "oracle"`,
			"--preset clasic":              `unknown preset "clasic"`,
			"--out no/such/run.jsonl":      "no folder no/such",
			"--out x.jsonl --html x.jsonl": "it writes no .jsonl file",
			"--json --html -":              "can't both be standard output",
		},
		"mixed": {
			"now":                                `takes no arguments`,
			"--ops update":                       `unknown operation "update"`,
			"--ops insert,insert":                "insert is named twice",
			"--clients 0":                        "--clients 0",
			"--clients 2,2":                      "2 is named twice",
			"--clients 1 --ops mixed":            "one client can't",
			"--mix 100":                          "--mix 100",
			"--time 0":                           "--time 0s",
			"--seconds NaN":                      "is no time",
			"--rows 0":                           "0 rows to fill",
			"--rows 1G":                          "100000000",
			"--preset ibench":                    `unknown preset "ibench"`,
			"--target sqlite: --target oracle:x": `unknown scheme "oracle"`,
			"--target sqlite: --target sqlite:":  "named twice",
			"--batch 0":                          "--batch 0",
			"--out nowhere/x.jsonl":              "no folder nowhere",
		},
		"points": {
			"--points 0":                "--points 0",
			"--points 1001":             "1001 points",
			"--points 10 --rows 10":     "twice as many rows",
			"--set cache=1MB":           "two settings",
			"--set cache,x=1":           `"cache" is not NAME=VALUE`,
			"--set cache=1MB,cache=1MB": "both settings are cache=1MB",
			"--set cash=1MB,cache=2MB":  `no option "cash"`,
			"--target sqlite:x.db --set cache=1MB,cache=2MB": "temporary file of its own, not sqlite:x.db",
			"--target null: --set a=1,a=2":                   "no settings",
			"--target mariadb://u@h/d --set a=1,a=2":         "a private server or a temporary file of its own, not mariadb://u@h/d",
		},
		"keep": {
			"":                                 "needs FILE.toml",
			file + " --rate 0":                 "--rate",
			file + " --time 0":                 "--time",
			file + " --writers 0":              "--writers",
			file + " --batch 0":                "--batch",
			file + " --speed 0.5":              "--speed",
			file + " --speed 60":               "the same clock",
			file + " --with-run --clock x":     "--with-run has the clock",
			file + " --target sandbox:mariadb": "no other process can keep",
			file + " --stall 1us":              "--stall",
			file + " --out none/run.jsonl":     "there is no folder",
		},
	} {
		for args, want := range cases {
			t.Run(of+" "+args, func(t *testing.T) {
				s := verb(t, "bench "+of+" "+args)
				wantFailure(t, s, exitUsage, want, "Try: ")
				if of != "insert" && strings.Contains(s.stderr, "insert --help") || s.stdout != "" {
					t.Errorf("stdout: %s\nstderr: %s", s.stdout, s.stderr)
				}
			})
		}
	}
	noFiles(t)
}
