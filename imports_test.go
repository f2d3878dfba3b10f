package rowmill_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rowmill/rowmill"

// anything in the table stands for every package of the module.
const anything = "anything"

// mayImport is the import rule: what of this module each package may import
// outside its tests. docs/architecture.md has the same table for people, and
// TestTreeDocs compares the two.
var mayImport = map[string][]string{
	"":                           {},
	"rolling":                    {"internal/sqltext", "internal/tomlfile"},
	"result":                     {"internal/figure"},
	"internal/sandbox":           {},
	"internal/value":             {},
	"internal/engine":            {"internal/sqltext", "rolling", "internal/value", "internal/textfile"},
	"internal/mysqlwire":         {},
	"internal/sqltext":           {},
	"internal/engine/mysql":      {"internal/sqltext", "internal/engine", "internal/mysqlwire", "rolling", "internal/value", "internal/textfile", "internal/figure"},
	"internal/engine/postgres":   {"internal/sqltext", "internal/engine", "rolling", "internal/value"},
	"internal/engine/sqlite":     {"internal/sqltext", "internal/engine", "rolling", "internal/value"},
	"internal/engine/null":       {"internal/engine", "rolling"},
	"internal/engine/enginetest": {"internal/engine", "rolling", "internal/value"},
	"internal/bench":             {"internal/engine", "rolling", "result"},
	"internal/workload":          {"internal/workload/column", "internal/workload/draw", "internal/workload/sample", "internal/bench", "internal/engine", "rolling", "internal/value", "internal/figure", "result"},
	"internal/workload/column":   {"internal/workload/draw", "internal/engine", "rolling", "internal/value"},
	"internal/workload/draw":     {},
	"internal/workload/sample":   {"internal/workload/column", "internal/workload/draw", "internal/engine", "rolling", "internal/value"},
	"internal/workload/disk":     {"internal/engine", "internal/figure", "result"},
	"internal/workload/oltp":     {"internal/workload", "internal/workload/draw", "internal/bench", "internal/engine", "rolling", "internal/value", "internal/figure", "result"},
	"internal/probe":             {"internal/engine", "result", "internal/figure"},
	"internal/ingest": {"internal/ingest/format", "internal/ingest/lane", "internal/ingest/spool", "internal/engine", "rolling", "internal/value",
		"internal/state", "internal/textfile", "internal/figure"},
	"internal/ingest/format":  {"internal/engine", "rolling", "internal/value", "internal/state", "internal/figure"},
	"internal/ingest/lane":    {"internal/ingest/format", "internal/engine", "rolling", "internal/state", "internal/figure"},
	"internal/ingest/spool":   {},
	"internal/ingest/receive": {"internal/ingest", "internal/ingest/format", "internal/ingest/spool", "internal/engine", "internal/value", "internal/figure"},
	"internal/maintain": {"internal/engine", "rolling", "internal/state", "internal/maintain/copier", "internal/maintain/rollup", "internal/maintain/archive",
		"internal/maintain/adopt", "internal/figure"},
	"internal/maintain/schedule": {"internal/maintain", "internal/engine", "rolling", "internal/state", "internal/figure"},
	"internal/maintain/apply": {"internal/maintain", "internal/maintain/adopt", "internal/maintain/rollup", "internal/engine", "rolling", "internal/state",
		"internal/figure"},
	"internal/state":            {"internal/engine", "rolling"},
	"internal/maintain/copier":  {"internal/engine", "rolling", "internal/value", "internal/state", "internal/figure"},
	"internal/maintain/rollup":  {"internal/engine", "rolling", "internal/value", "internal/state", "internal/maintain/copier", "internal/figure"},
	"internal/maintain/archive": {"internal/engine", "rolling", "internal/value", "internal/tabular", "internal/figure"},
	"internal/maintain/adopt":   {"internal/engine", "rolling", "internal/value", "internal/state", "internal/maintain/copier", "internal/figure"},
	"internal/monitor":          {"internal/maintain", "internal/maintain/schedule", "internal/figure"},
	"internal/replicate":        {"internal/figure"},
	"internal/query":            {"internal/query/rollup", "internal/sqltext", "internal/engine", "rolling", "internal/value", "internal/state", "internal/figure", "internal/query/parse", "internal/query/plan", "internal/query/merge"},
	"internal/query/parse":      {"internal/sqltext", "internal/engine"},
	"internal/query/plan":       {"internal/sqltext", "internal/engine", "rolling", "internal/value", "internal/query/parse"},
	"internal/query/rollup":     {"internal/sqltext", "internal/engine", "rolling", "internal/value", "internal/query/parse", "internal/query/plan"},
	"internal/query/merge":      {"internal/engine", "internal/query/plan"},
	"internal/serve":            {"internal/sqltext", "internal/query", "internal/query/parse", "internal/query/plan", "internal/engine", "internal/mysqlwire", "internal/serve/session", "internal/figure"},
	"internal/serve/session":    {"internal/sqltext", "internal/query/parse", "internal/engine", "internal/mysqlwire"},
	"internal/tabular":          {"internal/engine", "internal/value", "internal/figure"},
	"internal/advise":           {"internal/engine", "rolling", "internal/value", "internal/state", "internal/sizing", "internal/figure"},
	"internal/report/document":  {"internal/figure"},
	"internal/report/tables":    {"internal/report/document", "internal/advise", "internal/figure", "internal/maintain", "internal/sizing"},
	"internal/report/reference": {"internal/report/document", "internal/statistics", "internal/figure", "result"},
	"internal/report/series":    {"internal/report/document", "internal/figure", "result"},
	"internal/report/capacity":  {"internal/report/document", "internal/statistics", "internal/figure", "result"},
	"internal/report/oneline":   {"internal/report/document", "internal/figure", "result"},
	"internal/report":           {"internal/report/document", "internal/report/capacity", "internal/report/reference", "internal/report/series", "internal/report/oneline", "result", "internal/figure", "internal/statistics"},
	"internal/statistics":       {"result"},
	"internal/experiment": {"internal/maintain/schedule", "internal/maintain/apply", "internal/experiment/ask", "internal/experiment/kill", "internal/experiment/record", "internal/experiment/scenario", "internal/experiment/upkeep",
		"internal/bench", "internal/engine", "internal/figure", "internal/maintain", "internal/probe", "internal/sandbox", "internal/target", "internal/workload", "internal/workload/disk",
		"internal/workload/oltp", "internal/statistics", "result", "rolling"},
	"internal/experiment/ask":  {"internal/engine", "internal/query", "internal/serve", "internal/target", "internal/workload", "result"},
	"internal/experiment/kill": {"internal/bench", "internal/engine", "internal/sandbox"},
	"internal/experiment/scenario": {"internal/engine", "internal/figure", "internal/sandbox", "internal/target", "internal/textfile", "internal/tomlfile", "internal/workload",
		"internal/workload/disk", "internal/workload/oltp", "result"},
	"internal/experiment/record": {"internal/bench", "internal/engine", "internal/textfile", "result"},
	"internal/experiment/upkeep": {"internal/engine", "internal/figure", "internal/maintain", "internal/probe", "internal/state", "internal/workload", "result"},
	"internal/sizing":            {"internal/engine", "internal/value", "internal/workload/column", "internal/workload/draw", "rolling", "result", "internal/figure"},
	"internal/target": {"internal/engine", "internal/engine/mysql", "internal/engine/null", "internal/engine/postgres", "internal/engine/sqlite",
		"internal/sandbox"},
	"internal/declared":    {"internal/engine", "rolling", "internal/maintain", "internal/maintain/apply", "internal/maintain/schedule", "internal/target", "internal/textfile"},
	"internal/testdb":      {"internal/engine", "rolling", "internal/sandbox", "internal/target"},
	"internal/testbrowser": {"internal/testdb"},
	"internal/testservers": {"internal/testdb"},
	"internal/live":        {"internal/engine", "result", "internal/figure"},
	"internal/figure":      {},
	"internal/textfile":    {},
	"internal/tomlfile":    {},
	"internal/cli":         {"internal/engine", "internal/experiment", "internal/figure", "internal/live", "internal/textfile", "internal/tomlfile"},
	"internal/cli/measure": {"internal/workload/sample", "internal/report/oneline", "internal/experiment/scenario", "internal/experiment/record", "internal/cli", "internal/declared", "internal/engine", "internal/experiment", "internal/figure", "internal/live", "internal/maintain", "internal/report",
		"internal/report/document", "internal/target", "internal/textfile", "internal/workload", "internal/workload/disk", "internal/workload/oltp", "result", "rolling"},
	"cmd/rowmill": {anything},
}

