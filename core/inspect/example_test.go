package inspect_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/inspect"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
)

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
