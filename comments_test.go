package rowmill_test

import (
	"go/scanner"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

// commentWidth is the maximum width of a line of comment, in characters. Examples, which are
// indented, may be wider.
const commentWidth = 100

// wideComments returns the lines of comments that are too wide. A comment behind code is not
// counted.
func wideComments(src []byte) (lines []int) {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return lines
		}
		p := files.Position(pos)
		before := string(src[p.Offset-p.Column+1 : p.Offset])
		if tok == token.COMMENT && strings.HasPrefix(text, "// ") && strings.Trim(before, "\t") == "" &&
			text[3] != ' ' && len(before)+utf8.RuneCountInString(text) > commentWidth {
			lines = append(lines, p.Line)
		}
	}
}

func TestTreeComments(t *testing.T) {
	goFiles(t, func(path string, src []byte) {
		for _, line := range wideComments(src) {
			t.Errorf("%s:%d: a comment of more than %d characters", path, line, commentWidth)
		}
	})
}

func TestTreeFindsWideComments(t *testing.T) {
	wide := strings.Repeat("wide ", 20)
	src := "package p\n\n// narrow\n// " + wide + "\n\nvar x = 1 // " + wide + "\n\t//\t" + wide + "\n"
	if got := wideComments([]byte(src)); len(got) != 1 || got[0] != 4 {
		t.Errorf("lines %v", got)
	}
}
