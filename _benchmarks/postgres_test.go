package benchmarks

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/benchmarks/figures"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// The limit of each key admits all events.
var postgresLimit = core.Per(1_000_000_000, year)

// postgresLimiters has the function of each limiter. A process of the multi-process benchmark makes one, too.
var postgresLimiters = []struct {
	name string
	make func(dsn, addr string) (decider, error)
}{
	{"weir, Postgres", func(dsn, _ string) (decider, error) {
		db, err := openPostgres(dsn, 6)
		return weir(pgstore.New(db, "test", pgstore.Timeout(10*time.Second)), core.TokenBucket("bucket", postgresLimit)), err
	}},
	{"SELECT FOR UPDATE", func(dsn, _ string) (decider, error) {
		db, err := openPostgres(dsn, 64)
		return forUpdate(db), err
	}},
	{"weir, Redis", func(_, addr string) (decider, error) {
		return weir(redisstore.New(redis.NewClient(&redis.Options{Addr: addr}), "test", redisstore.Timeout(10*time.Second)), core.TokenBucket("bucket", postgresLimit)), nil
	}},
}

func openPostgres(dsn string, connections int) (*sql.DB, error) {
	db, err := sql.Open("pgx", dsn)
	if err == nil {
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
	}
	return db, err
}

// forUpdate returns a limiter as many applications have it: a token bucket in a row that a transaction locks.
func forUpdate(db *sql.DB) decider {
	return func(ctx context.Context, key string) (allowed bool, err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return false, err
		}
		defer func() { _ = tx.Rollback() }()
		var tokens, since float64
		row := func() error {
			return tx.QueryRowContext(ctx, `SELECT tokens, extract(epoch FROM clock_timestamp() - at) FROM buckets WHERE key = $1 FOR UPDATE`, key).Scan(&tokens, &since)
		}
		if err = row(); errors.Is(err, sql.ErrNoRows) {
			if _, err = tx.ExecContext(ctx, `INSERT INTO buckets VALUES ($1, $2, clock_timestamp()) ON CONFLICT DO NOTHING`, key, postgresLimit.Events); err == nil {
				err = row()
			}
		}
		if err != nil {
			return false, err
		}
		tokens = min(float64(postgresLimit.Events), tokens+since*float64(postgresLimit.Events)/postgresLimit.Per.Seconds())
		if tokens < 1 {
			return false, nil
		}
		if _, err = tx.ExecContext(ctx, `UPDATE buckets SET tokens = $2, at = clock_timestamp() WHERE key = $1`, key, tokens-1); err != nil {
			return false, err
		}
		return true, tx.Commit()
	}
}

// startPostgres starts a server with the tables, and returns the name of its data source. The server writes to disk as that
// of an application does.
func startPostgres(b *testing.B) string {
	b.Helper()
	cmd := exec.Command("go", "run", "./serve", "fsync=on", "full_page_writes=on", "shared_buffers=128MB")
	cmd.Dir, cmd.Env, cmd.Stderr = "../core/pgstore/internal/pgtests", append(os.Environ(), "GOWORK=off"), os.Stderr
	_, stdout := start(b, cmd)
	dsn, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Skip("SKIPPED: no Postgres")
	}
	dsn = strings.TrimSpace(dsn)
	db, err := openPostgres(dsn, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{pgstore.Schema(), `CREATE UNLOGGED TABLE buckets (key text PRIMARY KEY, tokens float8, at timestamptz) WITH (fillfactor = 50)`} {
		if _, err := db.Exec(statement); err != nil {
			b.Fatal(err)
		}
	}
	return dsn
}

// start starts a command that ends when its standard input does, at the end of the benchmark.
func start(b *testing.B, cmd *exec.Cmd) (stdin io.Writer, stdout io.Reader) {
	b.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if stdout, err = cmd.StdoutPipe(); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return in, stdout
}

// postgresKeys are the numbers of keys, and the functions that choose one.
var postgresKeys = []struct {
	name string
	of   func(decide decider) decider
}{
	{"one key", func(decide decider) decider {
		return func(ctx context.Context, _ string) (bool, error) { return decide(ctx, "hot") }
	}},
	{"10 000 keys", func(decide decider) decider { return decide }},
}

