package waiters

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Queue is the waiters of one key of a List, as a Store knows them.
type Queue struct {
	ID int64 // of no other queue, also of other processes; 1 to 2^53-1

	freed chan struct{}
	heard atomic.Int64 // when the last message about the queue came, in nanoseconds since start
}

// PerProcess is the number of IDs of a process: the ID of a queue divided by it is that of its process, rounded down.
const PerProcess = 1 << 22

// heardFor is the time for which one message shows that messages come.
const heardFor = 3 * time.Second

var (
	start = time.Now()

	// Process is a random number that identifies this process in the IDs of its queues.
	Process = 1 + rand.Int64N(1<<31-2)

	queues struct {
		mu   sync.Mutex
		byID map[int64]*Queue
		last int64
	}
)

// open makes q, which is new, a queue that Wake and Hear find.
func (q *Queue) open() {
	queues.mu.Lock()
	defer queues.mu.Unlock()
	if queues.byID == nil {
		queues.byID, queues.last = make(map[int64]*Queue), rand.Int64N(PerProcess)
	}
	q.freed = make(chan struct{}, 1)
	q.heard.Store(-int64(heardFor))
	for ok := true; ok; _, ok = queues.byID[q.ID] {
		queues.last = (queues.last + 1) % PerProcess
		q.ID = Process*PerProcess + queues.last
	}
	queues.byID[q.ID] = q
}

// close makes Wake and Hear forget q.
func (q *Queue) close() {
	queues.mu.Lock()
	defer queues.mu.Unlock()
	delete(queues.byID, q.ID)
}

// Open reports whether a caller of this process waits in the queue with an ID. No other queue has the ID later.
func Open(id int64) bool { return find(id) != nil }

func (q *Queue) wake() {
	select {
	case q.freed <- struct{}{}:
	default:
	}
}

// Hears reports whether messages about q come: the Store then says at once when a place is free.
func (q *Queue) Hears() bool {
	if q == nil {
		return false
	}
	d := time.Since(start) - time.Duration(q.heard.Load())
	return 0 <= d && d < heardFor // d is below 0 before the first message in a bubble of synctest
}

// Wake lets the first waiter of the queue with an ID ask again, if it belongs to this process: a place is free.
func Wake(id int64) {
	if q := find(id); q != nil {
		q.wake()
	}
}

// Hear notes that a message about the queue with an ID has come.
func Hear(id int64) {
	if q := find(id); q != nil {
		q.heard.Store(int64(time.Since(start)))
	}
}

// Deaf notes that messages about the queue with an ID do not come any more. Its first waiter asks again within a quarter of
// a second, because a message may be lost, and then more often until it hears again.
func Deaf(id int64) {
	if q := find(id); q != nil {
		q.heard.Store(int64(time.Since(start) - heardFor))
		time.AfterFunc(rand.N(time.Second/4), q.wake)
	}
}

func find(id int64) *Queue {
	queues.mu.Lock()
	defer queues.mu.Unlock()
	return queues.byID[id]
}
