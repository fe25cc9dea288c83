package redisstore

import (
	"math"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A test that is negative is final. One that fails changes nothing, and is repeated.
func TestServer_test(t *testing.T) {
	const all, most, rejected, broken = ":16\r\n", ":15\r\n", "-CROSSSLOT Keys in request don't hash to the same slot\r\n", "-ERR\r\n"
	for name, c := range map[string]struct {
		replies      []string
		merges, ends bool
	}{
		"all keys":        {[]string{all}, true, false},
		"most keys":       {[]string{most}, false, true},
		"CROSSSLOT":       {[]string{rejected}, false, true},
		"error":           {[]string{broken}, false, false},
		"error, all keys": {[]string{broken, all}, true, false},
		"all keys, error": {[]string{all, broken}, true, false},
		"all keys, most":  {[]string{all, most}, false, true},
		"all keys, slots": {[]string{all, rejected}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			replies := make(chan string, len(c.replies))
			rdb := redis.NewClient(&redis.Options{MaxRetries: -1, Dialer: FakeDialer(func(args []string) string {
				if args[0] == "psetex" {
					return "+OK\r\n"
				}
				return <-replies
			})})
			defer func() { _ = rdb.Close() }()
			s := newServer(rdb, config{}, nil, new(counters))
			for _, reply := range c.replies {
				replies <- reply
				s.test()
			}
			if ends := s.nextTest.Load() == math.MaxInt64; s.merges.Load() != c.merges || ends != c.ends {
				t.Errorf("merges is %t and the tests end: %t, want %t and %t", s.merges.Load(), ends, c.merges, c.ends)
			}
		})
	}
}
