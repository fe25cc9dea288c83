package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A mutant is a change of one place of a file.
type mutant struct {
	file     string // its path
	name     string // its path below the root of the repository
	line     int
	from, to int    // the bytes that are replaced
	text     string // of the file
	with     string
}

// change describes m.
func (m mutant) change() string {
	short := func(s string) string {
		if s = strings.Join(strings.Fields(s), " "); utf8.RuneCountInString(s) > 60 {
			s = string([]rune(s)[:60]) + "..."
		}
		return strings.NewReplacer("|", "∣", "`", "'").Replace(s)
	}
	begin := strings.LastIndexByte(m.text[:m.from], '\n') + 1
	end := m.to + strings.IndexByte(m.text[m.to:]+"\n", '\n')
	if m.with == "" {
		return "without " + short(m.text[m.from:m.to])
	}
	return short(m.text[begin:m.from]+"⟦"+m.text[m.from:m.to]+"⟧"+m.text[m.to:end]) + " → " + short(m.with)
}

// mutated returns the text of the file with the change.
func (m mutant) mutated() string { return m.text[:m.from] + m.with + m.text[m.to:] }

// find returns all mutants of the files of a package below root, tests apart.
func find(root, name string) (all []mutant, err error) {
	for _, pattern := range []string{"*.go", "lua/*.lua"} {
		files, err := filepath.Glob(filepath.Join(root, name, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			places := luaPlaces
			switch {
			case strings.HasSuffix(file, "_test.go"), strings.HasSuffix(file, "doc.go"):
				continue
			case strings.HasSuffix(file, ".go"):
				places = goPlaces
			}
			found, err := places(string(text))
			if err != nil {
				return nil, err
			}
			for _, m := range found {
				m.file, m.text = file, string(text)
				m.line = 1 + strings.Count(m.text[:m.from], "\n")
				m.name = strings.TrimPrefix(file, root+"/")
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// operators are the replacements of operators.
var operators = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.REM: "*",
	token.AND: "|", token.OR: "&", token.SHL: ">>", token.SHR: "<<",
}

// goPlaces returns the changes of a Go file: another operator, another number, a condition that is always
// true or false, a statement that is left out, another Boolean.
func goPlaces(text string) (all []mutant, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "", text, 0)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return files.Position(p).Offset }
	add := func(from, to int, with string) { all = append(all, mutant{from: from, to: to, with: with}) }
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.IMPORT && n.Tok != token.TYPE
		case *ast.BinaryExpr:
			if with, ok := operators[n.Op]; ok {
				add(at(n.OpPos), at(n.OpPos)+len(n.Op.String()), with)
			}
		case *ast.BasicLit:
			if n.Kind == token.INT {
				add(at(n.Pos()), at(n.End()), "("+n.Value+" + 1)")
			}
		case *ast.IfStmt:
			add(at(n.Cond.Pos()), at(n.Cond.End()), "!("+text[at(n.Cond.Pos()):at(n.Cond.End())]+")")
		case *ast.Ident:
			switch n.Name {
			case "true":
				add(at(n.Pos()), at(n.End()), "false")
			case "false":
				add(at(n.Pos()), at(n.End()), "true")
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt:
			add(at(n.Pos()), at(n.End()), "")
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				add(at(n.Pos()), at(n.End()), "")
			}
		}
		return true
	})
	return all, nil
}

var (
	luaComment  = regexp.MustCompile(`--[^\n]*`)
	luaOperator = regexp.MustCompile(` (==|~=|<=|>=|<|>|\+|-|and|or) |\b[0-9]+\b`)
	luaWith     = map[string]string{"==": "~=", "~=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "+": "-", "-": "+", "and": "or", "or": "and"}
)

// luaPlaces returns the changes of a script: another operator or another number.
func luaPlaces(text string) (all []mutant, err error) {
	code := luaComment.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat(" ", len(s)) })
	for _, at := range luaOperator.FindAllStringIndex(code, -1) {
		found := code[at[0]:at[1]]
		word := strings.TrimSpace(found)
		with, ok := luaWith[word]
		if !ok {
			with = "(" + word + " + 1)"
		}
		from := at[0] + strings.Index(found, word)
		all = append(all, mutant{from: from, to: from + len(word), with: with})
	}
	return all, nil
}
