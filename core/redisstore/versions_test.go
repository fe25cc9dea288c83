package redisstore_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// versionOf returns the numbers of a version in a field of INFO, or zeros if there is none.
func versionOf(t *testing.T, rdb *redis.Client, field string) []int {
	t.Helper()
	info, err := rdb.InfoMap(t.Context(), "server").Result()
	testkit.Must(t, err)
	return numbers(info["Server"][field])
}

func numbers(version string) []int {
	n := make([]int, 3)
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &n[0], &n[1], &n[2])
	return n
}

// sinceOf returns the version from which on an argument of a command has an option, from its description in the reply to
// COMMAND DOCS, and false if there is no such option.
func sinceOf(argument map[any]any, option, since string) (string, bool) {
	if s, ok := argument["since"].(string); ok {
		since = s
	}
	if argument["token"] == option {
		return since, true
	}
	arguments, _ := argument["arguments"].([]any)
	for _, a := range arguments {
		if s, ok := sinceOf(a.(map[any]any), option, since); ok {
			return s, true
		}
	}
	return "", false
}

// The table of versions in docs/redis.md has the commands of its permissions, each in the row of the version that
// introduced it.
func TestVersions_Documented(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../docs/redis.md")
	testkit.Must(t, err)
	page := string(file)
	permissions := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\+([a-z|]+)`).FindAllStringSubmatch(page, -1) {
		permissions[m[1]] = true
	}
	rdb := redistest.Shared(t).Client()
	server := versionOf(t, rdb, "redis_version")
	_, section, _ := strings.Cut(page, "## Versions of Redis\n")
	section, _, _ = strings.Cut(section, "\n#")
	documented, before := make(map[string]bool), []int{0, 0}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+\.\d+) \|.*`).FindAllStringSubmatch(section, -1) {
		version := numbers(row[1])[:2]
		for _, code := range regexp.MustCompile("`([A-Z ]+)`").FindAllStringSubmatch(row[0], -1) {
			words := strings.Fields(strings.ToLower(code[1]))
			name, option := words[0], ""
			if sub := strings.Join(words, "|"); permissions[sub] {
				name = sub
			} else if len(words) == 2 {
				option = strings.ToUpper(words[1])
			}
			if option == "" {
				if documented[name] {
					t.Errorf("%s has two rows", name)
				}
				documented[name] = true
			}
			reply, err := rdb.Do(t.Context(), "command", "docs", name).Result()
			testkit.Must(t, err)
			docs, ok := reply.(map[any]any)[name].(map[any]any)
			since, _ := docs["since"].(string)
			if ok && option != "" {
				since, ok = sinceOf(docs, option, since)
			}
			switch n := numbers(since)[:2]; {
			case !ok && slices.Compare(server[:2], version) >= 0:
				t.Errorf("the server does not describe %s", code[1])
			case ok && (slices.Compare(n, version) > 0 || slices.Compare(n, before) <= 0):
				t.Errorf("%s has the row of %s, want that of %s", code[1], row[1], since)
			}
		}
		before = version
	}
	if got, want := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(permissions)); !slices.Equal(got, want) {
		t.Errorf("the table has the commands\n%v, want those of the permissions\n%v", got, want)
	}
}
