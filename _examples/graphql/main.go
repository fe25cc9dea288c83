// Graphql limits the points of a GraphQL API: a point for each item of a query, which are counted before
// the query runs.
//
//	go run -C _examples ./graphql
//
// The cost has to be that of the query which the library executes. Libraries also read queries from the
// URL, from forms and from bodies of other types, and some of them before the body: these are rejected.
package main

import (
	"context"
	"encoding/json"
	"log"
	"math"
	"mime"
	"net/http"
	"strconv"

	"github.com/graphql-go/graphql"
	"github.com/graphql-go/graphql/language/ast"
	"github.com/graphql-go/graphql/language/parser"
	"github.com/graphql-go/handler"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// newHandler limits the points of execute, a handler of a GraphQL library.
func newHandler(execute http.Handler) http.Handler {
	store := memstore.New()
	requests := core.Must(core.New(store, core.TokenBucket("ip", core.PerMinute(600))))
	points := core.Must(core.New(store, core.TokenBucket("points", core.PerMinute(60).WithBurst(1000)).Unit("points")))
	ip := keyfunc.RemoteIP() // of your application: the user
	limit := nethttplimit.New(requests, ip, gate.And(points, ip, gate.CostOfBody(100<<10, cost)))
	mux := http.NewServeMux()
	mux.Handle("POST /graphql", limit(execute))
	return mux
}

// cost returns the points of the query in a body. The gate sends the text of a NoKeyError to the client.
func cost(_ context.Context, r *http.Request, body []byte) (int, error) {
	var request struct {
		Query         string         `json:"query"`
		OperationName string         `json:"operationName"`
		Variables     map[string]any `json:"variables"`
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" || r.URL.RawQuery != "" {
		return 0, &keyfunc.NoKeyError{Detail: "send the query as application/json, without parameters in the URL"}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return 0, &keyfunc.NoKeyError{Detail: "the body is not a GraphQL request"}
	}
	return complexity(request.Query, request.OperationName, request.Variables)
}

// complexity stands for the analysis of your library: a point for each operation, and for each item of its lists.
// It does not know default values of variables, and rejects fragments.
func complexity(query, operationName string, variables map[string]any) (int, error) {
	document, err := parser.Parse(parser.ParseParams{Source: query})
	if err != nil {
		return 0, &keyfunc.NoKeyError{Detail: "the query is invalid"}
	}
	points := 1
	for _, d := range document.Definitions {
		operation, ok := d.(*ast.OperationDefinition)
		if !ok {
			return 0, &keyfunc.NoKeyError{Detail: "fragments are not served"}
		}
		if operationName != "" && (operation.Name == nil || operation.Name.Value != operationName) {
			continue
		}
		for _, s := range operation.SelectionSet.Selections {
			field, ok := s.(*ast.Field)
			if !ok {
				return 0, &keyfunc.NoKeyError{Detail: "fragments are not served"}
			}
			for _, a := range field.Arguments {
				n, err := number(a.Value, variables)
				if err != nil {
					return 0, err
				}
				points += n
			}
		}
	}
	return points, nil
}

// number returns the value of an argument: 0 to a million.
func number(v ast.Value, variables map[string]any) (int, error) {
	n := math.NaN()
	switch v := v.(type) {
	case *ast.IntValue:
		n, _ = strconv.ParseFloat(v.Value, 64)
	case *ast.Variable:
		n, _ = variables[v.Name.Value].(float64)
	}
	if !(n >= 0 && n <= 1e6) || n != math.Trunc(n) {
		return 0, &keyfunc.NoKeyError{Detail: "first is not a number of items"}
	}
	return int(n), nil
}

// library returns the handler of graphql-go, of a list of integers.
func library() http.Handler {
	items := &graphql.Field{
		Type: graphql.NewList(graphql.Int),
		Args: graphql.FieldConfigArgument{"first": {Type: graphql.NewNonNull(graphql.Int)}},
		Resolve: func(p graphql.ResolveParams) (any, error) {
			return make([]int, p.Args["first"].(int)), nil
		},
	}
	schema, err := graphql.NewSchema(graphql.SchemaConfig{
		Query: graphql.NewObject(graphql.ObjectConfig{Name: "Query", Fields: graphql.Fields{"items": items}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	return handler.New(&handler.Config{Schema: &schema})
}

const try = `
  curl -s -o /dev/null -D - -H 'Content-Type: application/json' -d '{"query":"{ items(first: 400) }"}' http://ADDR/graphql
  # 1000 points at once: the third one is too many
  for i in $(seq 3); do curl -s -o /dev/null -w '%{http_code} ' -H 'Content-Type: application/json' -d '{"query":"{ items(first: 400) }"}' http://ADDR/graphql; done; echo
  # the library would read this query from the URL
  curl -i -H 'Content-Type: application/json' -d '{"query":"{ items(first: 1) }"}' 'http://ADDR/graphql?query=%7Bitems(first:900)%7D'
`

func main() {
	if err := demo.Serve(newHandler(library()), try); err != nil {
		log.Fatal(err)
	}
}
