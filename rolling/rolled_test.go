package rolling_test

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/rolling"
)

// TestRolled changes plain tables into tables that roll: what it returns must be a definition that
// a declaration accepts.
func TestRolled(t *testing.T) {
	for _, test := range []struct{ name, text, by, want, changes string }{
		{"mysql", "CREATE TABLE `ev` (\n  `id` bigint unsigned NOT NULL AUTO_INCREMENT,\n  `at` datetime DEFAULT NULL COMMENT 'null',\n  `who` int NOT NULL,\n  `t` text,\n" +
			"  PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`who`) USING BTREE,\n  KEY `at` (`at`),\n  FULLTEXT KEY `f` (`t`),\n  CONSTRAINT `fk` FOREIGN KEY (`who`) REFERENCES `users` (`id`) ON DELETE CASCADE\n) ENGINE=InnoDB", "`at`",
			"CREATE TABLE `ev` (\n  `id` bigint unsigned NOT NULL AUTO_INCREMENT,\n  `at` datetime  COMMENT 'null' NOT NULL,\n  `who` int NOT NULL,\n  `t` text,\n" +
				"  PRIMARY KEY (`id`, `at`),\n  UNIQUE KEY `u` (`who`, `at`) USING BTREE,\n  KEY `at` (`at`)\n) ENGINE=InnoDB",
			"column at is NOT NULL; the primary key has at; unique key u has at; the index f on (t) is left out; CONSTRAINT `fk` FOREIGN KEY (`who`) REFERENCES `users` (`id`) ON DELETE CASCADE is left out"},
		{"timestamp", "CREATE TABLE ev (id INT KEY, at TIMESTAMP NULL)", "at", "CREATE TABLE ev (id INT NOT NULL, at TIMESTAMP  NOT NULL,\n  PRIMARY KEY (id, at))", "the primary key has at; column at is NOT NULL"},
		{"laravel", "CREATE TABLE ev (id INT, at timestamp NULL DEFAULT NULL, PRIMARY KEY (id))", "at", "CREATE TABLE ev (id INT, at timestamp   NOT NULL, PRIMARY KEY (id, at))", "column at is NOT NULL; the primary key has at"},
		{"fits", "CREATE TABLE ev (id INT, at DATETIME NOT NULL, PRIMARY KEY (at, id), UNIQUE (id, at))", "at", "CREATE TABLE ev (id INT, at DATETIME NOT NULL, PRIMARY KEY (at, id), UNIQUE (id, at))", ""},
		{"sqlite", "CREATE TABLE ev (\"id\" INTEGER CONSTRAINT p PRIMARY KEY ASC ON CONFLICT ABORT AUTOINCREMENT, at TEXT /* when */, who INT REFERENCES users (id) ON DELETE SET NULL DEFERRABLE UNIQUE) STRICT;\nCREATE UNIQUE INDEX ev_u ON ev (who) WHERE who > 0", "at",
			"CREATE TABLE ev (\"id\" INTEGER NOT NULL, at TEXT NOT NULL /* when */, who INT  ,\n  PRIMARY KEY (\"id\", at),\n  UNIQUE (who, at)) STRICT;\nCREATE UNIQUE INDEX ev_u ON ev (who, at) WHERE who > 0",
			"column id no longer counts by itself; the primary key has at; column at is NOT NULL; unique key (who) has at; column who is without its REFERENCES users (id) ON DELETE SET NULL DEFERRABLE; unique index ev_u has at"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := rolling.ReadDefinition(test.text)
			if err != nil {
				t.Fatal(err)
			}
			got, changes, err := d.Rolled("at", test.by)
			if err != nil || got != test.want {
				t.Errorf("%v\n%s", err, got)
			}
			wants := strings.Split(test.changes, "; ")
			if test.changes == "" {
				wants = nil
			}
			if len(changes) != len(wants) {
				t.Fatalf("%q", changes)
			}
			for i, want := range wants {
				if !strings.HasPrefix(changes[i], want) {
					t.Errorf("%q, want %q", changes[i], want)
				}
			}
			again, err := rolling.ReadDefinition(got)
			if err != nil {
				t.Fatal(err)
			}
			if _, changes, err := again.Rolled("at", test.by); err != nil || len(changes) > 0 {
				t.Errorf("again: %v, %q", err, changes)
			}
		})
	}
	for text, want := range map[string]string{"CREATE TABLE ev (id INT PRIMARY KEY)": "no column at", "CREATE TABLE ev (at DATETIME)": "no primary key"} {
		d, err := rolling.ReadDefinition(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Rolled("at", "at"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
