package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
)

// scriptTime is the time that a healthy server needs for a script.
const scriptTime = 20 * time.Microsecond

// A server is a Redis, or a node of a Cluster. It executes one command at a time.
type server struct {
	w     *world
	addr  string
	index int
	fixed func() int64 // the time in microseconds, if a test sets it

	mu       sync.Mutex
	keyspace // without the states of rules
	states   map[string]driver.State
	spends   map[string]int  // the cost of all Spends, by spendName
	scripts  map[string]bool // hashes of scripts that the server knows
	clock    time.Duration   // added to the time of the bubble
	copies   []map[string][]byte
	queue    []call
	running  bool
	number   int   // of the command
	client   *conn // of the command
	health

	scriptTime  time.Duration // of a script
	chargeTime  time.Duration // of each charge in it, besides
	frozen      time.Time     // no command ends before
	down        time.Time     // no connection is accepted before
	failure     string        // of every script, unless it is empty
	noMemory    bool
	oneSlotOnly bool // scripts with keys of several slots fail
	slots       *slots
	undone      func(s *server, c *charge, before, after int64) // is told about each Undo, unless it is nil
	granted     func(s *server, c *charge)                      // is told about each admitted Spend, unless it is nil
	lua         *lua.LState                                     // executes the scripts of package processes; nil before the first one
	heard       func(argv []string)                             // is told about each heartbeat, unless it is nil
	paused      *pauses                                         // is told about all charges of pauses, unless it is nil
	crowd       *crowd                                          // is told about all places that are taken, unless it is nil
}

// A call is a command that waits.
type call struct {
	conn *conn
	args []string
}

// A session is the knowledge of a server about a connection.
type session struct {
	asking bool       // the next command is about a slot that is migrated to here
	multi  [][]string // the commands of a transaction, which has begun unless it is nil
}

func newServer(w *world, index int) *server {
	return &server{
		w: w, addr: fmt.Sprintf("10.0.0.%d:6379", index+1), index: index, keyspace: newKeyspace(), states: map[string]driver.State{},
		spends: map[string]int{}, scripts: map[string]bool{}, scriptTime: scriptTime,
	}
}

// spendName returns the name of a state in spends.
func spendName(tag, stateName string) string { return tag + " " + stateName }

func (s *server) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.down)
}

// now returns the time of the server in microseconds.
func (s *server) now() int64 {
	if s.fixed != nil {
		return s.fixed()
	}
	return time.Now().Add(s.clock).UnixMicro()
}

// receive gets the next packet of c.
func (s *server) receive(c *conn) {
	c.mu.Lock()
	packet := c.under[0]
	c.under = c.under[1:]
	if c.err != nil && s.w.rand(2, "late", c.id, c.sent) == 0 {
		c.mu.Unlock()
		return // the reset was faster; otherwise the command runs, and its reply is lost
	}
	commands, rest := takeCommands(append(c.request, packet...))
	c.request = slices.Clone(rest)
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.down) {
		return
	}
	for _, args := range commands {
		s.queue = append(s.queue, call{c, args})
	}
	s.next()
}

// next executes the next command when it is time. It is called with mu.
func (s *server) next() {
	if s.running || len(s.queue) == 0 {
		return
	}
	s.running = true
	s.number++
	wait := time.Duration(0)
	if s.scriptTime > 0 {
		wait = s.scriptTime + time.Duration(s.w.rand(2000, "time", s.addr, s.number))
	}
	if args := s.queue[0].args; len(args) > 3 {
		wait += s.chargeTime * time.Duration(charges(args))
	}
	if left := time.Until(s.frozen); left > 0 {
		wait += left
	}
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		if time.Now().Before(s.frozen) { // since then
			s.running = false
			s.next()
			s.mu.Unlock()
			return
		}
		var c call
		text := ""
		if len(s.queue) > 0 { // it has not crashed since then
			c, s.queue = s.queue[0], s.queue[1:]
			text = encode(s.do(c))
		}
		s.running = false
		s.next()
		s.mu.Unlock()
		if c.conn != nil {
			c.conn.reply(text)
		}
	})
}

// charges returns the number of keys of a script.
func charges(args []string) int64 {
	if name := strings.ToLower(args[0]); name != "evalsha" && name != "eval" {
		return 0
	}
	return integer(args[2])
}

