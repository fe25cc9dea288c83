//go:build js

// Program wasm is package playground for a page without a server. It sets the function weirRun, which takes the
// query of the URL and returns the text of a JSON document, and then calls the function weirReady.
package main

import (
	"context"
	"encoding/json"
	"syscall/js"

	"github.com/weir-go/weir/cmd/weir/internal/playground"
)

func main() {
	js.Global().Set("weirRun", js.FuncOf(func(_ js.Value, args []js.Value) any {
		text, err := run(args[0].String())
		if err != nil {
			text, _ = json.Marshal(map[string]string{"error": err.Error()})
		}
		return string(text)
	}))
	js.Global().Call("weirReady")
	select {}
}

func run(query string) ([]byte, error) {
	p, err := playground.Parse(query)
	if err != nil {
		return nil, err
	}
	result, err := playground.Run(context.Background(), p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}
