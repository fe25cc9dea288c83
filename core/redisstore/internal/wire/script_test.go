package wire

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// Every script compiles and has the hash that Redis computes. With the flag -artifacts, the scripts
// are kept for readers and for luacheck.
func TestScript_Sources(t *testing.T) {
	testkit.WithoutRace(t)
	rdb := redistest.Shared(t).Client()
	for name, s := range Scripts() {
		name = strings.ReplaceAll(name, " ", ".")
		testkit.Must(t, os.WriteFile(filepath.Join(t.ArtifactDir(), name+".lua"), []byte(s.Source), 0o644))
		if sha, err := rdb.ScriptLoad(t.Context(), s.Source).Result(); err != nil || sha != s.SHA {
			t.Errorf("%s: SCRIPT LOAD returned %s, %v, want %s", name, sha, err, s.SHA)
		}
	}
}

// In a list of decisions, each sees the states that earlier decisions have written, and a denied
// decision charges nothing.
func TestScript_Take_List(t *testing.T) {
	rdb := redistest.Shared(t).Client()
	b, w := redistest.Prefix(t)+"b", redistest.Prefix(t)+"w"
	const second, minute, now = "1000000", "60000000", 1_000_000_000_000
	charge := func(cost string) []any {
		return []any{"bucket", "spend", cost, "3" + second[1:], 0, "9" + second[1:], 1}
	}
	count := func(cost string) []any {
		return []any{"quota", "spend", cost, "2", 0, minute, "120" + second[1:], minute}
	}
	args := slices.Concat([]any{strconv.FormatInt(now, 10)},
		[]any{1, 2, 15}, charge(second), count("1"), // 1 of 3, 1 of 2
		[]any{2, 2, 15}, charge(second), count("2"), // the window denies, and denies
		[]any{1, 1, 7}, charge(second), // 2 of 3
		[]any{3, 1, 8}, count("1"), // 2 of 2, and the window denies twice
		[]any{1, 1, 7}, charge("2"+second[1:])) // the bucket denies
	keys := []string{b, w, b, w, b, w, b, w, w, w, b}
	s := scriptFor(take, 1<<bucket|1<<quota)
	reply, err := rdb.Eval(t.Context(), s.Source, keys, args...).Int64Slice()
	left := int64(now - now%60_000_000 + 60_000_000 - now)
	const long = 60_000_000
	want := []int64{
		now, 0,
		1, 0, 0, left, long,
		0, 1_000_000, 1, left, long,
		0, 1_000_000, 1, left, long,
		1, 1_000_000,
		1, 1, left, long,
		0, 2, left, long,
		0, 2, left, long,
		0, 2_000_000,
	}
	if err != nil || !slices.Equal(reply, want) {
		t.Errorf("the reply is %v, %v, want %v", reply, err, want)
	}
}
