package engine_test

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestHidePassword: no part of a password stays in a message, not even if the server has cut it.
func TestHidePassword(t *testing.T) {
	const password = `ge'heim\wort`
	for text, want := range map[string]string{
		"no server":                      "no server",
		"near '" + password + "'":        "near '********'",
		`near 'ge''heim\wort')'`:         "near '********')'",
		`near 'ge''heim\\wort')'`:        "near '********')'",
		`near 'ge\'heim\\wort')'`:        "near '********')'",
		`near 'eim\\wort')' at line 1`:   "the server's message has a part of the password, and is not shown",
		`PASSWORD 'ge\'heim...' is long`: "the server's message has a part of the password, and is not shown",
	} {
		if got := engine.HidePassword(errors.New(text), password).Error(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if err := errors.New("some"); engine.HidePassword(err, "") != err || engine.HidePassword(err, "other") != err || engine.HidePassword(nil, "a") != nil {
		t.Error("an error without the password is another")
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]engine.Target{
		"null:":                         {Scheme: "null"},
		"sqlite:":                       {Scheme: "sqlite"},
		"SQLITE:Test.db":                {Scheme: "sqlite", Path: "Test.db"},
		"sqlite:/var/a b.db?cache=16MB": {Scheme: "sqlite", Path: "/var/a b.db", Query: url.Values{"cache": {"16MB"}}},
		"sqlite:///var/x.db":            {Scheme: "sqlite", Path: "var/x.db"},
		"sandbox:mariadb?memory=64MB&set=a=1,b=2": {Scheme: "sandbox", Path: "mariadb", Query: url.Values{"memory": {"64MB"}, "set": {"a=1,b=2"}}},
		"mariadb://root@db1:3307/metrics":         {Scheme: "mariadb", User: "root", Host: "db1:3307", Path: "metrics"},
		"mysql://a%40b@[::1]:3306/d%3Fb":          {Scheme: "mysql", User: "a@b", Host: "[::1]:3306", Path: "d?b"},
		"mariadb://root@/db?socket=/tmp/a+b.sock": {Scheme: "mariadb", User: "root", Path: "db", Query: url.Values{"socket": {"/tmp/a b.sock"}}},
		"mariadb:///db?x=%23%26%25%2B":            {Scheme: "mariadb", Path: "db", Query: url.Values{"x": {"#&%+"}}},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := engine.ParseTarget(text)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Query) == 0 {
				got.Query = nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// Whatever is wrong with a target, its password is not in the error.
func TestParseTargetRefuses(t *testing.T) {
	const secret = "hunter2"
	for text, want := range map[string]string{
		"":                                         "no scheme",
		"readings.db":                              "no scheme",
		":x":                                       "no scheme",
		"mysql://u:hunter2@host/db":                "password on the command line",
		"mysql://u:@host/db":                       "password on the command line",
		"mysql://u:hunter2/x@host/db":              "not a URL",
		"mysql://u:hunter2%zz@host/db":             "not a URL",
		"mysql://host:port/db":                     "invalid port",
		"mysql://u@host/db?a=%zz":                  "options",
		"sqlite:x?a=%zz":                           "options",
		"mysql://u@host/db#x":                      "%23",
		"mysql://u:hunter2@ho st/db":               "not a URL",
		"mysql://u:hunter2@host/db?x=%zz":          "password on the command line",
		"mysql://u@host/db?x=%zz&p=hunter2":        "options",
		"host=db1 password=hunter2 dbname=x":       "password on the command line",
		"host=db1 PassWord = 'hunter2:x' dbname=x": "password on the command line",
		"sslpassword=hunter2 host=/tmp:1":          "password on the command line",
		"postgres:host=x password=hunter2":         "password on the command line",
		"postgres://?host=x password=hunter2":      "password on the command line",
		"mysql:u:hunter2@tcp(h)/db":                "password on the command line",
		"h=x hunter2":                              "no scheme",
		"mysql://u:hunter2@host/db#ignored":        "%23",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := engine.ParseTarget(text)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
				t.Errorf("got error %q, want one with %q and without the password", err, want)
			}
		})
	}
	target, err := engine.ParseTarget("mysql://u@host/db?password=hunter2&Pwd=hunter2")
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Options("socket"); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("an unknown option that is a password: %v", err)
	}
}

