package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/core/rules"
)

// root is the directory of the repository.
const root = ".."

// A page is a Markdown file of the repository, or llms.txt.
type page struct {
	path   string // from the root
	blocks []block
	prose  string   // the text without blocks and code spans
	spans  []string // the code spans, without backticks
	slugs  map[string]bool
}

// A block is a fenced block of code.
type block struct {
	page string
	line int // the line of the page in which the code begins
	lang string
	code string
}

var (
	fence    = regexp.MustCompile("^( *)(```+)([a-z]*)$")
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	notSlug  = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// pages are the Markdown files of the repository, and llms.txt.
var pages = sync.OnceValues(func() (all []*page, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md" && d.Name() != "llms.txt":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		all = append(all, parsePage(filepath.ToSlash(name), string(text)))
		return err
	})
	return all, err
})

// allPages returns the pages, of which there is at least one with a Go block.
func allPages(t *testing.T) []*page {
	t.Helper()
	all, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	if len(blocksOf(all, "go")) == 0 {
		t.Fatal("no page has a Go block")
	}
	return all
}

// blocksOf returns the blocks of pages in one of the languages.
func blocksOf(pages []*page, langs ...string) (found []block) {
	for _, p := range pages {
		for _, b := range p.blocks {
			for _, lang := range langs {
				if b.lang == lang {
					found = append(found, b)
				}
			}
		}
	}
	return found
}

func parsePage(path, text string) *page {
	p := &page{path: path, slugs: map[string]bool{}}
	var prose, code strings.Builder
	var open []string // the submatches of the fence
	var begin int
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(strings.TrimRight(line, "\r"))
		switch {
		case open == nil && m != nil:
			open, begin = m, i+2
			code.Reset()
		case open == nil:
			prose.WriteString(line + "\n")
			if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
				slug := slugOf(title)
				if p.slugs[slug] {
					slug += "-1"
				}
				p.slugs[slug] = true
			}
		case m != nil && m[3] == "" && len(m[2]) >= len(open[2]):
			p.blocks = append(p.blocks, block{path, begin, open[3], code.String()})
			open = nil
		default:
			code.WriteString(strings.TrimPrefix(line, open[1]) + "\n")
		}
	}
	for _, span := range codeSpan.FindAllString(prose.String(), -1) {
		p.spans = append(p.spans, strings.Trim(span, "`"))
	}
	p.prose = codeSpan.ReplaceAllString(prose.String(), "")
	return p
}

// slugOf returns the anchor that GitHub gives to a heading.
func slugOf(title string) string {
	title = linkText.ReplaceAllString(strings.TrimSpace(title), "$1")
	return strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

// The configuration files of the pages are valid.
func TestDocs_Configurations(t *testing.T) {
	for _, b := range blocksOf(allPages(t), "yaml") {
		if isConfig(b) {
			if _, err := rules.Parse("block", []byte(b.code)); err != nil {
				t.Errorf("%s:%d: %v", b.page, b.line, err)
			}
		}
	}
}

// isConfig reports whether b is a file for package rules.
func isConfig(b block) bool {
	return b.lang == "yaml" && regexp.MustCompile(`(?m)^policies:`).MatchString(b.code)
}
