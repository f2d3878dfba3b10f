package rowmill_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits on a type: one concept each.
const (
	methodsMax = 60
	fieldsMax  = 25
)

// largeTypes are the types beyond these limits. The list must only get shorter.
var largeTypes = []string{}

// A typeSize is the size of a type, in all files of its package.
type typeSize struct{ methods, fields int }

// count adds the types and methods of a file, by folder and name.
func count(sizes map[string]typeSize, dir string, file *ast.File) {
	add := func(name string, methods, fields int) {
		s := sizes[dir+"."+name]
		sizes[dir+"."+name] = typeSize{s.methods + methods, s.fields + fields}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil {
				add(receiver(n.Recv.List[0].Type), 1, 0)
			}
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					add(n.Name.Name, 0, max(1, len(f.Names)))
				}
			}
		}
		return true
	})
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestTreeTypeSizes(t *testing.T) {
	sizes, fset := map[string]typeSize{}, token.NewFileSet()
	goFiles(t, func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		count(sizes, filepath.ToSlash(filepath.Dir(path)), file)
	})
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		s := sizes[name]
		large, listed := s.methods > methodsMax || s.fields > fieldsMax, slices.Contains(largeTypes, name)
		switch {
		case large && !listed:
			t.Errorf("%s has %d methods and %d fields, more than %d or %d: split it by concept", name, s.methods, s.fields, methodsMax, fieldsMax)
		case !large && listed:
			t.Errorf("%s has %d methods and %d fields: remove it from largeTypes", name, s.methods, s.fields)
		}
	}
	for _, name := range largeTypes {
		if _, exists := sizes[name]; !exists {
			t.Errorf("there is no type %s: remove it from largeTypes", name)
		}
	}
}

func TestTreeCountsTypes(t *testing.T) {
	const text = `package p
type t[K any] struct { a, b int; c string; fmt.Stringer; inner struct { d, e int } }
func (t[K]) x() {}
func (x *t[K]) y() { type local struct { f int } }
func z(t[int]) {}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]typeSize{}
	count(sizes, "p", file)
	if got, want := fmt.Sprint(sizes), "map[p.local:{0 1} p.t:{2 5}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
