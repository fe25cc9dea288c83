package servertest

import (
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

// DocumentedCommands returns the permissions in the package documentation: those of every user, the
// one for CLIENT SETINFO, and the additional ones for a Cluster.
func DocumentedCommands(t *testing.T, file string) (all, identity, cluster []string) {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
	must(t, err)
	_, section, _ := strings.Cut(syntax.Doc.Text(), "# Permissions")
	section, _, _ = strings.Cut(section, "\n#")
	var examples [][]string
	for paragraph := range strings.SplitSeq(section, "\n\n") {
		if strings.HasPrefix(paragraph, "\t") {
			examples = append(examples, regexp.MustCompile(`\+[a-z|]+`).FindAllString(paragraph, -1))
		}
	}
	if len(examples) != 3 || slices.ContainsFunc(examples, func(e []string) bool { return len(e) == 0 }) {
		t.Fatalf("the package documentation has the permissions %q, want three lists", examples)
	}
	return examples[0], examples[1], examples[2]
}

// IdentityCommands returns the permissions of identity that the server knows: Redis 7.0 rejects them.
func IdentityCommands(t *testing.T, server *redistest.Server, identity []string) []string {
	t.Helper()
	info, err := server.Client().InfoMap(t.Context(), "server").Result()
	must(t, err)
	if strings.HasPrefix(info["Server"]["redis_version"], "7.0.") {
		return nil
	}
	return identity
}

// SetUser sets the permissions of the user "limiter" on the server.
func SetUser(t *testing.T, server *redistest.Server, permissions ...string) {
	t.Helper()
	args := []any{"acl", "setuser", "limiter", "reset", "on", ">password"}
	for _, p := range permissions {
		args = append(args, p)
	}
	must(t, server.Client().Do(t.Context(), args...).Err())
}

// AsLimiter makes a client that of the user "limiter".
func AsLimiter(o *redis.Options) { o.Username, o.Password = "limiter", "password" }

// Denied returns the commands in the ACL log of the server.
func Denied(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	entries, err := server.Client().ACLLog(t.Context(), 100).Result()
	must(t, err)
	commands := make(map[string]bool)
	for _, e := range entries {
		commands[e.Object] = true
	}
	return slices.Sorted(maps.Keys(commands))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
