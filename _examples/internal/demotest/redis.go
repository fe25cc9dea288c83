package demotest

import (
	"os"
	"testing"

	"github.com/weir-go/weir/examples/internal/localredis"
)

// Redis is the place of a redis-server for this test, which is not started yet and
// ends with the test. Where there is none, the test is skipped.
func Redis(t testing.TB) *localredis.Server {
	t.Helper()
	NeedRedis(t)
	s, err := localredis.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// StartRedis starts s.
func StartRedis(t testing.TB, s *localredis.Server) {
	t.Helper()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
}

// NeedRedis skips the test where redis-server is not installed.
func NeedRedis(t testing.TB) {
	t.Helper()
	if localredis.Installed() {
		return
	}
	const need = "this test needs a real Redis, and redis-server is not in PATH"
	if os.Getenv("WEIR_REQUIRE_REDIS") == "1" {
		t.Fatalf("%s (WEIR_REQUIRE_REDIS=1 does not allow a skip)", need)
	}
	t.Skipf("SKIPPED: %s", need)
}
