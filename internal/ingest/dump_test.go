package ingest

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// dumpSchema is the table into which the dumps of the tests are read.
var dumpSchema = &engine.Schema{Name: "t", Columns: []engine.SchemaColumn{{Name: "a", Type: value.Type{Kind: value.Int, Bits: 64}},
	{Name: "b", Type: value.Type{Kind: value.Text}}, {Name: "c", Type: value.Type{Kind: value.Bytes}}, {Name: "d", Type: value.Type{Kind: value.Bytes, Logical: value.Bit, Bits: 8}}}}

// backslashed and standard are two kinds of dumps.
var (
	backslashed = engine.Dump{Begin: []string{"-- MySQL dump ", "-- MariaDB dump "}, End: []string{"-- Dump completed"}}
	standard    = engine.Dump{Standard: true}
)

func readDump(kind engine.Dump, r io.Reader) (string, error) {
	out, err := io.ReadAll(newDump(&dumpFormat{of: kind, table: "t", schema: dumpSchema, offset: "+00:00"}, r))
	return string(out), err
}

func TestDump(t *testing.T) {
	t.Parallel()
	const header = "a\tb\tc\td\n"
	for name, c := range map[string]struct {
		kind       engine.Dump
		text       string
		want, fail string
	}{
		"values": {backslashed, "INSERT INTO `t` VALUES (1,\"it's\\\"\",'',NULL),(1,'it''s \\' \\\"\\\\n\\n\\t\\0\\Z\\%',_binary 'a\\0',b'101'),(-2.5e3 , NULL,0x00ff,0x05),\n(3,'',X'4d4D',b'0');\n",
			header + "1\tit's\"\t\t\\N\n1\tit's ' \"\\\\n\\n\\t\x00\x1a\\\\%\ta\x00\t0b101\n-2.5e3\t\\N\t\x00\xff\t0x05\n3\t\tMM\t0b0\n", ""},
		"no backslashes": {backslashed, "/*!40101 SET SQL_MODE='ANSI,NO_BACKSLASH_ESCAPES' */;INSERT INTO t (`b`, a) VALUES ('\\',1),('''\\n',2);INSERT INTO t (a,b) VALUES (3,'x')",
			"b\ta\n\\\\\t1\n'\\\\n\t2\nx\t3\n", "in the middle of a statement"},
		"other statements": {backslashed, "-- INSERT INTO t VALUES (1);\n/* ; ' */ DROP TABLE IF EXISTS `t`; # it's\nCREATE TABLE `t` (`b` text COMMENT 'x, (y'';', `a` int(3), KEY `k` (`a`,`b`), CONSTRAINT `z` CHECK (`a` in (1,2))) PARTITION BY RANGE (`a`) (PARTITION `p;` VALUES LESS THAN (3));\n" +
			"LOCK TABLES `t` WRITE;\nINSERT INTO `u` VALUES (1,'INSERT INTO t VALUES (1);\\'');INSERT INTO `x`.`t` VALUES ('b',1);\nDELIMITER ;;\nCREATE TRIGGER x INSERT INTO t VALUES (9,9);\nEND ;;\nDELIMITER ;\nUNLOCK TABLES;INSERT IGNORE INTO t VALUES('c',2) ON DUPLICATE KEY UPDATE a=';';",
			"b\ta\nb\t1\nc\t2\n", ""},
		"modes of a trigger":       {backslashed, "INSERT INTO t (b) VALUES ('\\'');SET sql_mode = 'NO_BACKSLASH_ESCAPES';SET sql_mode = @saved_sql_mode;INSERT INTO t (b) VALUES ('\\'x');", "b\n'\n'x\n", ""},
		"letters of other lengths": {backslashed, "/* " + strings.Repeat("\u0250", 30) + " time_zone */INSERT INTO t (a) VALUES (1);", "a\n1\n", ""},
		"converted":                {backslashed, "INSERT INTO t(b) VALUES (CONVERT('{\"a\": 1}' USING UTF8MB4)),(convert(0x7b7d using utf8))", "b\n{\"a\": 1}\n{}\n", "middle"},
		"copy": {standard, "SET standard_conforming_strings = on;\nCREATE FUNCTION f() AS $x$ BEGIN; INSERT INTO t VALUES ('x'); $x$;\nCOPY public.u (a) FROM stdin;\nt;\n\\.\n" +
			"COPY public.t (b, c, a) FROM stdin;\nx\\ty\\\\\t\\\\x00ff\tt\n\\N\t\\N\t\\N\n\\.\n", "b\tc\ta\nx\\ty\\\\\t\x00\xff\t1\n\\N\t\\N\t\\N\n", ""},
		"inserts of postgres": {standard, "\\restrict x\nINSERT INTO public.t OVERRIDING SYSTEM VALUE VALUES (true, 'a\\n''b', '\\x4d4d', B'101'), (-1, E'a\\n\\'', '', NULL);\n",
			header + "1\ta\\\\n'b\tMM\t0b101\n-1\ta\\n'\t\t\\N\n", ""},
		"expression":      {backslashed, "INSERT INTO t VALUES (now(),1,1,1);", header, "\"now(\" is not a literal value"},
		"default":         {backslashed, "INSERT INTO t VALUES (DEFAULT);", header, "literal"},
		"query":           {backslashed, "INSERT INTO t SELECT 1;", "", "want VALUES"},
		"other columns":   {backslashed, "INSERT INTO t (a) VALUES (1);INSERT INTO t (b) VALUES (2);", "a\n1\n", "the rows have the columns b, and those before a"},
		"too many values": {backslashed, "INSERT INTO t VALUES (1,2,3,4,5),(1);", header + "1\t2\t3\t4\t5\n1\n", ""},
		"none":            {backslashed, "INSERT INTO u VALUES (1);", "", "no rows of a table t; it has rows of u"},
		"truncated":       {backslashed, "-- MySQL dump 10.13\n\nINSERT INTO t VALUES (1,'a');\n", header + "1\ta\n", "its last line is missing"},
		"complete":        {backslashed, "-- MariaDB dump 10.19\n\nINSERT INTO t VALUES (1,'a');\n-- Dump completed on 2026\n", header + "1\ta\n", ""},
		"cut in a string": {backslashed, "INSERT INTO t VALUES (1,'a'),(2,'", header + "1\ta\n", "after row 1 of table t: it ends in the middle"},
		"zone":            {backslashed, "/*!40103 SET TIME_ZONE='+02:00' */;INSERT INTO t VALUES (1);", "", "--time-zone is another"},
		"utc":             {backslashed, "/*!40103 SET TIME_ZONE='+00:00' */;INSERT INTO t (a) VALUES (1);", "a\n1\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readDump(c.kind, strings.NewReader(c.text))
			if c.want != got {
				t.Errorf("%q\nwant %q", got, c.want)
			}
			if (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Errorf("error %v, want %q", err, c.fail)
			}
		})
	}
}

// FuzzDump: a dump that arrives in pieces has the same rows.
func FuzzDump(f *testing.F) {
	f.Add([]byte("-- MySQL dump\n/*!40103 SET TIME_ZONE='+00:00' */;INSERT INTO `t` VALUES (1,'a\\'',0x00,b'1'),(2,NULL,_binary 'x',NULL);\n"), false)
	f.Add([]byte("COPY t (a, b) FROM stdin;\n1\t\\N\n\\.\nINSERT INTO t (b,a) VALUES ('x', 1);CREATE TABLE t (a int, b text);$$;$$;"), true)
	f.Fuzz(func(t *testing.T, text []byte, pg bool) {
		kind := backslashed
		if pg {
			kind = standard
		}
		want, wantErr := readDump(kind, bytes.NewReader(text))
		for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(text)), iotest.HalfReader(bytes.NewReader(text)), iotest.DataErrReader(bytes.NewReader(text))} {
			got, err := readDump(kind, r)
			if got != want || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("%q: %q, %v, want %q, %v", text, got, err, want, wantErr)
			}
		}
		if len(want) > 0 && !strings.HasSuffix(want, "\n") {
			t.Errorf("%q: %q has a row without an end", text, want)
		}
	})
}
