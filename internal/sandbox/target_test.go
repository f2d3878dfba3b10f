package sandbox

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTarget(t *testing.T) {
	for _, test := range []struct {
		target string
		want   Options
	}{
		{"sandbox:mariadb", Options{Kind: "mariadb"}},
		{"sandbox:mariadb?", Options{Kind: "mariadb"}},
		{"sandbox:mariadb?memory=64MB", Options{Kind: "mariadb", Memory: 64 << 20}},
		{"sandbox:mariadb?memory=64MiB&redo=1G", Options{Kind: "mariadb", Memory: 64 << 20, Redo: 1 << 30}},
		{"sandbox:mariadb?memory=67108864", Options{Kind: "mariadb", Memory: 64 << 20}},
		{"sandbox:mariadb?durability=relaxed&engine=rocksdb&port=auto",
			Options{Kind: "mariadb", Durability: "relaxed", Storage: "rocksdb", Port: "auto"}},
		{"sandbox:mariadb?keep=../a+b/c%20d%26", Options{Kind: "mariadb", Keep: "../a+b/c d&"}},
		{"sandbox:mariadb?set=innodb_io_capacity=200,sql-mode=ANSI%2CTRADITIONAL&set=Init_connect=",
			Options{Kind: "mariadb", Set: map[string]string{"innodb_io_capacity": "200", "sql_mode": "ANSI,TRADITIONAL", "init_connect": ""}}},
		{"sandbox:mysql?memory=64MB&engine=innodb&redo=8MB",
			Options{Kind: "mysql", Memory: 64 << 20, Storage: "innodb", Redo: 8 << 20}},
		{"sandbox:mariadb?spider=3&set=a=b", Options{Kind: "mariadb", Nodes: 3, Set: map[string]string{"a": "b"}}},
		{"sandbox:postgres?fdw=2", Options{Kind: "postgres", Nodes: 2}},
		{"sandbox:mysql?version=9.7", Options{Kind: "mysql", Version: "9.7"}},
		{"sandbox:postgres?memory=64MB&version=18", Options{Kind: "postgres", Version: "18", Memory: 64 << 20}},
		{"sandbox:mariadb?set=optimizer_switch=mrr=on",
			Options{Kind: "mariadb", Set: map[string]string{"optimizer_switch": "mrr=on"}}},
	} {
		t.Run(test.target, func(t *testing.T) {
			got, err := ParseTarget(test.target)
			must(t, err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			again, err := ParseTarget(got.Target())
			must(t, err)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("after %s, -before +after:\n%s", got.Target(), diff)
			}
		})
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for _, test := range []struct{ target, want string }{
		{"mariadb", "does not begin with sandbox:"},
		{"sandbox:", `unknown kind of server "": allowed are mariadb`},
		{"sandbox:oracle", `unknown kind of server "oracle": allowed are mariadb`},
		{"sandbox:mysql?version=new", `version "new": want a number such as 9, 9.7 or 9.7.4`},
		{"sandbox:mysql?version=../9.7", "want a number"},
		{"sandbox:mysql?version=", "version has no value"},
		{"sandbox:mariadb?mem=1G", `unknown parameter "mem": allowed are version, memory, redo, durability, engine, port, keep, spider, replicas, semisync, galera, set`},
		{"sandbox:mysql?spider=3", `unknown parameter "spider"`},
		{"sandbox:mariadb?spider=0", `spider: "0" is not a number of servers`},
		{"sandbox:mariadb?spider=17", "spider 17: want 1 to 16"},
		{"sandbox:postgres?fdw=-1", "fdw -1: want 1 to 16"},
		{"sandbox:mariadb?root=/", `unknown parameter "root"`},
		{"sandbox:mariadb?durability=some", `unknown durability "some": allowed are full, relaxed, none`},
		{"sandbox:mariadb?engine=aria", `unknown engine "aria": allowed are innodb, rocksdb`},
		{"sandbox:mariadb?port=3306", `unknown port "3306": allowed are auto`},
		{"sandbox:mariadb?memory=", "memory has no value"},
		{"sandbox:mariadb?memory", "memory has no value"},
		{"sandbox:mariadb?memory=1X", `"1X" is not a size`},
		{"sandbox:mariadb?memory=0", "must be more than 0"},
		{"sandbox:mariadb?memory=5MB", "memory 5 MiB is too small: the server needs 6 MiB"},
		{"sandbox:mariadb?memory=64000000", "not a whole number of MiB"},
		{"sandbox:mariadb?redo=1MB", "redo 1 MiB is too small: the server needs 4 MiB"},
		{"sandbox:mariadb?memory=64MB&memory=32MB", "memory is given twice"},
		{"sandbox:mariadb?keep=%zz", "invalid URL escape"},
		{"sandbox:mariadb?set=a", `"a" is not name=value`},
		{"sandbox:mariadb?set=a=1,a=2", "a is given twice"},
		{"sandbox:mariadb?set=a=1,A=2", "a is given twice"},
		{"sandbox:mariadb?set=a%20b=1", "a name is letters"},
		{"sandbox:mariadb?set==1", "a name is letters"},
		{"sandbox:mariadb?set=innodb-buffer-pool-size=1", "innodb_buffer_pool_size can't be set in a sandbox: use memory="},
		{"sandbox:mariadb?set=datadir=/var/lib/mysql", "datadir can't be set in a sandbox"},
		{"sandbox:mariadb?set=loose-datadir=/var/lib/mysql", "loose_datadir can't be set in a sandbox"},
		{"sandbox:mysql?memory=4MB", "memory 4 MiB is too small: the server needs 5 MiB"},
		{"sandbox:mysql?redo=7MB", "redo 7 MiB is too small: the server needs 8 MiB"},
		{"sandbox:mysql?engine=rocksdb", `unknown engine "rocksdb": allowed are innodb`},
		{"sandbox:mysql?set=innodb_redo_log_capacity=1", "innodb_redo_log_capacity can't be set in a sandbox: use redo="},
		{"sandbox:mysql?set=innodb_log_file_size=1", "innodb_log_file_size can't be set in a sandbox: use redo="},
		{"sandbox:mysql?set=loose_enable_mysqlx=1", "loose_enable_mysqlx can't be set in a sandbox"},
	} {
		t.Run(test.target, func(t *testing.T) {
			o, err := ParseTarget(test.target)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("options %+v, error %v, want %s", o, err, test.want)
			}
		})
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "7b": 7, "67108864": 64 << 20, "64M": 64 << 20, "64MB": 64 << 20, "64mb": 64 << 20, "64MiB": 64 << 20,
		"64 MiB": 64 << 20, "3k": 3 << 10, "1G": 1 << 30, "2TiB": 2 << 40, "9223372036854775807": math.MaxInt64,
		"": -1, "M": -1, "-1M": -1, "+1": -1, "1.5G": -1, "1 M B": -1, "1P": -1, "0x10": -1, " 1": -1, "1  M": -1,
		"9223372036854775808": -1, "9223372036854775807k": -1, "8388608T": -1, "8388607T": 8388607 << 40,
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseSize(text)
			if err != nil {
				got = -1
			}
			if got != want {
				t.Errorf("%d, %v, want %d", got, err, want)
			}
		})
	}
}

func FuzzParseTarget(f *testing.F) {
	f.Add("sandbox:mariadb")
	f.Add("sandbox:mariadb?memory=64MB&redo=512MB&durability=full&engine=rocksdb&port=auto&keep=a/b%20c&set=a=1,b=%2C")
	f.Add("sandbox:mariadb?set=a=&set=b==&")
	f.Fuzz(func(t *testing.T, target string) {
		o, err := ParseTarget(target)
		if err != nil {
			return
		}
		if err := o.Validate(); err != nil {
			t.Fatalf("accepted, but not valid: %v", err)
		}
		again, err := ParseTarget(o.Target())
		if err != nil {
			t.Fatalf("%s: %v", o.Target(), err)
		}
		if diff := cmp.Diff(o, again); diff != "" {
			t.Fatalf("%s, -before +after:\n%s", o.Target(), diff)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	f.Add("64MB")
	f.Add("1 GiB")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseSize(text)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("negative: %d", n)
		}
		if again, err := ParseSize(FormatSize(n)); err != nil || again != n {
			t.Fatalf("%s: %d, %v", FormatSize(n), again, err)
		}
	})
}