// do executes a command, or puts it into a transaction.
func (s *server) do(c call) any {
	s.w.mu.Lock()
	s.w.commands++
	s.w.mu.Unlock()
	session, name := &c.conn.session, strings.ToLower(c.args[0])
	s.client = c.conn
	asking := session.asking
	session.asking = false
	switch {
	case name == "asking":
		session.asking = true
		return status("OK")
	case name == "multi":
		session.multi = [][]string{}
		return status("OK")
	case name == "exec" && session.multi != nil:
		replies := make([]any, 0, len(session.multi))
		for _, args := range session.multi {
			replies = append(replies, s.execute(args, false))
		}
		session.multi = nil
		return replies
	case session.multi != nil:
		session.multi = append(session.multi, c.args)
		return status("QUEUED")
	}
	reply := s.execute(c.args, asking)
	if len(c.args) > 3 {
		s.w.logf("%s %v -> %v", c.conn.id, c.args[min(2, len(c.args)-1):], reply)
	}
	return reply
}

// execute executes a command.
func (s *server) execute(args []string, asking bool) any {
	switch name := strings.ToLower(args[0]); name {
	case "hello":
		return errorReply("ERR unknown command 'HELLO'") // go-redis goes on with RESP 2
	case "info":
		return ""
	case "command":
		return []any{}
	case "cluster":
		return s.slots.reply(s.w)
	case "client", "ping", "readonly":
		return status("OK")
	case "subscribe":
		s.w.messages.subscribe(s.client)
		return []any{name, args[1], 1}
	case "evalsha", "eval":
		count := integer(args[2])
		keys, argv := args[3:3+count], args[3+count:]
		if s.oneSlotOnly && slices.ContainsFunc(keys, func(k string) bool { return tagOf(k) != tagOf(keys[0]) }) {
			return errorReply("CROSSSLOT Keys in request don't hash to the same slot")
		}
		if other := s.slots.redirect(s, keys, asking); other != "" {
			return errorReply(other)
		}
		return s.eval(name, args[1], keys, argv)
	default:
		return s.keyspace.execute(name, args[1:], s.now())
	}
}

func (s *server) eval(name, script string, keys, argv []string) any {
	sha := script
	if name == "eval" {
		sha = hashOfScript(script)
		_, known := programs()[sha]
		known = known || scripts()[sha] != nil
		switch {
		case !known && len(keys) == 1: // the test whether scripts may execute commands
			return []any{}
		case !known: // the test whether a script may have keys of all slots
			found := 0
			for _, key := range keys[1:] {
				if _, ok := s.keyspace.texts[key]; ok {
					found++
				}
			}
			return found
		}
		s.scripts[sha] = true
	}
	switch {
	case !s.scripts[sha]:
		return errorReply("NOSCRIPT No matching script. Please use EVAL.")
	case s.failure != "":
		return errorReply(s.failure)
	}
	if scripts()[sha] != nil {
		return s.interpret(sha, keys, argv)
	}
	s.copyStates()
	p := programs()[sha]
	if p.alone {
		argv = servertest.TakeArguments(argv)
	}
	reply, err := s.run(p.verb, p.places, keys, argv)
	if err != nil {
		panic("sim: " + err.Error()) // such a difference must not look like an outage
	}
	return reply
}

// copyStates keeps a copy of the present states for a while, for a failover that loses writes.
func (s *server) copyStates() {
	if s.fixed != nil || s.number%8 > 0 {
		return
	}
	if len(s.copies) > 4 {
		s.copies = s.copies[1:]
	}
	states := make(map[string][]byte, len(s.states))
	for key, state := range s.states {
		states[key], _ = state.MarshalBinary()
	}
	s.copies = append(s.copies, states)
}

// flush loses the states, and the record of processes, but no overrides.
func (s *server) flush() {
	clear(s.states)
	maps.DeleteFunc(s.hashes, func(key string, _ map[string]string) bool { return isRecord(key) })
	maps.DeleteFunc(s.sets, func(key string, _ map[string]float64) bool { return isRecord(key) })
}

// loseWrites makes the states those of an older copy.
func (s *server) loseWrites() {
	if len(s.copies) == 0 {
		return
	}
	clear(s.states)
	for key, b := range maps.All(s.copies[0]) {
		var state driver.State
		if err := state.UnmarshalBinary(b); err != nil {
			panic("sim: " + err.Error())
		}
		s.states[key] = state
	}
	s.copies = nil
}
