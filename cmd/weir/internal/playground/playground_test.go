package playground

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func run(t *testing.T, query string) *Result {
	t.Helper()
	p, err := Parse(query)
	testkit.Must(t, err)
	r, err := Run(t.Context(), p)
	testkit.Must(t, err)
	return r
}

// The figures of the documentation of each algorithm.
func TestRun_Adversary(t *testing.T) {
	for _, query := range []string{"", "clients=3", "limit=20&per=s", "limit=7&burst=7&per=h"} {
		r := run(t, query)
		n := int64(r.Limit)
		var got []int64
		for _, l := range r.Lanes {
			got = append(got, l.Worst.Admitted)
		}
		if want := []int64{2*n - 1, n, 2 * n, n, n, n}; !slices.Equal(got, want) {
			t.Errorf("%q: got at most %d in any period, want %d", query, got, want)
		}
	}
}

// The counts of the bins are those of the run, and levels are parts of the limit.
func TestRun_Bins(t *testing.T) {
	for i := range 2 * len(simulate.Kinds) {
		kind, per := simulate.Kinds[i/2], []string{"m", "s"}[i%2] // five seconds are no multiple of a microsecond for each bin
		r := run(t, "limit=50&clients=4&traffic="+kind+"&per="+per)
		sum := func(of []int) (n uint64) {
			for _, v := range of {
				n += uint64(v)
			}
			return n
		}
		if sum(r.Demand) != r.Requests || r.Requests == 0 {
			t.Errorf("%s: the bins have %d of %d requests", kind, sum(r.Demand), r.Requests)
		}
		for _, l := range r.Lanes {
			late := l.Admitted - sum(l.Passed) // of a queue, after the end
			if l.Admitted+l.Denied != r.Requests || sum(l.Rejected) != l.Denied || late > 0 && l.Algorithm != "leaky_bucket" || late > 4*100 {
				t.Errorf("%s, %s: %d admitted and %d denied of %d; the bins have %d and %d", kind, l.Algorithm, l.Admitted, l.Denied, r.Requests, sum(l.Passed), sum(l.Rejected))
			}
			if len(l.Level) != bins || slices.Min(l.Level) < 0 || slices.Max(l.Level) > 1 || slices.Max(l.Level) == 0 {
				t.Errorf("%s, %s: %d levels from %v to %v", kind, l.Algorithm, len(l.Level), slices.Min(l.Level), slices.Max(l.Level))
			}
			if !strings.HasPrefix(l.Response, "HTTP/1.1 429 ") || l.Denied > 0 != (l.Retry > 0) {
				t.Errorf("%s, %s: %d denied, Retry-After %d, response %q", kind, l.Algorithm, l.Denied, l.Retry, l.Response)
			}
		}
	}
}

// With one client, the limit is used as a whole in each bin with a denial.
func TestRun_Levels(t *testing.T) {
	for _, query := range []string{"", "limit=60&traffic=burst", "limit=60&traffic=steady&per=s", "limit=60&traffic=poisson&burst=7", "limit=1&traffic=steady&burst=300"} {
		for _, l := range run(t, query).Lanes {
			full, before := 0, 0
			for i, level := range l.Level {
				if l.Rejected[i] > 0 && level != 1 {
					t.Errorf("%q, %s: %d denied in bin %d, whose level is %v", query, l.Algorithm, l.Rejected[i], i, level)
				}
				if level == 1 {
					full++
				} else if full == 0 {
					before++
				}
			}
			if full == 0 || before == 0 && query == "" {
				t.Errorf("%q, %s: %d full bins, %d before them", query, l.Algorithm, full, before)
			}
		}
	}
}

// Each client sends its rate in each period, on the average.
func TestRun_Requests(t *testing.T) {
	for _, traffic := range []string{"steady", "burst"} {
		for _, per := range []string{"s", "m", "h"} {
			for _, rate := range []int{1, 3, 150, MaxRate - 1} {
				for _, clients := range []int{1, 3, MaxClients} {
					query := fmt.Sprintf("traffic=%s&per=%s&rate=%d&clients=%d", traffic, per, rate, clients)
					p, err := Parse(query)
					testkit.Must(t, err)
					n := 0
					for range p.generator().Traffic() {
						n++
					}
					if n != periods*rate*clients {
						t.Errorf("%s: %d requests, want %d", query, n, periods*rate*clients)
					}
				}
			}
		}
	}
}

func TestParse(t *testing.T) {
	for query, want := range map[string]string{
		"":                 "",
		"x=1&limit=20":     "",
		"limit=0":          `limit is "0", and not a number from 1 to 500`,
		"limit=501":        `limit is "501", and not a number from 1 to 500`,
		"burst=1e9":        `burst is "1e9", and not a number from 1 to 1000`,
		"rate=-1":          `rate is "-1", and not a number from 1 to 1000`,
		"clients=":         `clients is "", and not a number from 1 to 10`,
		"traffic=%61":      `traffic is "%61", and not one of steady, poisson, burst, adversary`,
		"per=d":            `per is "d", and not one of s, m, h`,
		"limit=1&limit=xy": `limit is "xy", and not a number from 1 to 500`,
	} {
		_, err := Parse(query)
		if got := ""; err != nil && err.Error() != want || err == nil && want != got {
			t.Errorf("%q: got %v, want %q", query, err, want)
		}
	}
}

// The response is that of a middleware to the same requests.
func TestResponse(t *testing.T) { synctest.Test(t, testResponse) }

func testResponse(t *testing.T) {
	for _, l := range []Parameters{Default, {Limit: 1, Burst: 1, Per: "s"}, {Limit: 7, Burst: 30, Per: "m"}, {Limit: 50, Burst: 3, Per: "s"}, {Limit: 500, Burst: 1000, Per: "h"}, {Limit: 3, Burst: 1, Per: "h"}} {
		for _, k := range kinds {
			rule := k.rule(&l)
			limiter := core.Must(core.New(memstore.New(), rule))
			handler := nethttplimit.New(limiter, keyfunc.RemoteIP(), gate.MaxDelay(1000*time.Hour))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			_, err := limiter.AllowN(t.Context(), "192.0.2.1", rule.Capacity())
			testkit.Must(t, err)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			d := testkit.Peek(t, limiter, "192.0.2.1")
			var want strings.Builder
			want.WriteString("HTTP/1.1 429 Too Many Requests\r\n")
			testkit.Must(t, w.Result().Header.Write(&want))
			want.WriteString("\r\n" + w.Body.String())
			if got := response(d.State(0)); w.Code != 429 || got != strings.ReplaceAll(want.String(), "\r\n", "\n") {
				t.Errorf("%v, %v: got\n%s\nwant\n%s", rule.Limit(), k.id, got, want.String())
			}
		}
	}
}

// The programs compile.
func TestCode(t *testing.T) {
	dir, err := os.MkdirTemp(".", "_code") // in the module, and no package of ./...
	testkit.Must(t, err)
	defer os.RemoveAll(dir)
	args := []string{"vet"}
	for i, query := range []string{"limit=5&burst=20&per=s", "limit=5&burst=5&per=m", "limit=5&burst=4&per=h"} {
		for _, l := range run(t, query).Lanes {
			program := fmt.Sprintf("./%s/%d%s", dir, i, l.Algorithm)
			testkit.Must(t, errors.Join(os.Mkdir(program, 0o700), os.WriteFile(program+"/main.go", []byte(l.Code), 0o600)))
			args = append(args, program)
		}
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
