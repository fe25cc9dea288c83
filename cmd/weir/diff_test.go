package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// diffFiles writes two files and a trace: 10 keys, of which
//
//	key     requests  denied by old.yaml  by new.yaml
//	n1, n2         3                   0            1
//	n3            40                   0            2 (5 %)
//	less           4                   2            1
//	more           5                   1            3
//	same           2                   1            1
//	freed          2                   1            0
//	others         1                   0            0
func diffFiles(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	file := func(limits map[string]int) string {
		var keys []string
		for key, n := range limits {
			keys = append(keys, fmt.Sprintf("%s: {limits: {r: %d/h}}", key, n))
		}
		return "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 50/h}], keys: {" + strings.Join(keys, ", ") + "}}}"
	}
	write(t, "old.yaml", file(map[string]int{"less": 2, "more": 4, "same": 1, "freed": 1}))
	write(t, "new.yaml", file(map[string]int{"less": 3, "more": 2, "same": 1, "n1": 2, "n2": 2, "n3": 38}))
	write(t, "trace", csv("0.5,n1*3 0.5,n2*3 0.5,n3*40 0.5,less*4 0.5,more*5 0.5,same*2 0.5,freed*2 0.5,o1 0.5,o2 1.5,o3"))
	write(t, "none", csv("0.5,o1"))
}

func TestDiff_Text(t *testing.T) {
	diffFiles(t)
	const changes = `api key freed: removed (was r 1/h)
api key less: r 2/h to r 3/h
api key more: r 4/h to r 2/h
api key n1: added (r 2/h)
api key n2: added (r 2/h)
api key n3: added (r 38/h)
`
	const notes = "\nSimulated clients do not adapt: each request comes at the time of the trace, also if a real client would have waited after a denial.\n"
	for args, want := range map[string]string{
		"old.yaml new.yaml": changes,
		"old.yaml new.yaml -trace trace -keys": changes + `
trace: 62 requests of 10 keys
3 of 10 keys newly denied, 2 of them more than 5 % of their requests
1 of 10 keys no longer denied
3 of 10 keys denied by both files: 1 more often by the new one, 1 less often, 1 equally often
denied requests: 5 before (8.1 %), 9 after (14.5 %)

The keys with the most additional denials:
   KEY  REQUESTS  DENIED BEFORE  DENIED AFTER        
  more         5              1             3  60.0 %
    n3        40              0             2   5.0 %
    n1         3              0             1  33.3 %
    n2         3              0             1  33.3 %
` + notes,
		"old.yaml old.yaml -trace none": `none: 1 request of 1 key
0 of 1 key newly denied, 0 of them more than 5 % of their requests
0 of 1 key no longer denied
denied requests: 0 before (0.0 %), 0 after (0.0 %)
` + notes + "The trace does not have the keys of 4 overrides of the file.\n",
	} {
		if got := output(t, append([]string{"diff"}, strings.Fields(args)...)...); got != want {
			t.Errorf("%s: got:\n%s\nwant:\n%s", args, got, want)
		}
	}
}

