package sim

import (
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/internal/testkit"
)

// An error of a server without the library struct names the cause and the cure.
func TestMiniredis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer rdb.Close()
	s := redisstore.New(rdb, "test")
	for _, a := range testkit.Algorithms {
		d, err := testkit.Limiter(t, s, a.Rule(a.Name, core.PerMinute(3))).Allow(t.Context(), "k")
		if err != nil && !(errors.Is(err, core.ErrUnavailable) && strings.Contains(err.Error(), "test with memstore or redistest")) || err == nil && !d.Allowed {
			t.Errorf("%s: got %v, %v", a.Name, d, err)
		}
		if works := strings.HasSuffix(a.Name, "bucket") || a.Name == "sliding_window"; works != (err == nil) {
			t.Errorf("%s: got the error %v", a.Name, err)
		}
	}
}
