package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	graphgophers "github.com/graph-gophers/graphql-go"
	"github.com/graph-gophers/graphql-go/relay"

	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// resolver is the schema of library for graph-gophers.
type resolver struct{}

func (resolver) Items(args struct{ First int32 }) []int32 { return make([]int32, args.First) }

// A client does not get more items than the points that it pays, in any way in which a library reads a query.
func TestPoints(t *testing.T) {
	const cheap, dear = `{ items(first: 1) }`, `{ items(first: 900) }`
	const document = `query a { items(first: 1) } query b { items(first: 900) }`
	const variable = `query($n: Int!) { items(first: $n) }`
	in := func(parameters ...string) string {
		values := url.Values{}
		for i := 0; i < len(parameters); i += 2 {
			values.Set(parameters[i], parameters[i+1])
		}
		return "?" + values.Encode()
	}
	body := func(fields map[string]any) string {
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	requests := map[string]struct{ method, query, media, body string }{
		"body":                   {body: body(map[string]any{"query": dear})},
		"variable":               {body: body(map[string]any{"query": variable, "variables": map[string]any{"n": 900}})},
		"variables in a string":  {body: `{"query":"` + variable + `","variables":"{\"n\":900}"}`},
		"operation":              {body: body(map[string]any{"query": document, "operationName": "b"})},
		"query in the URL":       {query: in("query", dear), body: body(map[string]any{"query": cheap})},
		"only in the URL":        {query: in("query", dear)},
		"variables in the URL":   {query: in("variables", `{"n":900}`), body: body(map[string]any{"query": variable, "variables": map[string]any{"n": 1}})},
		"all in the URL":         {query: in("query", variable, "variables", `{"n":900}`), body: body(map[string]any{"query": cheap})},
		"operation in the URL":   {query: in("query", document, "operationName", "b"), body: body(map[string]any{"query": document, "operationName": "a"})},
		"GET":                    {method: "GET", query: in("query", dear)},
		"GET with a body":        {method: "GET", query: in("query", dear), body: body(map[string]any{"query": cheap})},
		"a form":                 {media: "application/x-www-form-urlencoded", body: in("query", dear)[1:]},
		"a form that is JSON":    {media: "application/x-www-form-urlencoded", body: `{"query":"` + cheap + `","x":"&query=` + url.QueryEscape(dear) + `&"}`},
		"the query alone":        {media: "application/graphql", body: dear},
		"no type":                {media: "-", body: body(map[string]any{"query": dear})},
		"two fields":             {body: `{"query":"` + dear + `","query":"` + cheap + `"}`},
		"two fields, other case": {body: `{"query":"` + dear + `","QUERY":"` + cheap + `"}`},
		"other case first":       {body: `{"QUERY":"` + cheap + `","query":"` + dear + `"}`},
		"two bodies":             {body: body(map[string]any{"query": cheap}) + body(map[string]any{"query": dear})},
		"a batch":                {body: `[` + body(map[string]any{"query": dear}) + `]`},
		"a fragment":             {body: body(map[string]any{"query": `{ ...f } fragment f on Query { items(first: 900) }`})},
		"an inline fragment":     {body: body(map[string]any{"query": `{ ... on Query { items(first: 900) } }`})},
		"a default value":        {body: body(map[string]any{"query": `query($n: Int! = 900) { items(first: $n) }`})},
	}
	schema := graphgophers.MustParseSchema(`type Query { items(first: Int!): [Int!]! }`, &resolver{})
	for name, execute := range map[string]http.Handler{"graphql-go": library(), "graph-gophers": &relay.Handler{Schema: schema}} {
		for request, c := range requests {
			t.Run(name+"/"+request, func(t *testing.T) {
				h, items, served := newHandler(execute), 0, 0
				for range 3 {
					r := httptest.NewRequest(cmp.Or(c.method, "POST"), "/graphql"+c.query, strings.NewReader(c.body))
					switch c.media {
					case "":
						r.Header.Set("Content-Type", "application/json; charset=utf-8")
					case "-":
					default:
						r.Header.Set("Content-Type", c.media)
					}
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					var reply struct{ Data struct{ Items []int } }
					if w.Code == http.StatusOK {
						if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil {
							t.Fatal(err)
						}
						served++
					}
					items += len(reply.Data.Items)
				}
				if items > 1000 || (request == "body" || request == "variable" || request == "operation") && fmt.Sprint(served, items) != "1 900" {
					t.Errorf("%d requests were served, with %d items; the points are 1000", served, items)
				}
			})
		}
	}
}
