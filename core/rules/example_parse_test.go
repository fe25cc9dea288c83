package rules_test

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/core/rules"
)

func ExampleParse() {
	const file = `
policies:
  api:
    rules:
      - {name: second, algorithm: token_buckets, limit: 10/s burst 20}
      - {name: hour, algorithm: sliding_log, limit: 500}
`
	_, err := rules.Parse("limits.yaml", []byte(file))
	var all rules.Errors
	if errors.As(err, &all) {
		fmt.Println(all)
		fmt.Println(all[1].Excerpt)
	}
	// Output:
	// limits.yaml:5:35: policies.api.rules[0].algorithm: "token_buckets" is no algorithm; did you mean "token_bucket"?
	// limits.yaml:6:53: policies.api.rules[1].limit: limit 500 has no period, unlike 500/s and 500/h
	//       - {name: hour, algorithm: sliding_log, limit: 500}
	//                                                     ^
}

func ExampleDiff() {
	before, err := rules.Parse("a.yaml", []byte(`
policies:
  api:
    rules:
      - {name: second, algorithm: token_bucket, limit: 10/s, plans: {gold: 100/s}}
`))
	if err != nil {
		panic(err)
	}
	after, err := rules.Parse("b.yaml", []byte(`
policies:
  api:
    rules:
      - {name: second, algorithm: token_bucket, limit: 20/s, plans: {gold: unlimited}}
      - {name: hour, algorithm: sliding_log, limit: 500/h}
`))
	if err != nil {
		panic(err)
	}
	for _, change := range rules.Diff(before, after) {
		fmt.Println(change)
	}
	// Output:
	// api.hour: added (sliding_log 500/h)
	// api.second plan gold: 100/s to unlimited
	// api.second: 10/s to 20/s
}
