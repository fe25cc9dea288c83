package lease

import (
	"time"

	"github.com/weir-go/weir/core/driver"
)

// openTime is the time for which a ban that had not begun counts as open, in decisions that need no call except for bans.
const openTime = time.Second

func isBan(c driver.Charge) bool { return c.Ban }

// answerBans answers the charges that leases do not cover, if all of them are bans that count as open. Otherwise it returns
// false.
func (s *Store) answerBans(charges []driver.Charge, grants []grant) bool {
	for i := range charges {
		c := &charges[i]
		if grants[i].outcome != passThrough {
			continue
		}
		if !isBan(*c) || c.AtMost {
			return false
		}
		sh, hash := s.shard(c)
		now := sh.lock(s)
		open := now < sh.open[hash]
		sh.mu.Unlock()
		if !open {
			return false
		}
	}
	for i := range charges {
		if c := &charges[i]; grants[i].outcome == passThrough {
			c.Answer(new(driver.Reading), false)
		}
	}
	return true
}

// rememberBans notes the bans that were open in a call that was sent at a time.
func (s *Store) rememberBans(asked []driver.Charge, sent int64) {
	for i := range asked {
		c := &asked[i]
		if !isBan(*c) || c.Verdict.Unknown {
			continue
		}
		sh, hash := s.shard(c)
		sh.mu.Lock()
		if delete(sh.open, hash); c.Verdict.Allowed && !sh.closed {
			if len(sh.open) >= sh.limit {
				clear(sh.open)
			}
			sh.open[hash] = sent + int64(openTime)
		}
		sh.mu.Unlock()
	}
}
