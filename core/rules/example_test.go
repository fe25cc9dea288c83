package rules_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
)

const before = `
policies:
  api:
    rules:
      - {name: minute, algorithm: sliding_window, limit: 10/m}
    keys:
      "user:99": {limits: {minute: 100/m}}
`

const after = `
policies:
  api:
    rules:
      - {name: minute, algorithm: sliding_window, limit: 20/m}
`

// A limiter changes with the configuration. Usually Watch applies the text of a File.
func ExampleSet() {
	ctx := context.Background()
	config, err := rules.Parse("before.yaml", []byte(before))
	if err != nil {
		log.Fatal(err)
	}
	set, err := rules.New(memstore.New(), config, rules.OnChange(func(c rules.Change) { fmt.Println(c.Diff) }))
	if err != nil {
		log.Fatal(err)
	}
	api, err := set.Limiter("api")
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"user:1", "user:99"} {
		d, _ := api.Allow(ctx, key)
		fmt.Println(key, d)
	}
	if config, err = rules.Parse("after.yaml", []byte(after)); err == nil {
		err = set.Apply(config)
	}
	d, _ := api.Allow(ctx, "user:99")
	fmt.Println("user:99", d, err)
	// Output:
	// user:1 allowed: "api.minute" 9 of 10 left
	// user:99 allowed: "api.minute" 99 of 100 left
	// [api key user:99: removed (was minute 100/m) api.minute: 10/m to 20/m]
	// user:99 allowed: "api.minute" 18 of 20 left <nil>
}
