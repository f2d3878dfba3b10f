package mysql_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestReadMyCnf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text           string
		user, password string
	}{
		"plain":               {"[client]\nuser=joe\npassword=geheim\n", "joe", "geheim"},
		"spaces and comments": {"# x\n; y\n\n  [client]  \n user = joe # me\n password = 'ge#h eim' # not me\n", "joe", "ge#h eim"},
		"double quotes":       {"[client]\npassword=\"it's\"\n", "", "it's"},
		"other groups":        {"[mysqld]\nuser=mysql\n[mysql]\npassword=x\n", "", ""},
		"MariaDB's group":     {"[client-mariadb]\nuser=a\n[client]\nuser=b\n", "b", ""},
		"includes":            {"!includedir /etc/x\n[client]\nuser=joe\n", "joe", ""},
		"without a value":     {"[client]\npassword\nuser\n", "", ""},
		"hash in a word":      {"[client]\npassword=a#b\n", "", "a#b"},
		"equals sign":         {"[client]\npassword=a=b\n", "", "a=b"},
		"Windows lines":       {"[client]\r\npassword=x\r\n", "", "x"},
		"one quote":           {"[client]\npassword='x\n", "", "'x"},
		"empty":               {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), ".my.cnf")
			must(t, os.WriteFile(file, []byte(c.text), 0o600))
			user, password, err := mysql.ReadMyCnf(file)
			if err != nil || user != c.user || password != c.password {
				t.Errorf("got %q and %q, %v, want %q and %q", user, password, err, c.user, c.password)
			}
		})
	}
	if user, password, err := mysql.ReadMyCnf(filepath.Join(t.TempDir(), "none")); user+password != "" || err != nil {
		t.Errorf("without a file: %q, %q, %v", user, password, err)
	}
	if _, _, err := mysql.ReadMyCnf(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
}

// TestPassword logs in with a password from each source, and checks that it isn't
// printed or recorded.
func TestPassword(t *testing.T) {
	const user, password = "rowmill_test", "geheim 'x'"
	admin := testdb.Open(t, "mariadb").(*mysql.DB)
	for _, q := range []string{"CREATE OR REPLACE USER %s@localhost IDENTIFIED BY " + mysql.QuoteText(password), "GRANT ALL ON *.* TO %s@localhost"} {
		if _, err := admin.Pool().ExecContext(within(t), fmt.Sprintf(q, user)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { admin.Pool().Exec("DROP USER " + user + "@localhost") })
	type place struct {
		env, cnf, file string
		noUser         bool
		ok             bool
	}
	cnf := func(password string) string {
		return fmt.Sprintf("[client]\nuser = %s\npassword = \"%s\"\n", user, password)
	}
	for name, c := range map[string]place{
		"nowhere":                       {},
		"wrong":                         {env: "wrong"},
		"MYSQL_PWD":                     {env: password, ok: true},
		"my.cnf":                        {cnf: cnf(password), ok: true},
		"my.cnf with the user":          {cnf: cnf(password), noUser: true, ok: true},
		"file":                          {file: password + "\n", ok: true},
		"MYSQL_PWD goes before my.cnf":  {env: password, cnf: cnf("wrong"), ok: true},
		"file goes before all":          {env: "wrong", cnf: cnf("wrong"), file: password, ok: true},
		"wrong file goes before others": {env: password, cnf: cnf(password), file: "wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			os.Unsetenv("MYSQL_PWD")
			if c.env != "" {
				t.Setenv("MYSQL_PWD", c.env)
			}
			if c.cnf != "" {
				must(t, os.WriteFile(filepath.Join(home, ".my.cnf"), []byte(c.cnf), 0o600))
			}
			text := fmt.Sprintf("mariadb://%s@/%s?socket=%s", user, admin.Target().Path, admin.Target().Query.Get("socket"))
			if c.noUser {
				text = strings.Replace(text, user+"@", "", 1)
			}
			if c.file != "" {
				file := filepath.Join(home, "pw")
				must(t, os.WriteFile(file, []byte(c.file), 0o600))
				text += "&password-file=" + file
			}
			target, err := engine.ParseTarget(text)
			must(t, err)
			db, err := mysql.Open(within(t), target)
			if (err == nil) != c.ok {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				if strings.Contains(err.Error(), "wrong") || strings.Contains(err.Error(), "geheim") {
					t.Errorf("the error tells the password: %v", err)
				}
				return
			}
			defer db.Close()
			info, err := json.Marshal(db.Info())
			if err != nil || strings.Contains(string(info), "geheim") {
				t.Errorf("info tells the password: %s, %v", info, err)
			}
			settings, err := db.Catalog().Settings(within(t))
			if err != nil || strings.Contains(fmt.Sprint(settings), "geheim") {
				t.Errorf("settings tell the password, or %v", err)
			}
		})
	}
}

// TestDry: neither a server nor a file is accessed, and the statements are the same
// as in a run.
func TestDry(t *testing.T) {
	t.Setenv("HOME", "/nowhere")
	for text, want := range map[string]engine.Info{
		"mariadb://joe@db1/x":                                   {Engine: "mariadb", Storage: "InnoDB"},
		"mysql://db1:3307/x?engine=rocksdb":                     {Engine: "mysql", Storage: "ROCKSDB"},
		"mariadb:///x?socket=/nowhere&password-file=/nowhere/x": {Engine: "mariadb", Storage: "InnoDB"},
		"mariadb:///x?socket=/nowhere&engine=Aria":              {Engine: "mariadb", Storage: "Aria"},
	} {
		target, err := engine.ParseTarget(text)
		must(t, err)
		db, err := mysql.Dry(target)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want.Target = target.String()
		if db.Info() != want {
			t.Errorf("%s: %+v, want %+v", text, db.Info(), want)
		}
		if len(db.Capabilities().Methods) != 4 {
			t.Errorf("%s: %+v", text, db.Capabilities())
		}
	}
	target, err := engine.ParseTarget("mariadb://db1/")
	must(t, err)
	if _, err := mysql.Dry(target); err == nil {
		t.Error("a target without a database")
	}
}