func TestDiff_JSON(t *testing.T) {
	diffFiles(t)
	want := comparison{
		Trace: "trace", Requests: 62, Keys: 10, NewlyDenied: 3, NewlyAffected: 2, MoreDenied: 1, FewerDenied: 1, AsDenied: 1, NoMoreDenied: 1, DeniedBefore: 5, DeniedAfter: 9,
		TopKeys: []changedKey{{"more", 5, 1, 3}, {"n3", 40, 0, 2}},
	}
	compare := func(args string, want comparison) {
		t.Helper()
		var got comparison
		reportOf(t, &got, append([]string{"diff", "-json"}, strings.Fields(args)...)...)
		if !strings.HasPrefix(strings.Join(got.Notes, "\n"), "Simulated clients do not adapt: ") {
			t.Errorf("%s: got the notes %q", args, got.Notes)
		}
		if got.Notes, got.Changes = nil, nil; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: got %+v, want %+v", args, got, want)
		}
	}
	compare("old.yaml -trace trace new.yaml -keys -top 2", want)
	// The other way round, the figures are those of the other file.
	compare("new.yaml old.yaml -trace trace -keys -policy api", comparison{
		Trace: "trace", Requests: 62, Keys: 10, NewlyDenied: 1, NewlyAffected: 1, MoreDenied: 1, FewerDenied: 1, AsDenied: 1, NoMoreDenied: 3, DeniedBefore: 9, DeniedAfter: 5,
		TopKeys: []changedKey{{"freed", 2, 0, 1}, {"less", 4, 1, 2}},
	})
	compare("old.yaml old.yaml -trace trace -trace none", comparison{Trace: "trace none", Requests: 63, Keys: 10, AsDenied: 4, DeniedBefore: 5, DeniedAfter: 5})

	t.Setenv("WEIR_KEY_SECRET", "s")
	var got comparison
	reportOf(t, &got, "diff", "old.yaml", "new.yaml", "-trace", "trace", "-json")
	r := simulateArgs(t, "new.yaml", "trace")
	for _, k := range got.TopKeys { // the hashes are those of weir simulate
		if !strings.HasPrefix(k.Key, "#") || !slices.ContainsFunc(r.TopKeys, func(s simulatedKey) bool { return s.Key == k.Key && s.Denied == k.DeniedAfter }) {
			t.Errorf("got the key %+v", k)
		}
	}
	if len(got.Changes) != 6 {
		t.Errorf("got the changes %q", got.Changes)
	}
}

func TestDiff_Bounds(t *testing.T) {
	diffFiles(t)
	for bound, exceeded := range map[string]bool{"0": true, "2": true, "3": false, "4": false, "0%": true, "29.9%": true, "30%": false, "100%": false} {
		for _, flags := range []string{"", " -json"} {
			var stdout, stderr strings.Builder
			status := run(strings.Fields("diff old.yaml new.yaml -trace trace -max-new-denied-keys "+bound+flags), &stdout, &stderr)
			wantStatus, want := 0, ""
			if exceeded {
				wantStatus, want = 3, "weir: too many keys are newly denied: 3 of 10, more than "+bound+"\n"
			}
			if status != wantStatus || stderr.String() != want || stdout.Len() == 0 {
				t.Errorf("%s: got status %d, stdout %s and stderr %s", bound, status, &stdout, &stderr)
			}
		}
	}
	// 4 requests more are denied, which is 6.45 percent.
	for bound, exceeded := range map[string]bool{"0": true, "3": true, "4": false, "0%": true, "6.4%": true, "6.5%": false, "100%": false} {
		var stdout, stderr strings.Builder
		status := run(strings.Fields("diff old.yaml new.yaml -trace trace -max-new-denied-requests "+bound), &stdout, &stderr)
		wantStatus, want := 0, ""
		if exceeded {
			wantStatus, want = 3, "weir: too many requests are newly denied: 4 of 62, more than "+bound+"\n"
		}
		if status != wantStatus || stderr.String() != want {
			t.Errorf("%s: got status %d and stderr %s", bound, status, &stderr)
		}
		stderr.Reset()
		if status := run(strings.Fields("diff new.yaml old.yaml -trace trace -max-new-denied-requests "+bound), &stdout, &stderr); status != 0 {
			t.Errorf("%s, with fewer denials: got status %d and stderr %s", bound, status, &stderr)
		}
	}
	// With 18 requests more, 4 of 80 are exactly 5 percent. The first bound that is exceeded is in the error.
	write(t, "more", csv("0.5,o1*18"))
	for flags, want := range map[string]string{
		"-max-new-denied-requests 5%":                             "",
		"-max-new-denied-requests 4.99%":                          "weir: too many requests are newly denied: 4 of 80, more than 4.99%\n",
		"-max-new-denied-keys 3 -max-new-denied-requests 4":       "",
		"-max-new-denied-keys 3 -max-new-denied-requests 3":       "weir: too many requests are newly denied: 4 of 80, more than 3\n",
		"-max-new-denied-keys 2 -max-new-denied-requests 4":       "weir: too many keys are newly denied: 3 of 10, more than 2\n",
		"-json -max-new-denied-keys 2 -max-new-denied-requests 3": "weir: too many keys are newly denied: 3 of 10, more than 2\n",
	} {
		var stdout, stderr strings.Builder
		status, wantStatus := run(strings.Fields("diff old.yaml new.yaml -trace trace -trace more "+flags), &stdout, &stderr), 0
		if want != "" {
			wantStatus = 3
		}
		if status != wantStatus || stderr.String() != want || stdout.Len() == 0 {
			t.Errorf("%s: got status %d, stdout %s and stderr %s", flags, status, &stdout, &stderr)
		}
	}
	for args, want := range map[string]string{
		"old.yaml new.yaml -max-new-denied-requests 1":            "weir: -max-new-denied-keys, -max-new-denied-requests and -json need a -trace\n",
		"old.yaml new.yaml -trace missing -max-new-denied-keys 0": "weir: open missing: no such file or directory; a trace is a file, - or a generator: steady, poisson, burst, adversary\n",
		"old.yaml new.yaml -trace trace -trace steady":            "weir: steady is a generator, and cannot be combined with other traces\n",
		"old.yaml new.yaml -trace trace -policy b":                "weir: old.yaml has no policy \"b\"; it has api\n",
		"old.yaml missing.yaml -trace trace":                      "weir: open missing.yaml: no such file or directory\n",
	} {
		var stdout, stderr strings.Builder
		if status := run(append([]string{"diff"}, strings.Fields(args)...), &stdout, &stderr); status != 1 || stdout.Len() > 0 || stderr.String() != want {
			t.Errorf("%s: got status %d, stdout %s and stderr %s", args, status, &stdout, &stderr)
		}
	}
}