// BenchmarkPostgres measures decisions in an unlogged table of Postgres, beside a transaction with SELECT FOR UPDATE and
// Redis, all on loopback.
func BenchmarkPostgres(b *testing.B) {
	dsn, addr := startPostgres(b), redistest.NewServer(b).Addr
	for _, keys := range postgresKeys {
		for _, callers := range []int{1, 16, 20, 64, 256} {
			var candidates []candidate
			for _, l := range postgresLimiters {
				decide, err := l.make(dsn, addr)
				if err != nil {
					b.Fatal(err)
				}
				candidates = append(candidates, closedLoop(b, l.name, 0, load{callers, keys.of(decide)}))
			}
			column := fmt.Sprintf("%d callers", callers)
			if callers == 1 {
				column = "1 caller"
			}
			recordPostgres(keys.name, column, interleave(30, candidates)[0])
		}
	}
}

// recordPostgres records a column for each limiter.
func recordPostgres(keys, column string, found map[string]series) {
	for _, l := range postgresLimiters {
		s := found[l.name]
		rate := s.median(rateOf)
		record("One decision in Postgres, "+keys, l.name, column, rate, "%s/s, p50 %.2f ms, p99 %.1f ms", figures.Thousands(rate), s.median(p50Of), s.median(p99Of))
	}
}

// postgresProcess is the variable of the environment that makes TestPostgresProcess a process of the benchmark.
const postgresProcess = "WEIR_POSTGRES_PROCESS"

// BenchmarkPostgresProcesses measures four processes of 16 callers each on one key.
func BenchmarkPostgresProcesses(b *testing.B) {
	dsn, addr := startPostgres(b), redistest.NewServer(b).Addr
	var candidates []candidate
	for _, l := range postgresLimiters {
		var processes []*process
		for range 4 {
			processes = append(processes, startProcess(b, l.name, dsn, addr))
		}
		candidates = append(candidates, candidate{l.name, func() (sum sample) {
			for _, p := range processes {
				_, _ = io.WriteString(p.stdin, "go\n")
			}
			for _, p := range processes {
				var s struct{ Rate, P50, P99, Failed float64 }
				if err := p.replies.Decode(&s); err != nil {
					b.Fatalf("%s: %v: %s", l.name, err, p.stderr.String())
				}
				sum.rate += s.Rate
				sum.p50, sum.p99, sum.failed = sum.p50+s.P50/4, max(sum.p99, s.P99), sum.failed+s.Failed/4
			}
			return sum
		}})
	}
	recordPostgres("one key", "4 processes of 16 callers", interleave(30, candidates)[0])
}

// A process is another process of this program.
type process struct {
	stdin   io.Writer
	replies *json.Decoder
	stderr  bytes.Buffer
}

func startProcess(b *testing.B, args ...string) *process {
	cmd, p := exec.Command(os.Args[0], "-test.run", "^TestPostgresProcess$", "-test.benchtime", flag.Lookup("test.benchtime").Value.String()), new(process)
	cmd.Env, cmd.Stderr = append(os.Environ(), postgresProcess+"="+strings.Join(args, "|")), &p.stderr
	stdin, stdout := start(b, cmd)
	p.stdin, p.replies = stdin, json.NewDecoder(stdout)
	return p
}

// TestPostgresProcess is a process of BenchmarkPostgresProcesses. It measures a slice for each line of its standard input.
func TestPostgresProcess(t *testing.T) {
	args := strings.Split(os.Getenv(postgresProcess), "|")
	if len(args) != 3 {
		t.Skip("only in BenchmarkPostgresProcesses")
	}
	for _, l := range postgresLimiters {
		if l.name != args[0] {
			continue
		}
		decide, err := l.make(args[1], args[2])
		if err != nil {
			t.Fatal(err)
		}
		length := time.Second // the first one is longer
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); length = 100 * time.Millisecond {
			s := run(t, 20*time.Millisecond, length, []load{{16, postgresKeys[0].of(decide)}})[0]
			if err := json.NewEncoder(os.Stdout).Encode(map[string]float64{"Rate": s.rate, "P50": s.p50, "P99": s.p99, "Failed": s.failed}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