// engines are the packages that only internal/target and tests may name.
var engines = []string{"internal/engine/mysql", "internal/engine/postgres", "internal/engine/sqlite", "internal/engine/null"}

// namesEngines are the packages outside tests that may.
var namesEngines = []string{"internal/target"}

// testsMayAlsoImport is what any package's tests may import besides.
var testsMayAlsoImport = slices.Concat(engines, []string{"internal/testdb", "internal/testbrowser", "internal/engine/enginetest"})

// externalTestsMayImport is what the external tests of a package may import in addition: packages
// that use the tested one, and without which nothing can be set up.
var externalTestsMayImport = map[string][]string{"internal/maintain": {"internal/maintain/apply", "internal/maintain/schedule"}}

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func goList(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 5 {
		t.Fatalf("go list found %d packages: run the test in the module's root", len(pkgs))
	}
	return pkgs
}

// breaches returns what of a package's imports the table forbids.
func breaches(p listed) []string {
	name := local(p.ImportPath)
	allowed, known := mayImport[name]
	if !known {
		return []string{"package " + name + " is unknown: add it to the table here and to docs/architecture.md"}
	}
	if slices.Contains(allowed, anything) {
		return nil
	}
	var out []string
	check := func(kind string, imports, allowed []string) {
		for _, path := range imports {
			if path != module && !strings.HasPrefix(path, module+"/") {
				continue
			}
			if dep := local(path); dep != name && !slices.Contains(allowed, dep) {
				out = append(out, "package "+name+kind+" imports "+dep+
					", which the table forbids: let the shared need sink into engine or rolling")
			}
		}
	}
	inTests := slices.Concat(allowed, testsMayAlsoImport)
	check("", p.Imports, allowed)
	check(" in its tests", p.TestImports, inTests)
	check(" in its tests", p.XTestImports, slices.Concat(inTests, externalTestsMayImport[name]))
	return out
}

