package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTableNamesTheCode: the comment beside each row leads to the function that answers.
func TestTableNamesTheCode(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "dispatch.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[int]string{} // by line
	for _, g := range file.Comments {
		comments[fset.Position(g.Pos()).Line] = g.Text()
	}
	rows := 0
	for _, d := range file.Decls {
		ast.Inspect(d, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || lit.Type != nil || len(lit.Elts) != 5 { // the elements of apis leave their type out
				return true
			}
			rows++
			line := fset.Position(lit.End()).Line
			key := strings.TrimPrefix(lit.Elts[0].(*ast.SelectorExpr).Sel.Name, "Key")
			checkRow(t, line, strings.TrimSpace(comments[line]), key, methodOf(lit.Elts[4], key))
			return false
		})
	}
	if rows != len(apis) {
		t.Errorf("%d rows were read, the table has %d", rows, len(apis))
	}
}

// methodOf is the name of the method that a handler is made of: typed((*broker.Broker).Produce). What is handed to the
// controller is there a method with the name of the API.
func methodOf(handler ast.Expr, key string) string {
	call, ok := handler.(*ast.CallExpr)
	if !ok {
		return key
	}
	return call.Args[0].(*ast.SelectorExpr).Sel.Name
}

func checkRow(t *testing.T, line int, comment, key, method string) {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func \((\w+ )?\*\w+\) ` + method + `\(`)
	found := false
	for name := range strings.SplitSeq(comment, ", ") {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		if err != nil {
			t.Errorf("dispatch.go:%d: %s: its comment names no file: %v", line, key, err)
			return
		}
		found = found || function.Match(text)
	}
	if !found {
		t.Errorf("dispatch.go:%d: %s is in none of: %s", line, method, comment)
	}
}
