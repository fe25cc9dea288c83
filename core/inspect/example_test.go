package inspect_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/inspect"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/rules"
)

// Only requests that the first argument of New accepts get the page.
func ExampleHandler() {
	store := observe.New(memstore.New())
	page := inspect.New(func(r *http.Request) bool { return r.Header.Get("X-Role") == "operator" }, store)
	defer page.Close()

	for _, role := range []string{"", "operator"} {
		r := httptest.NewRequest("GET", "/debug/limits", nil)
		r.Header.Set("X-Role", role) // set by the authentication of the application
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 401 text/plain; charset=utf-8
	// 200 text/html; charset=utf-8
}

// The page shows the rules of a configuration, and where they come from. The option Limiters is for
// limiters outside of a configuration.
func ExampleOption() {
	config, err := rules.Parse("limits.yaml", []byte(`
policies:
  api:
    rules:
      - {name: minute, algorithm: sliding_window, limit: 100/m}
`))
	if err != nil {
		panic(err)
	}
	store := observe.New(memstore.New())
	set, err := rules.New(store, config)
	if err != nil {
		panic(err)
	}
	login := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))
	page := inspect.New(func(*http.Request) bool { return true }, store, inspect.Rules(set), inspect.Limiters(login))
	defer page.Close()

	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("GET", "/debug/limits?format=json", nil))
	var report struct {
		Rules []struct{ Name, Limit, Origin string }
	}
	err = json.Unmarshal(w.Body.Bytes(), &report)
	fmt.Println(report.Rules, err)
	// Output: [{login 5/h code} {api.minute 100/m limits.yaml}] <nil>
}

func Example() {
	store := observe.New(memstore.New())
	api := core.Must(core.New(store, core.SlidingWindow("api", core.PerMinute(100))))

	// An application compares secrets in constant time (package crypto/subtle).
	operator := func(r *http.Request) bool { _, password, _ := r.BasicAuth(); return password == "secret" }
	page := inspect.New(operator, store, inspect.Limiters(api))
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/debug/limits", page)

	// The answer about a key, as JSON.
	r := httptest.NewRequest("POST", "/debug/limits?format=json", strings.NewReader("key=user:ann"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("", "secret")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	fmt.Println(w.Code, strings.Contains(string(body), `"rule":"api","limit":"100/m","mode":"enforced","used":"0","left":"100"`))
	// Output: 200 true
}
