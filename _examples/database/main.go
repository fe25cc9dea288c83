// Database limits an API by a configuration in a row of a database. The limits change when the row
// changes, while the program runs. With a database server, all instances of the program follow it.
//
//	go run -C _examples ./database
//
// The database is SQLite, in a file that the environment variable DATABASE names, or in a temporary
// file. Other databases need another driver, and PostgreSQL needs $1 in place of ?.
package main

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// A row is the configuration in a row of the table limits. It is a rules.Source.
type row struct {
	db   *sql.DB
	name string
}

func (r row) Load(ctx context.Context) (text []byte, err error) {
	err = r.db.QueryRowContext(ctx, "SELECT config FROM limits WHERE name = ?", r.name).Scan(&text)
	return text, err
}

// String returns the name of the configuration in errors.
func (r row) String() string { return "limits/" + r.name }

// start returns the limiters of the configuration in source, which follow it until ctx ends.
func start(ctx context.Context, store core.Store, source rules.Source, opts ...rules.Option) (*rules.Set, error) {
	config, err := rules.Load(ctx, source)
	if err != nil {
		return nil, err // at the start, a missing row or an invalid text is an error
	}
	set, err := rules.New(store, config, opts...)
	if err != nil {
		return nil, err
	}
	go func() { _ = set.Watch(ctx, source) }() // logs errors of a changed row, and keeps the old limits
	return set, nil
}

func newHandler(set *rules.Set, limits row) (http.Handler, error) {
	api, err := set.Limiter("api")
	if err != nil {
		return nil, err // the first configuration must have the policy
	}
	mux := http.NewServeMux()
	mux.Handle("/", nethttplimit.New(api, user)(http.HandlerFunc(hello)))
	// Routes for operators, without a limit. A real application must authenticate the operators.
	mux.HandleFunc("GET /admin/limits", limits.show)
	mux.HandleFunc("PUT /admin/limits", limits.save)
	return mux, nil
}

// user is the key function: the key of ann is basic:ann, and the status without a name is 401. A
// real application must verify the password.
var user = keyfunc.BasicAuthUser()

// hello sends the decision as text. The header fields contain the same numbers.
func hello(w http.ResponseWriter, r *http.Request) {
	d, _ := gate.FromContext(r.Context())
	fmt.Fprintln(w, d)
}

// show sends the configuration.
func (r row) show(w http.ResponseWriter, req *http.Request) {
	text, err := r.Load(req.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text)
}

// save writes the body of the request into the row, if it is a valid configuration.
func (r row) save(w http.ResponseWriter, req *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, req.Body, rules.MaxSize))
	if err == nil {
		_, err = rules.Parse("request", text)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := r.db.ExecContext(req.Context(), "UPDATE limits SET config = ? WHERE name = ?", string(text), r.name); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

//go:embed limits.yaml
var initial string

// open opens the database in a file, and creates the table and the row unless they are there.
func open(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS limits (name TEXT PRIMARY KEY, config TEXT NOT NULL)")
	if err == nil {
		_, err = db.ExecContext(ctx, "INSERT INTO limits VALUES ('shop', ?) ON CONFLICT DO NOTHING", initial)
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

const try = `
  # 10 requests a minute for each user; sue has the plan gold and 100
  curl -i -u ann: http://ADDR/
  curl -i -u sue: http://ADDR/
  # an operator changes the row: another limit, and the user bob is blocked
  curl -s http://ADDR/admin/limits | sed -e 's|limit: 10/m|limit: 20/m|' -e 's|"basic:sue": .*|&\n      "basic:bob": {blocked: true}|' > FILE.yaml
  curl -T FILE.yaml http://ADDR/admin/limits
  sleep 2
  curl -i -u ann: http://ADDR/
  curl -i -u bob: http://ADDR/
  # an invalid configuration is not saved; the response has the position of the error
  echo 'polices: {}' >> FILE.yaml
  curl -i -T FILE.yaml http://ADDR/admin/limits
  # other programs may change the row, too; an invalid text is logged, and the limits stay
  #   sqlite3 FILE "UPDATE limits SET config = 'none'"
`

func run() error {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := cmp.Or(os.Getenv("DATABASE"), filepath.Join(dir, "limits.db"))
	db, err := open(context.Background(), path)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	limits := row{db, "shop"}
	set, err := start(ctx, memstore.New(), limits)
	if err != nil {
		return err
	}
	handler, err := newHandler(set, limits)
	if err != nil {
		return err
	}
	return demo.Serve(handler, strings.ReplaceAll(try, "FILE", path))
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