// local returns an import path within the module, "" for its root.
func local(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

func TestTreeImports(t *testing.T) {
	for _, p := range goList(t) {
		for _, b := range breaches(p) {
			t.Error(b)
		}
	}
}

// The rule must be able to fail.
func TestTreeImportRuleCatches(t *testing.T) {
	for name, c := range map[string]struct {
		pkg  listed
		want int
	}{
		"unknown package":           {listed{ImportPath: module + "/helpers"}, 1},
		"two breaches":              {listed{ImportPath: module + "/internal/report", Imports: []string{module + "/internal/engine", module + "/internal/bench", "fmt"}}, 2},
		"engine named by bench":     {listed{ImportPath: module + "/internal/bench", Imports: []string{module + "/internal/engine/mysql"}}, 1},
		"one engine by another":     {listed{ImportPath: module + "/internal/engine/mysql", Imports: []string{module + "/internal/engine/null"}}, 1},
		"test database in code":     {listed{ImportPath: module + "/internal/bench", Imports: []string{module + "/internal/testdb"}}, 1},
		"root in code":              {listed{ImportPath: module + "/internal/bench", Imports: []string{module}}, 1},
		"test database in tests":    {listed{ImportPath: module + "/internal/bench", XTestImports: []string{module + "/internal/testdb"}}, 0},
		"neighbour in tests":        {listed{ImportPath: module + "/internal/report", TestImports: []string{module + "/internal/bench"}}, 1},
		"a package's external test": {listed{ImportPath: module + "/rolling", XTestImports: []string{module + "/rolling"}}, 0},
		"command":                   {listed{ImportPath: module + "/cmd/rowmill", Imports: []string{module + "/internal/engine/null"}}, 0},
		"allowed":                   {listed{ImportPath: module + "/internal/sizing", Imports: []string{module + "/result", "golang.org/x/sys/unix"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := breaches(c.pkg); len(got) != c.want {
				t.Errorf("got %d breaches, want %d: %q", len(got), c.want, got)
			}
		})
	}
}

func TestTreeOnlySomeNameEngines(t *testing.T) {
	for pkg, allowed := range mayImport {
		for _, e := range engines {
			if slices.Contains(allowed, e) && !slices.Contains(namesEngines, pkg) {
				t.Errorf("the table lets %s name %s: only %s and tests may", pkg, e, strings.Join(namesEngines, ", "))
			}
		}
	}
}

// The table in the docs is the table of this test.
func TestTreeDocs(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	words := func(s string) (out []string) {
		for _, m := range quoted.FindAllStringSubmatch(s, -1) {
			out = append(out, m[1])
		}
		return out
	}
	docs := map[string][]string{"": {}}
	_, table, found := strings.Cut(string(text), "| package | may import, of ours |\n|---|---|\n")
	if !found {
		t.Fatal("docs/architecture.md has no table of imports")
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			break
		}
		to := words(cells[2])
		if strings.TrimSpace(cells[2]) == anything {
			to = []string{anything}
		}
		for _, from := range words(cells[1]) {
			docs[from] = to
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(mayImport)) {
		want, got := slices.Sorted(slices.Values(mayImport[pkg])), slices.Sorted(slices.Values(docs[pkg]))
		if _, ok := docs[pkg]; !ok {
			t.Errorf("docs/architecture.md: no row for %s", pkg)
		} else if !slices.Equal(got, want) {
			t.Errorf("docs/architecture.md: %s may import %v, the test says %v", pkg, got, want)
		}
		delete(docs, pkg)
	}
	for pkg := range docs {
		t.Errorf("docs/architecture.md: %s is not in the test's table", pkg)
	}
}

// Limits on the lines of a Go file: one subject each.
const (
	linesWarn = 800
	linesMax  = 900
)

// vagueNames say nothing about what a package is for.
var vagueNames = []string{"util", "utils", "common", "base", "pkg", "helpers", "misc"}

// goFiles calls fn for each Go file of the tree, also those for other systems.
func goFiles(t *testing.T, fn func(path string, text []byte)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		fn(path, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 10 {
		t.Fatalf("found %d Go files: run the test in the module's root", n)
	}
}

func TestTreeFiles(t *testing.T) {
	fset := token.NewFileSet()
	goFiles(t, func(path string, text []byte) {
		switch n := bytes.Count(text, []byte("\n")); {
		case n > linesMax:
			t.Errorf("%s has %d lines, more than %d: split it by subject", path, n, linesMax)
		case n > linesWarn:
			t.Logf("%s has %d lines, more than %d", path, n, linesWarn)
		}
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, dir := range append(strings.Split(filepath.ToSlash(filepath.Dir(path)), "/"), file.Name.Name) {
			if slices.Contains(vagueNames, strings.TrimSuffix(dir, "_test")) {
				t.Errorf("%s: a package or folder named %s: name it after what it is for", path, dir)
			}
		}
		if !strings.HasSuffix(path, "_test.go") && hasInit(file) {
			t.Errorf("%s: func init: pass what is needed to a constructor instead", path)
		}
	})
}

func hasInit(file *ast.File) bool {
	return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		return ok && fn.Recv == nil && fn.Name.Name == "init"
	})
}

func TestTreeFindsInit(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"function": {"package p\nfunc init() {}", true},
		"method":   {"package p\ntype t int\nfunc (t) init() {}", false},
		"variable": {"package p\nvar x = func() int { return 1 }()", false},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "p.go", c.text, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := hasInit(file); got != c.want {
				t.Errorf("hasInit = %v, want %v", got, c.want)
			}
		})
	}
}

