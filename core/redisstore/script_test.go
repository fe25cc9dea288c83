package redisstore

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

var update = flag.Bool("update", false, "write the composed scripts to testdata")

// The files in testdata are the scripts that Redis gets, for readers and for luacheck.
func TestScript_Golden(t *testing.T) {
	golden := map[string]*script{}
	const all librarySet = 1<<len(libraries) - 1
	for _, v := range []verb{take, adjust} {
		golden[string(v)+".all"] = scriptFor(v, all)
		for i, l := range libraries {
			golden[fmt.Sprint(v, ".", l)] = scriptFor(v, 1<<i)
		}
	}
	golden["take.bucket+sliding_log"] = scriptFor(take, 1<<bucket|1<<slidingLog)
	rdb := redistest.Shared(t).Client()
	for name, script := range golden {
		path := filepath.Join("testdata", name+".lua")
		if *update {
			testkit.Must(t, os.WriteFile(path, []byte(script.source), 0o644))
		}
		want, err := os.ReadFile(path)
		testkit.Must(t, err)
		if script.source != string(want) {
			t.Errorf("%s differs from the composed script; go test -update writes it", path)
		}
		if sha, err := rdb.ScriptLoad(t.Context(), script.source).Result(); err != nil || sha != script.sha {
			t.Errorf("%s: SCRIPT LOAD returned %s, %v, want %s", name, sha, err, script.sha)
		}
	}
	if files, _ := filepath.Glob("testdata/*.lua"); len(files) != len(golden) {
		t.Errorf("testdata has %d scripts, want %d", len(files), len(golden))
	}
}

// luaSources returns the Lua files by name.
func luaSources(t *testing.T) map[string]string {
	t.Helper()
	entries, err := luaFiles.ReadDir("lua")
	testkit.Must(t, err)
	files := make(map[string]string)
	for _, e := range entries {
		text, err := luaFiles.ReadFile("lua/" + e.Name())
		testkit.Must(t, err)
		files[strings.TrimSuffix(e.Name(), ".lua")] = string(text)
	}
	return files
}

// Each Lua file compiles alone, is part of a script, and begins with a comment that has the name of
// the file and the parts of its contract.
func TestScript_Files(t *testing.T) {
	rdb := redistest.Shared(t).Client()
	used := append(scriptFiles(take, 1<<len(libraries)-1), scriptFiles(adjust, 1<<len(libraries)-1)...)
	for name, source := range luaSources(t) {
		if err := rdb.ScriptLoad(t.Context(), source).Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Contains(used, name) {
			t.Errorf("%s.lua is in no script", name)
		}
		header, _, _ := strings.Cut(source, "\n\n")
		want := []string{"-- " + name + ": "}
		switch name {
		case "clock":
			want = append(want, "ARGV[1]", "microseconds", "milliseconds")
		case "decisions":
			want = append(want, "KEYS", "ARGV", "Returns", "us")
		case "take", "adjust":
			want = append(want, "ARGV", "Reply", "outcome")
		case "bucket", "fixed_window", "sliding_window", "sliding_log":
			want = append(want, "State", "Arguments", "Reading", "TTL", "us")
		}
		for _, word := range want {
			if !strings.Contains(header, word) {
				t.Errorf("the header of %s.lua is without %q", name, word)
			}
		}
	}
}

// The constants in Lua have the values of those in Go.
func TestScript_Constants(t *testing.T) {
	want := map[string]int64{"MAX_INTEGER": maxInteger, "MAX_COUNT": maxCount, "HORIZON": driver.Horizon}
	found := make(map[string]bool)
	constant := regexp.MustCompile(`local ([A-Z_]+) = (\d+)`)
	for name, source := range luaSources(t) {
		for _, m := range constant.FindAllStringSubmatch(source, -1) {
			if n, ok := want[m[1]]; ok && m[2] != strconv.FormatInt(n, 10) {
				t.Errorf("%s.lua: %s is %s, want %d", name, m[1], m[2], n)
			}
			found[m[1]] = true
		}
	}
	for name := range want {
		if !found[name] {
			t.Errorf("no Lua file has the constant %s", name)
		}
	}
}

// In a list of decisions, each sees the states that earlier decisions have written, and a denied
// decision charges nothing.
func TestScript_Take_List(t *testing.T) {
	rdb := redistest.Shared(t).Client()
	b, w := redistest.Prefix(t)+"b", redistest.Prefix(t)+"w"
	const second, now = "1000000", 1_000_000_000_000
	charge := func(cost string) []any { return []any{"bucket", "spend", cost, "3" + second[1:], "", ""} }
	count := func(cost string) []any { return []any{"fixed_window", "spend", cost, "2", "60" + second[1:]} }
	args := slices.Concat([]any{strconv.FormatInt(now, 10)},
		[]any{2, 11}, charge(second), count("1"), // 1 of 3, 1 of 2
		[]any{2, 11}, charge(second), count("2"), // the window denies
		[]any{1, 6}, charge(second), // 2 of 3
		[]any{1, 5}, count("1"), // 2 of 2
		[]any{1, 6}, charge("2"+second[1:])) // the bucket denies
	keys := []string{b, w, b, w, b, w, b}
	s := scriptFor(take, 1<<bucket|1<<fixedWindow)
	reply, err := rdb.Eval(t.Context(), s.source, keys, args...).Int64Slice()
	left := int64(now - now%60_000_000 + 60_000_000 - now)
	want := []int64{now, 1, 0, 0, 0, left, 0, 1_000_000, 0, 1, left, 1, 1_000_000, 0, 1, 1, left, 0, 2_000_000, 0}
	if err != nil || !slices.Equal(reply, want) {
		t.Errorf("the reply to five decisions is %v, %v, want %v", reply, err, want)
	}
}
