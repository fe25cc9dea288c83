package adapter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/unexported"
)

// FuzzAppendDocument compares a document with that of encoding/json.
func FuzzAppendDocument(f *testing.F) {
	for _, text := range []string{
		"", "/orders", `Policy "burst" allows 1 request per 2 s.`, `\`, `"`, "`'/", "50 µs", "<script>&", "\x00\x1f\x7f\x80\xff",
		"\b\f\n\r\t", "\u2028\u2029", "日本", "😀", "/a%2Fb;c=d&e", `a\"<`, "\xed\xa0\x80", " ~",
	} {
		f.Add(unexported.TypeQuotaExceeded, unexported.TitleOfQuota, 429, text, "/"+text, text, "b")
		f.Add(text, text, 599, `"`+text, text+`\`, "a", text)
		f.Add(unexported.TypeQuotaExceeded, text, -1, text, "", "", text)
	}
	f.Fuzz(func(t *testing.T, kind, title string, status int, detail, instance, one, two string) {
		for _, violated := range [][]string{nil, {}, {one}, {one, two}} {
			p := &gate.Problem{Type: kind, Title: title, Status: status, Detail: detail, Instance: instance, Violated: violated}
			want, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if got := AppendProblem(nil, p); string(got) != string(want) {
				t.Fatalf("the document is\n%s, want\n%s", got, want)
			}
		}
	})
}

// A handler may change the problem of a denial, or pass one of its own.
func TestWriteProblem_Document(t *testing.T) {
	large := make([]byte, 5000)
	for i := range large {
		large[i] = 'x'
	}
	for name, c := range map[string]struct {
		method, accept, contentType string
		problem                     gate.Problem
	}{
		"a denial":           {"GET", "", gate.ProblemMediaType, gate.Problem{Type: unexported.TypeQuotaExceeded, Title: unexported.TitleOfQuota, Status: 429, Detail: `Policy "a"`, Instance: "/x", Violated: []string{"a"}}},
		"another title":      {"POST", "*/*", gate.ProblemMediaType, gate.Problem{Type: unexported.TypeQuotaExceeded, Title: "slow down", Status: 418}},
		"no member":          {"\xff<", "application/json", gate.ProblemMediaType, gate.Problem{Status: 500}},
		"longer than pooled": {"GET", "", gate.ProblemMediaType, gate.Problem{Status: 429, Detail: string(large)}},
		"text":               {"GET", " Text/HTML;q=1, */*", "text/plain; charset=utf-8", gate.Problem{Status: 429, Detail: "<b>"}},
		"HEAD":               {"HEAD", "", gate.ProblemMediaType, gate.Problem{Status: 429, Detail: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{Method: c.method, Header: http.Header{"Accept": {c.accept}}}
			for range 2 { // the second response may reuse the buffer of the first
				w := httptest.NewRecorder()
				WriteProblem(w, r, &c.problem)
				want, _ := json.Marshal(&c.problem)
				if c.contentType != gate.ProblemMediaType {
					want = []byte(c.problem.String())
				}
				if want = append(want, '\n'); c.method == http.MethodHead {
					want = nil
				}
				if got := w.Body.String(); got != string(want) || w.Code != c.problem.Status {
					t.Errorf("%d %q, want %d %q", w.Code, got, c.problem.Status, want)
				}
				if got := w.Header(); got.Get("Content-Type") != c.contentType || got.Get("X-Content-Type-Options") != "nosniff" || len(got) != 2 {
					t.Errorf("the header fields are %v", got)
				}
			}
		})
	}
}

func TestWantsText(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/*": false, "application/json": false, "application/problem+json": false,
		"text/plain": true, "text/html": true, "TEXT/HTML;q=0.1": true, " text/plain , */*": true,
		"text/plainer": false, "application/json, text/plain": false, ",text/plain": false, ";text/plain": false,
	} {
		if got := wantsText(accept); got != want {
			t.Errorf("%q: %v, want %v", accept, got, want)
		}
	}
}
