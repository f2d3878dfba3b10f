package format

import (
	"bufio"
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
	out, err := io.ReadAll(newDump(&DumpTable{of: kind, table: "t", schema: dumpSchema, offset: "+00:00"}, r))
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
		"no backslashes": {backslashed, "/*!40101 SET SQL_MODE='ANSI,NO_BACKSLASH_ESCAPES' */;INSERT INTO t (`b`, a) VALUES ('\\',1),('''\\n',2);INSERT INTO t (b,a) VALUES ('x',3)",
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
		"words for text":     {backslashed, "INSERT INTO t (b,c) VALUES (TRUE,false),(007,+1.50),(b'01000001',0x4142),(b'',X'');", "b\tc\n1\t0\n7\t1.50\nA\tAB\n\t\n", ""},
		"digits for numbers": {backslashed, "INSERT INTO t (a) VALUES (b'1010'),(0x0A),(TRUE),(x'0a'),(b'');", "a\n10\n10\n1\nx'0a'\n0\n", ""},
		"bits of postgres":   {standard, "INSERT INTO t (a, b, d) VALUES (TRUE, B'0101', B'101'), (false, X'0A', X'0A'), (1, false, '00000101'), (1, .5, '101');", "a\tb\td\n1\t0101\t0b101\n0\t00001010\t0b00001010\n1\tfalse\t00000101\n1\t0.5\t0b101\n", ""},
		"number for text":    {backslashed, "INSERT INTO t (b) VALUES (1e3);", "b\n", "1e3, a number, is for column b"},
		"bits for bytes":     {standard, "INSERT INTO t (c) VALUES (B'1');", "c\n", "column c of type  gets a literal of another type"},
		"no digits":          {backslashed, "INSERT INTO t (b) VALUES (0x);", "b\n", "\"0x)\" is not a literal"},
		"capital":            {backslashed, "INSERT INTO t (b) VALUES (0X0A);", "b\n", "is not a literal"},
		"latin1":             {backslashed, "/*!40101 SET NAMES latin1 */;INSERT INTO t (b) VALUES ('\xc3\xa9');", "", "its text is in the character set latin1"},
		"client encoding":    {standard, "SET client_encoding = 'LATIN1';COPY public.t (b) FROM stdin;\n\xc3\xa9\n\\.\n", "", "its text is in the character set LATIN1"},
		"encoding of psql":   {standard, "\\encoding WIN1252\nCOPY public.t (b) FROM stdin;\na\n\\.\n", "", "its text is in the character set WIN1252"},
		"utf8":               {backslashed, "/* set names latin1 */ /*!50503 SET NAMES utf8mb4 */;SET character_set_client = latin1;INSERT INTO t (b) VALUES ('\xc3\xa9');", "b\n\xc3\xa9\n", ""},
		"UTF8 of postgres":   {standard, "SET client_encoding TO 'UTF8';INSERT INTO t (b) VALUES ('a');", "b\na\n", ""},
		"expression":         {backslashed, "INSERT INTO t VALUES (now(),1,1,1);", header, "\"now(\" is not a literal value"},
		"default":            {backslashed, "INSERT INTO t VALUES (DEFAULT);", header, "literal"},
		"query":              {backslashed, "INSERT INTO t SELECT 1;", "", "without VALUES"},
		"other columns":      {backslashed, "INSERT INTO t (a) VALUES (1);INSERT INTO t (b) VALUES (2);", "a\n1\n", "the rows have the columns b, and those before a"},
		"too many values":    {backslashed, "INSERT INTO t VALUES (1,2,3,4,5),(1);", header + "1\t2\t3\t4\t5\n1\n", ""},
		"none":               {backslashed, "INSERT INTO u VALUES (1);", "", "no rows of a table t; it has rows of u"},
		"truncated":          {backslashed, "-- MySQL dump 10.13\n\nINSERT INTO t VALUES (1,'a');\n", header + "1\ta\n", "its last line is missing"},
		"complete":           {backslashed, "-- MariaDB dump 10.19\n\nINSERT INTO t VALUES (1,'a');\n-- Dump completed on 2026\n", header + "1\ta\n", ""},
		"cut in a string":    {backslashed, "INSERT INTO t VALUES (1,'a'),(2,'", header + "1\ta\n", "after row 1 of table t: it ends in the middle"},
		"zone":               {backslashed, "/*!40103 SET TIME_ZONE='+02:00' */;INSERT INTO t VALUES (1);", "", "--time-zone is another"},
		"utc":                {backslashed, "/*!40103 SET TIME_ZONE='+00:00' */;INSERT INTO t (a) VALUES (1);", "a\n1\n", ""},
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

// TestCutDumps cuts dumps at each byte before their last line: none is taken for a dump without
// rows.
func TestCutDumps(t *testing.T) {
	t.Parallel()
	postgres := engine.Dump{Standard: true, Marks: []string{"-- PostgreSQL database dump"}, Begin: []string{"-- PostgreSQL database dump\n"}, End: []string{"-- PostgreSQL database dump complete"}}
	mysql := backslashed
	mysql.Marks = mysql.Begin
	for end, whole := range map[string]string{
		"-- Dump completed":                    "-- MySQL dump 10.13  Distrib 5.7\n--\n/*!40101 SET NAMES utf8 */;\n\nDROP TABLE IF EXISTS `t`;\nCREATE TABLE `t` (`a` int, `b` text);\nINSERT INTO `t` VALUES (1,'a'),(2,'b');\n-- Dump completed on 2026-03-29\n",
		"-- PostgreSQL database dump complete": "--\n-- PostgreSQL database dump\n--\n\nSET x = 1;\nCREATE TABLE public.t (a int, b text);\nCOPY public.t (a, b) FROM stdin;\n1\ta\n2\tb\n\\.\n\n--\n-- PostgreSQL database dump complete\n--\n",
	} {
		for n := range strings.Index(whole, end) + len(end) {
			f := Format{Dumps: []engine.Dump{mysql, postgres}}
			must(t, f.Detect(&Input{name: "day.sql", Reader: bufio.NewReader(strings.NewReader(whole[:n]))}, true))
			if f.Kind != Dump {
				t.Fatalf("%q is %s", whole[:n], f.Kind)
			}
			if _, err := readDump(*f.dump, strings.NewReader(whole[:n])); err == nil {
				t.Errorf("%q is a whole dump", whole[:n])
			}
		}
		if _, err := readDump(map[bool]engine.Dump{true: postgres, false: mysql}[strings.Contains(whole, "COPY")], strings.NewReader(whole)); err != nil {
			t.Errorf("%q: %v", whole, err)
		}
	}
}

// TestDumpOptions: a dump on stdin is opened while records of the spool are read with the same
// options.
func TestDumpOptions(t *testing.T) {
	t.Parallel()
	o := &Reading{Table: &engine.Table{Name: "t"}}
	f := &Format{Kind: Dump, dump: &backslashed}
	_ = NewDumpTable(o, f)
	if o.Values.Bytes != "" || f.Notation(o.Values).Bytes != value.Raw {
		t.Errorf("%+v", o.Values)
	}
}

// FuzzDump: a dump that arrives in pieces has the same rows.
func FuzzDump(f *testing.F) {
	f.Add([]byte("-- MySQL dump\n/*!40103 SET TIME_ZONE='+00:00' */;INSERT INTO `t` VALUES (1,'a\\'',0x00,b'1'),(2,NULL,_binary 'x',NULL);\n"), false)
	f.Add([]byte("/*!40101 SET NAMES binary*/;\n/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\nINSERT INTO `t` VALUES(1,\"a\\\"\\n\",CONVERT(\"{}\" USING UTF8MB4),0x01)\n,(2,NULL,NULL,\"\\0\");\n"), false)
	f.Add([]byte("CREATE TABLE `t` (`a` int, `b` text) /* ; */;\nDELIMITER ;;\nCREATE TRIGGER x;;\nDELIMITER ;\nREPLACE INTO t VALUES (1,'x');-- end"), false)
	f.Add([]byte("SET standard_conforming_strings = on;\nINSERT INTO public.t OVERRIDING SYSTEM VALUE VALUES (true, E'a\\n', '\\x4d', B'1') ON CONFLICT DO NOTHING;\n"), true)
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