// An adversary attacks the rules of both files. Both decide about the same requests, also after the other one
// has ignored an unknown plan.
func TestDiff_Generators(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a.yaml", policy("{name: r, algorithm: fixed_window, limit: 10/m, plans: {free: 5/m}}"))
	write(t, "b.yaml", policy("{name: r, algorithm: sliding_log, limit: 10/m, plans: {gold: 1000000/m}}"))
	var c comparison
	reportOf(t, &c, "diff", "a.yaml", "b.yaml", "-json", "-trace", "adversary:clients=3")
	if c.Keys != 3 || c.DeniedAfter == 0 || c.DeniedBefore == 0 {
		t.Errorf("got %+v", c)
	}
	reportOf(t, &c, "diff", "a.yaml", "b.yaml", "-json", "-trace", "steady:rate=1/s,clients=3,for=1m,plan=gold")
	if c.Requests != 180 || c.DeniedBefore != 150 || c.DeniedAfter != 0 || c.NoMoreDenied != 3 {
		t.Errorf("got %+v", c)
	}
}

// A policy of all routes is in the list of changes, and in the decisions.
func TestDiff_AllRoutes(t *testing.T) {
	t.Chdir(t.TempDir())
	const file = "policies: {account: {rules: [{name: a, algorithm: sliding_log, limit: 3/h}]}, media: {rules: [{name: m, algorithm: sliding_log, limit: 2/h}]}}\nroutes: {/: account, POST /media: media}\n"
	write(t, "old.yaml", file)
	write(t, "new.yaml", file+"all_routes: account\n")
	write(t, "trace", strings.ReplaceAll(csv("0.5,k,,,GET_/*3 0.5,k,,,POST_/media*2 0.5,l,,,POST_/media*3"), "_", " "))
	got := output(t, "diff", "old.yaml", "new.yaml", "-trace", "trace", "-keys")
	for _, want := range []string{
		"all_routes: added (account)\n\ntrace: 8 requests of 2 keys\n1 of 2 keys newly denied, ", "denied requests: 1 before (12.5 %), 3 after (37.5 %)\n",
		"    k         5              0             2  40.0 %", "\nEvery request is charged to the policy account of all routes, ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got:\n%s\nwant a part:\n%s", got, want)
		}
	}
}
