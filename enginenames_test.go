package rowmill_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What differs between servers is a capability, a step or a method of the
// engine. Outside the folders below, Go code that is not a test may not
//   - name an engine in a string literal (an import path is one too),
//   - name one in an identifier that it declares or uses,
//   - compare the name of a database's engine or storage engine with
//     anything but "" or another such name, switch on it, or pass it to a
//     function that compares strings.
//
// Comments may name engines. So may prose for users in proseFolders: help,
// examples and messages, which is any literal there with a space in it.
var engineFolders = []string{"internal/engine/mysql", "internal/engine/postgres", "internal/engine/sqlite", "internal/engine/null",
	"internal/engine/enginetest", "internal/target", "internal/sandbox", "internal/testdb", "internal/testservers", "internal/serve", "internal/mysqlwire"}

// proseFolders may name engines in prose.
var proseFolders = []string{"cmd/rowmill", "internal/cli"}

// nameEngines are the files that break the rule nevertheless. The test fails
// for a file of this list that keeps the rule, so the list only gets shorter.
var nameEngines = []string{
	"result/summary.go",  // old records say by its name alone that an engine stores nothing; spelling of names
	"rolling/dialect.go", // the SQL that a declaration is written in, by the scheme of its target: a table
}

var (
	// engineInText finds an engine's name in a literal. Settings of a storage
	// engine, such as innodb_page_size, are figures to show and no names.
	engineInText = regexp.MustCompile(`(?i)mysql|mariadb|postgres|sqlite|\b(innodb|rocksdb|myrocks|myisam)\b|\bpg_[a-z]`)
	engineInName = regexp.MustCompile(`(?i)mysql|mariadb|postgres|sqlite|innodb|rocksdb|^pg$`)

	// engineIdentity are the fields and methods that say which engine a
	// database has.
	engineIdentity = []string{"Engine", "Storage"}
)

// namesEngine returns where a file breaks the rule, and how.
func namesEngine(fset *token.FileSet, path string, file *ast.File) (out []string) {
	for _, dir := range engineFolders {
		if strings.HasPrefix(path, dir+"/") {
			return nil
		}
	}
	if strings.HasSuffix(path, "_test.go") {
		return nil
	}
	at := func(n ast.Node, what string) {
		out = append(out, fset.Position(n.Pos()).String()+": "+what)
	}
	compared := func(n ast.Node, x, y ast.Expr) {
		if saysEngine(x) && !saysEngine(y) && !isEmptyText(y) {
			at(n, "asks which engine it is")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			text, err := strconv.Unquote(n.Value)
			prose := strings.ContainsAny(text, " \n\t") && slices.ContainsFunc(proseFolders, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
			if err == nil && !prose && engineInText.MatchString(text) {
				at(n, "the text "+n.Value+" names an engine")
			}
		case *ast.Ident:
			if engineInName.MatchString(n.Name) {
				at(n, "the identifier "+n.Name+" names an engine")
			}
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared(n, n.X, n.Y)
				compared(n, n.Y, n.X)
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && saysEngine(n.Tag) {
				at(n, "switches on the engine")
			}
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			if pkg, ok := f.X.(*ast.Ident); ok && (pkg.Name == "strings" || pkg.Name == "slices") && len(n.Args) == 2 {
				compared(n, n.Args[0], n.Args[1])
				compared(n, n.Args[1], n.Args[0])
			}
		}
		return true
	})
	return out
}

// saysEngine reports whether an expression is the name of an engine: a field
// or a method named as one of engineIdentity.
func saysEngine(x ast.Expr) bool {
	if call, ok := x.(*ast.CallExpr); ok && len(call.Args) == 0 {
		x = call.Fun
	}
	sel, ok := x.(*ast.SelectorExpr)
	return ok && slices.Contains(engineIdentity, sel.Sel.Name)
}

func isEmptyText(x ast.Expr) bool {
	lit, ok := x.(*ast.BasicLit)
	return ok && (lit.Value == `""` || lit.Value == "``")
}

func TestTreeEngineNames(t *testing.T) {
	fset := token.NewFileSet()
	found := map[string]bool{}
	goFiles(t, func(path string, text []byte) {
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		breaks := namesEngine(fset, path, file)
		found[path] = len(breaks) > 0
		if slices.Contains(nameEngines, path) {
			return
		}
		for _, b := range breaks {
			t.Errorf("%s: make what differs a capability, a step or a method of the engine", b)
		}
	})
	for _, path := range nameEngines {
		if !found[path] {
			t.Errorf("%s no longer names an engine: remove it from nameEngines", path)
		}
	}
}

// The rule must be able to fail.
func TestTreeEngineNameRuleCatches(t *testing.T) {
	const maintain = "internal/maintain/look.go"
	for name, c := range map[string]struct {
		path, text string
		want       int
	}{
		"text":                          {maintain, `const x = "mariadb"`, 1},
		"text within prose":             {maintain, `const x = "in MySQL with a binary log"`, 1},
		"raw text":                      {maintain, "const x = `PostgreSQL`", 1},
		"URL":                           {maintain, `const x = "sqlite:"`, 1},
		"storage engine":                {maintain, `const x = "ENGINE=InnoDB"`, 1},
		"catalog of one server":         {maintain, `const x = "SELECT 1 FROM pg_class"`, 1},
		"import":                        {maintain, `import _ "github.com/rowmill/rowmill/internal/engine/postgres"`, 1},
		"setting of a storage engine":   {maintain, `const x = "innodb_page_size"`, 0},
		"comment":                       {maintain, "// MySQL locks the gap.\nvar x = 1", 0},
		"function":                      {maintain, `func drainSQLite() {}`, 1},
		"variable":                      {maintain, `var pg = true`, 1},
		"field":                         {maintain, `type t struct { mariadb bool }`, 1},
		"use of another package's name": {maintain, `var x = rolling.PostgresFamily`, 1},
		"comparison":                    {maintain, `var x = db.Info().Engine == "null"`, 1},
		"comparison with a variable":    {maintain, `var x = name != run.Engine`, 1},
		"comparison of a method":        {maintain, `var x = db.Engine() == name`, 1},
		"comparison in a function":      {maintain, `var x = strings.HasPrefix(info.Engine, "my")`, 1},
		"search in a list":              {maintain, `var x = slices.Contains(served, info.Storage)`, 1},
		"switch":                        {maintain, `func f() { switch info.Engine { case one: } }`, 1},
		"engine unknown":                {maintain, `var x = run.Engine != ""`, 0},
		"two runs of different engines": {maintain, `var x = run.Engine != other.Engine`, 0},
		"engine's folder":               {"internal/engine/mysql/mysql.go", `const x = "mysql"`, 0},
		"the contract's folder":         {"internal/engine/target.go", `const x = "mysql"`, 1},
		"target":                        {"internal/target/open.go", `const x = "mysql"`, 0},
		"test":                          {"internal/maintain/look_test.go", `const x = "mysql"`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, c.path, "package p\n"+c.text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := namesEngine(fset, c.path, file); len(got) != c.want {
				t.Errorf("got %d breaks, want %d: %q", len(got), c.want, got)
			}
		})
	}
}