func TestOptions(t *testing.T) {
	parse := func(text string) engine.Target {
		t.Helper()
		target, err := engine.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	target := parse("sqlite:x?cache=16M&durability=none&twice=1&twice=2")
	for name, c := range map[string]struct {
		got  error
		want string
	}{
		"known":        {parse("sqlite:x?cache=1").Options("cache"), ""},
		"unknown":      {target.Options("cache", "twice"), `no option "durability"; it takes cache, twice`},
		"twice":        {target.Options("cache", "durability", "twice"), "given 2 times"},
		"none allowed": {parse("null:?a=1").Options(), "takes no options"},
	} {
		if (c.got == nil) != (c.want == "") || c.got != nil && !strings.Contains(c.got.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, c.got, c.want)
		}
	}
	if v, err := target.Choice("durability", "full", "none"); v != "none" || err != nil {
		t.Errorf("choice: %q, %v", v, err)
	}
	if v, err := target.Choice("journal", "wal", "off"); v != "wal" || err != nil {
		t.Errorf("choice by default: %q, %v", v, err)
	}
	if _, err := target.Choice("durability", "full", "relaxed"); err == nil || !strings.Contains(err.Error(), "want full, relaxed") {
		t.Errorf("no choice: %v", err)
	}
	if n, err := target.Bytes("cache", 7); n != 16<<20 || err != nil {
		t.Errorf("bytes: %d, %v", n, err)
	}
	if n, err := target.Bytes("other", 7); n != 7 || err != nil {
		t.Errorf("bytes by default: %d, %v", n, err)
	}
	if _, err := target.Bytes("durability", 7); err == nil || !strings.Contains(err.Error(), "durability: size") {
		t.Errorf("bytes of text: %v", err)
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "5B": 5, "64K": 64 << 10, "64kb": 64 << 10, "64KiB": 64 << 10, "2G": 2 << 30, "1TB": 1 << 40,
		" 16m ": 16 << 20, "4194304T": 1 << 62, "4611686018427387903": 1<<62 - 1,
	} {
		if got, err := engine.ParseBytes(text); got != want || err != nil {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "K", "iB", "5iB", "5I", "5KI", "-1", "+1", "1.5G", "1 K", "1KK", "0x10", "1_000", "4194305T", "9223372036854775808", "18446744073709551615", "١"} {
		if got, err := engine.ParseBytes(text); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", text, got)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"null:", "sqlite:/x y?cache=16MB", "mysql://u@h:1/d?socket=/a&tls=true", "mariadb:////x?a=b;c", "a://%41@[fe80::1%25eth0]/?=", "x://:p@/", "sqlite:a?b=+%2B&b=#", "x:///:@p"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := engine.ParseTarget(s)
		if err != nil {
			return
		}
		for k := range target.Query {
			switch strings.ToLower(k) {
			case "password", "passwd", "pass", "pwd", "secret", "token":
				return // not printed
			}
		}
		text := target.String()
		again, err := engine.ParseTarget(text)
		if err != nil {
			t.Fatalf("%q prints as %q: %v", s, text, err)
		}
		if !reflect.DeepEqual(target, again) {
			t.Fatalf("%q prints as %q: %+v is read as %+v", s, text, target, again)
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"64MB", "1", "4194304T", "9999999999999999999G", "1KiB", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := engine.ParseBytes(s)
		if err == nil && (n < 0 || n > 1<<62) {
			t.Fatalf("ParseBytes(%q) = %d", s, n)
		}
		if err == nil {
			if again, err := engine.ParseBytes(fmt.Sprint(n)); again != n && n < 1<<62 {
				t.Fatalf("%d is read as %d, %v", n, again, err)
			}
		}
	})
}

func TestErrors(t *testing.T) {
	cause := errors.New("row 7")
	err := engine.Classed(engine.ErrDeadlock, cause)
	if !errors.Is(err, engine.ErrDeadlock) || !errors.Is(err, cause) || err.Error() != "row 7" {
		t.Errorf("classed: %v", err)
	}
	if engine.Classed(engine.ErrDeadlock, nil) != nil || engine.Classed(nil, cause) != cause {
		t.Error("nothing to class, or no class")
	}
	for _, c := range []struct {
		class error
		want  bool
	}{
		{engine.ErrDeadlock, true}, {engine.ErrLockTimeout, true}, {engine.ErrConnectionLost, true},
		{engine.ErrDuplicateKey, false}, {engine.ErrDiskFull, false}, {engine.ErrNoPartition, false}, {engine.ErrUnreachable, false},
	} {
		if got := engine.Retryable(fmt.Errorf("insert: %w", engine.Classed(c.class, cause))); got != c.want {
			t.Errorf("%v is retryable: %v", c.class, got)
		}
	}
	var hint *engine.HintError
	if err := fmt.Errorf("open: %w", engine.Hinted(cause, "try %d", 5)); !errors.As(err, &hint) || hint.Hint != "try 5" || !errors.Is(err, cause) {
		t.Errorf("hinted: %v", err)
	}
}
