package redisstore

import (
	"maps"

	"github.com/weir-go/weir/core/internal/waiters"
)

// heardQueues are the queues about which a subscription has brought messages.
type heardQueues struct {
	ids  map[int64]bool
	most int // after which those without callers are removed
}

// add adds the queue with an ID, of which a message has come.
func (h *heardQueues) add(id int64) {
	if h.ids == nil {
		h.ids, h.most = make(map[int64]bool), 1000
	}
	if h.ids[id] = true; len(h.ids) > h.most {
		maps.DeleteFunc(h.ids, func(id int64, _ bool) bool { return !waiters.Open(id) })
		h.most = max(1000, 2*len(h.ids))
	}
}

// end lets the callers of the queues ask again: the subscription has ended.
func (h *heardQueues) end() {
	for id := range h.ids {
		waiters.Deaf(id)
	}
}