// lexicalFolders are the packages that may use the fields of sqltext.Syntax: the scanner, the
// parser, and the engines that fill them in. Elsewhere they would say which server it is: what else
// differs is a field of engine.Semantics.
var lexicalFolders = []string{"internal/sqltext/", "internal/query/parse/", "internal/engine/mysql/", "internal/engine/postgres/", "internal/engine/sqlite/"}

// lexical returns where a file uses a field of sqltext.Syntax.
func lexical(fset *token.FileSet, file *ast.File, fields map[string]bool) (out []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && fields[s.Sel.Name] {
			out = append(out, fset.Position(s.Sel.Pos()).String()+": uses the lexical flag "+s.Sel.Name)
		}
		return true
	})
	return out
}

// structFields returns the names of the fields of a struct in a file.
func structFields(file *ast.File, name string) map[string]bool {
	fields := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			for _, id := range f.Names {
				fields[id.Name] = true
			}
		}
		return false
	})
	return fields
}

func syntaxFields(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "internal/sqltext/syntax.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	fields := structFields(file, "Syntax")
	if len(fields) < 10 {
		t.Fatalf("sqltext.Syntax has %d fields", len(fields))
	}
	return fields
}

func TestTreeLexicalFlags(t *testing.T) {
	fset, fields := token.NewFileSet(), syntaxFields(t)
	goFiles(t, func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") || slices.ContainsFunc(lexicalFolders, func(dir string) bool { return strings.HasPrefix(path, dir) }) {
			return
		}
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, use := range lexical(fset, file, fields) {
			t.Errorf("%s: make what differs a field of engine.Semantics", use)
		}
	})
}

// The rule must be able to fail.
func TestTreeLexicalFlagRuleCatches(t *testing.T) {
	fields := syntaxFields(t)
	for text, want := range map[string]int{
		"var x = b.syntax.Casts":                       1,
		"func f() { syntax.Backslash = s.Introducer }": 2,
		"var x = b.traits.NullsLast":                   0,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", "package p\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := lexical(fset, file, fields); len(got) != want {
			t.Errorf("%s: got %q, want %d", text, got, want)
		}
	}
}
