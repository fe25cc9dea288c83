package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/rules"
)

// hundredKeys returns a trace of 100 keys. Each sends as many requests at once as its number says, and one more
// 3649.25 s later, when the hour of the first ones has passed, and their sub-window still counts.
func hundredKeys() string {
	var b strings.Builder
	for i := 1; i <= 100; i++ {
		fmt.Fprintf(&b, "1,k%d*%d ", i, i)
	}
	for i := 1; i <= 100; i++ {
		fmt.Fprintf(&b, "3650.25,k%d ", i)
	}
	return csv(b.String())
}

func TestSuggest(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "trace", hundredKeys())
	for args, want := range map[string]string{
		"trace": `trace: 5 150 requests of 100 keys. A sliding_window with one of these limits would have denied at most 0.1% of the keys:

  LIMIT  DENIED KEYS         THEIR REQUESTS  LARGEST COUNT OF A KEY: MEDIAN  99 %  ALL
  100/s            0  0.0 %           0.0 %                              50    99  100
  100/m            0  0.0 %           0.0 %                              50    99  100
  101/h            0  0.0 %           0.0 %                              51   100  101

Together, they would have denied requests of 0 keys (0.0 %), which sent 0.0 % of all requests. As a file:

policies:
  api:
    rules:
      - {name: per_s, algorithm: sliding_window, limit: 100/s}
      - {name: per_m, algorithm: sliding_window, limit: 100/m}
      - {name: per_h, algorithm: sliding_window, limit: 101/h}

`,
		"-deny 7% trace -per 1500ms,7d": `trace: 5 150 requests of 100 keys. A sliding_window with one of these limits would have denied at most 7% of the keys:

    LIMIT  DENIED KEYS         THEIR REQUESTS  LARGEST COUNT OF A KEY: MEDIAN  99 %  ALL
  93/1.5s            7  7.0 %          13.3 %                              50    99  100
    94/7d            7  7.0 %          13.3 %                              51   100  101

Together, they would have denied requests of 7 keys (7.0 %), which sent 13.3 % of all requests. As a file:

policies:
  api:
    rules:
      - {name: per_1_5s, algorithm: sliding_window, limit: 93/1.5s}
      - {name: per_7d, algorithm: sliding_window, limit: 94/7d}

The trace is shorter than 168h: in a longer one, counts for that period may be larger.
`,
	} {
		if got := output(t, append([]string{"suggest"}, strings.Fields(args)...)...); got != want {
			t.Errorf("%s: got:\n%s\nwant:\n%s", args, got, want)
		}
	}
}

// requestsOf returns the number of requests of keys.
func requestsOf(keys []simulatedKey) (n uint64) {
	for _, k := range keys {
		n += k.Requests
	}
	return n
}

// The suggested limits deny as many keys as is said, by weir simulate. The text contains a valid file.
func TestSuggest_Simulate(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "trace", hundredKeys())
	for _, args := range []string{"trace", "trace -deny 20", "trace -deny 100%", "poisson:rate=30/m,clients=30,for=20m,cost=3 -deny 10%", "burst:clients=20,rate=1/s,every=1m,for=10m -deny 0 -per 500us,100ms,90s,1.5h,2d"} {
		fields := strings.Fields(args)
		var r suggested
		reportOf(t, &r, append([]string{"suggest", "-json"}, fields...)...)
		text := output(t, append([]string{"suggest"}, fields...)...)
		_, file, _ := strings.Cut(text, "As a file:\n\n")
		file, _, _ = strings.Cut(file, "\n\n")
		config, err := rules.Parse("suggested.yaml", []byte(file+"\n"))
		if err != nil {
			t.Fatalf("%s: %v: %s", args, err, file)
		}
		for i, l := range r.Limits {
			if got := config.Policies["api"].Rules[i].Limit.String(); got != l.Limit {
				t.Errorf("%s: the file has the limit %s, want %s", args, got, l.Limit)
			}
			write(t, "f.yaml", policy("{name: r, algorithm: sliding_window, limit: "+l.Limit+"}"))
			s := simulateArgs(t, "f.yaml", fields[0], "-top", "1000")
			if s.DeniedKeys != l.Denied || s.Keys != r.Keys || s.Requests != r.Requests {
				t.Errorf("%s: the limit %s denies %d of %d keys, want %d of %d", args, l.Limit, s.DeniedKeys, s.Keys, l.Denied, r.Keys)
			}
			if got := requestsOf(s.TopKeys); got != l.Requests {
				t.Errorf("%s: the keys that the limit %s denies have %d requests, want %d", args, l.Limit, got, l.Requests)
			}
		}
		write(t, "f.yaml", file+"\n")
		s := simulateArgs(t, "f.yaml", fields[0], "-top", "1000")
		if got := requestsOf(s.TopKeys); s.DeniedKeys != r.Denied || got != r.DeniedRequests {
			t.Errorf("%s: all limits deny %d keys with %d requests, want %d and %d", args, s.DeniedKeys, got, r.Denied, r.DeniedRequests)
		}
	}
}

// A note tells that the trace is shorter than a period by more than a twentieth.
func TestSuggest_Short(t *testing.T) {
	t.Chdir(t.TempDir())
	for seconds, want := range map[string][]string{
		"57":    {"The trace is shorter than 1h: in a longer one, counts for that period may be larger."},
		"56.9":  {"The trace is shorter than 1m: in a longer one, counts for that period may be larger.", "The trace is shorter than 1h: in a longer one, counts for that period may be larger."},
		"3420":  {},
		"90000": {},
	} {
		write(t, "trace", csv("0,k 0.5,k "+seconds+",k"))
		var r suggested
		reportOf(t, &r, "suggest", "-json", "trace")
		if !slices.Equal(r.Notes, want) {
			t.Errorf("%s s: got the notes %q, want %q", seconds, r.Notes, want)
		}
	}
}

func TestSuggest_Errors(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "empty", "")
	write(t, "good", csv("0,k"))
	const largest = min(1<<48-1, math.MaxInt)
	write(t, "large", csv(fmt.Sprintf("0,k,%d 0,k", largest)))
	for args, want := range map[string]string{
		"empty":              "empty has no requests",
		"missing":            "open missing: no such file or directory; a trace is a file, - or a generator: steady, poisson, burst, adversary",
		"adversary":          "an adversary needs a rule with a fixed period",
		"good good steady":   "steady is a generator, and cannot be combined with other traces",
		"good -per 100ns":    "period 100ns: ",
		"good -per 40000d":   "period 960000h0m0s: ",
		"large":              fmt.Sprintf("the costs of a key within one period are more than %d, the largest limit", largest),
		"good -key name -- ": `good: no header with a column "name"`,
	} {
		var stdout, stderr strings.Builder
		if status := run(append([]string{"suggest"}, strings.Fields(args)...), &stdout, &stderr); status != 1 || stdout.Len() > 0 {
			t.Errorf("%s: got status %d and stdout %s", args, status, &stdout)
		}
		if got := stderr.String(); !strings.HasPrefix(got, "weir: "+want) || !strings.HasSuffix(want, ": ") && got != "weir: "+want+"\n" {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
}
