package sim

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/waiters"
)

// messages are those of lua/queues.lua about callers who wait. All simulated processes are one process to package
// waiters, so package driver could wake a caller without a message. The states of the servers therefore have another
// queue for each queue, in which no caller waits, and a message goes only to connections of the process of the queue.
type messages struct {
	mu         sync.Mutex
	list       waiters.List[int64]
	queues     []*queue
	subscribed []*conn
	last       map[int]time.Time // when a process has subscribed
}

// A queue is one of a simulated process.
type queue struct {
	id      int64 // as its process knows it
	process int
	asked   time.Time
	*waiters.Waiter[int64]
}

// forgotten is the time after which no state has a queue that has not asked.
const forgotten = time.Minute

// queueOf returns the ID in states of a queue with the given ID, whose process runs the present command of s.
func (s *server) queueOf(id int64) int64 {
	if s.fixed != nil {
		return id
	}
	m := &s.w.messages
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.queues) - 1; i >= 0; i-- {
		q := m.queues[i]
		switch {
		case q.id == id:
			q.asked = time.Now()
			return q.Queue.ID
		case time.Since(q.asked) > forgotten:
			m.list.Leave(q.name(), q.Waiter, false)
			m.queues = slices.Delete(m.queues, i, i+1)
		}
	}
	q := &queue{id: id, process: s.client.l.process, asked: time.Now()}
	q.Waiter = m.list.Join(q.name(), 1, id, 1<<20)
	m.queues = append(m.queues, q)
	return q.Queue.ID
}

func (q *queue) name() string { return strconv.FormatInt(q.id, 10) }

// waiter returns the caller with the arguments of op wait.
func (s *server) waiter(args []string) *driver.Waiter {
	age, behind := time.Duration(integer(args[3]))*time.Microsecond, time.Duration(integer(args[4]))*time.Microsecond
	return &driver.Waiter{Queue: s.queueOf(integer(args[0])), Age: age, Behind: behind, Next: int(integer(args[2])), Known: args[1] == "1"}
}

func (m *messages) subscribe(c *conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscribed = append(m.subscribed, c)
	if m.last == nil {
		m.last = map[int]time.Time{}
	}
	m.last[c.l.process] = time.Now()
}

// since returns when a process has subscribed for the last time.
func (m *messages) since(process int) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[process]
}

// publish sends messages about the queues that package driver has woken at s.
func (m *messages) publish(s *server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queues {
		select {
		case <-q.Freed():
			m.send(s, q, "")
		default:
		}
	}
}

// hears sends the message which shows that messages about a queue come. id is that in states.
func (m *messages) hears(s *server, id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queues {
		if q.Queue.ID == id {
			m.send(s, q, "?")
		}
	}
}

// send sends a message from s to all connections that the process of q has subscribed with, at any server.
func (m *messages) send(s *server, q *queue, mark string) {
	m.subscribed = slices.DeleteFunc(m.subscribed, (*conn).ended)
	for _, c := range m.subscribed {
		if c.l.process == q.process {
			s.w.logf("%s message %s%d", c.id, mark, q.id%1000)
			text := encode([]any{"message", "weir:wake", mark + q.name()})
			time.AfterFunc(0, func() { c.push(text) })
		}
	}
}

// push sends a message to the client, unless the server is away or the messages are lost.
func (c *conn) push(text string) {
	n := c.l.server
	n.mu.Lock()
	away := time.Now().Before(n.frozen) || time.Now().Before(n.down)
	n.mu.Unlock()
	c.l.mu.Lock()
	lost := time.Now().Before(c.l.muted)
	c.l.mu.Unlock()
	if !away && !lost {
		c.mu.Lock()
		c.sent++ // each message has a random number of its own
		c.mu.Unlock()
		c.reply(text)
	}
}

func (c *conn) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed || c.err != nil
}

// cut ends the connections with which the process of a link has subscribed.
func (m *messages) cut(l *link) {
	m.mu.Lock()
	all := slices.Clone(m.subscribed)
	m.mu.Unlock()
	for _, c := range all {
		if c.l == l {
			c.reset()
		}
	}
}
