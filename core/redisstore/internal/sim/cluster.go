package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
)

const slotCount = 16384

// slots says which server of a Cluster has a slot. It is nil for a single server. It is guarded by the
// mutex of the world.
type slots struct {
	owner [slotCount]*server
	to    map[int]*server // the servers to which slots are migrated at present
}

// newSlots gives each server an equal part of the slots.
func newSlots(servers []*server) *slots {
	s := &slots{to: map[int]*server{}}
	for slot := range s.owner {
		s.owner[slot] = servers[slot*len(servers)/slotCount]
	}
	return s
}

func tagOf(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return tag
}

func slotOf(key string) int { return int(keyhash.Slot(tagOf(key))) }

// redirect returns the error for keys that s does not have, or "".
func (s *slots) redirect(at *server, keys []string, asking bool) string {
	if s == nil || len(keys) == 0 {
		return ""
	}
	slot, missing := slotOf(keys[0]), 0
	for _, key := range keys {
		if slotOf(key) != slot {
			return "CROSSSLOT Keys in request don't hash to the same slot"
		}
		if _, ok := at.states[key]; !ok {
			missing++
		}
	}
	at.w.mu.Lock()
	owner, to := s.owner[slot], s.to[slot]
	at.w.mu.Unlock()
	switch {
	case owner != at && !(asking && to == at):
		return fmt.Sprintf("MOVED %d %s", slot, owner.addr)
	case to == nil || missing == 0:
		return ""
	case missing < len(keys):
		return "TRYAGAIN Multiple keys request during rehashing of slot"
	case owner == at:
		return fmt.Sprintf("ASK %d %s", slot, to.addr)
	}
	return ""
}

// reply is the reply to CLUSTER SLOTS.
func (s *slots) reply(w *world) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []any
	for from := 0; from < slotCount; {
		end := from
		for end < slotCount && s.owner[end] == s.owner[from] {
			end++
		}
		host, _, _ := strings.Cut(s.owner[from].addr, ":")
		all = append(all, []any{from, end - 1, []any{host, 6379, fmt.Sprintf("%040d", s.owner[from].index)}})
		from = end
	}
	return all
}

// serverOf returns the server that has the states of an identity.
func (w *world) serverOf(identity string) *server {
	h := keyhash.New(nil)
	slot := int(keyhash.Slot(h.Tag(identity)))
	if s := w.servers[0].slots; s != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		return s.owner[slot]
	}
	return w.servers[0]
}

// migrate moves the slots of some keys of a server to the next one. In the beginning half of the keys move,
// and the others are moved by the function that it returns, which ends the migration.
func (w *world) migrate(from *server) (end func()) {
	to, moved := w.servers[(from.index+1)%len(w.servers)], map[int]bool{}
	w.mu.Lock()
	w.moving++
	for slot := range slotCount {
		if from.slots.owner[slot] == from && slot%2 == 0 && from.slots.to[slot] == nil {
			from.slots.to[slot], moved[slot] = to, true
		}
	}
	w.mu.Unlock()
	move := func(all bool) {
		first, second := from, to
		if second.index < first.index {
			first, second = second, first
		}
		first.mu.Lock()
		defer first.mu.Unlock()
		second.mu.Lock()
		defer second.mu.Unlock()
		for key, state := range from.states {
			if moved[slotOf(key)] && (all || w.rand(2, "migrate", key) == 0) {
				to.states[key] = state
				from.states[key] = driver.State{}
				delete(from.states, key)
			}
		}
	}
	move(false)
	return func() {
		move(true)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.moving--
		w.moved = time.Now()
		for slot := range moved {
			from.slots.owner[slot] = to
			delete(from.slots.to, slot)
		}
	}
}
