package sim

import (
	"time"

	"github.com/weir-go/weir/core"
)

// A scenario is a kind of deployment, with its load and its faults.
type scenario struct {
	name      string
	servers   int
	processes int
	stores    stores
	cluster   bool // the servers are the nodes of a Cluster
	oneSlot   bool // a plain client is before a Cluster, or a proxy: scripts with keys of several slots fail
	pool      int  // connections, of which warm are opened in the beginning
	warm      int
	healed    time.Duration // after a fault, until nothing may fail; the constant healed if it is 0
	apart     bool          // the clock of a server differs from those of the processes by up to ten minutes

	length     time.Duration
	idle       time.Duration // of clients, on average
	hold       time.Duration
	chargeTime time.Duration // of a server, for each charge of a script
	scale      int           // of the limits of the rates
	load       load

	every  time.Duration // between faults, on average
	lasts  time.Duration // each fault; 10 ms to 10 s if it is 0
	faults []string
}

// The stores of a process.
type stores int

const (
	alone      stores = iota // redisstore
	leased                   // denycache over redisstore, and lease over both
	withBackup               // package resilient, and lease over it
)

// A load is the number of clients of each kind in each process.
type load struct {
	places    int // take places
	keys      int // of places; 2 if it is 0
	users     int // keys with a process of their own, of which events never take more than n places
	rates     int // for each rate
	only      []int
	refunds   int
	joint     int // decide about two keys together
	heavy     int // make events with a large cost
	overrides int // users that are blocked
	hot       int // use one key all the time, and stop for a while
	waits     int // wait for places, some of them by cost, or take them without waiting
	pauses    int // use keys that one more client pauses, of each kind
	bans      int // use a key that is banned again and again (core.Spec.BlockFor)
}

const (
	places      = 3 // of each key
	usersPlaces = 2
	timeout     = 100 * time.Millisecond // redisstore.DefaultTimeout
)

var network = []string{"reset", "flaky", "flaky", "stall", "dropOut", "dropBack", "freeze", "crash", "forget"}

func with(faults []string, more ...string) []string {
	return append(append([]string(nil), faults...), more...)
}

var scenarios = []scenario{
	{
		name: "slow", servers: 1, processes: 3, stores: withBackup, pool: 10, length: 30 * time.Hour, idle: time.Hour, hold: time.Hour,
		load: load{places: 4, rates: 1}, every: 3 * time.Hour, faults: with(network, "partition", "loading", "readonly", "stopped"),
	},
	{
		name: "plain", servers: 1, processes: 3, pool: 10, length: 100 * time.Second, idle: time.Second, hold: 5 * time.Second, apart: true,
		load: load{places: 5, rates: 2}, every: 5 * time.Second, faults: with(network, "slow", "kill", "loading", "readonly", "die", "memory", "stopped", "fade"),
	},
	{
		name: "renew", servers: 1, processes: 3, pool: 10, length: 30 * time.Minute, idle: 20 * time.Second, hold: 3 * time.Minute,
		load: load{places: 6, keys: 4}, every: 12 * time.Second, faults: with(network, "loading", "readonly", "memory"),
	},
	{
		name: "lapse", servers: 1, processes: 3, pool: 10, length: time.Minute, idle: 100 * time.Millisecond, hold: 2 * time.Second,
		load: load{places: 8, keys: 1}, every: 3 * time.Second, faults: []string{"fade", "fade", "fade", "partition", "stall"},
	},
	{
		name: "lease", servers: 1, processes: 3, stores: leased, pool: 10, length: 15 * time.Second, idle: 45 * time.Millisecond, scale: 6, apart: true,
		load: load{rates: 2, places: 5}, hold: 5 * time.Second, every: 6 * time.Second, faults: with(network, "slow", "loading"),
	},
	{
		name: "hot", servers: 1, processes: 3, stores: leased, pool: 10, length: 40 * time.Second, idle: 45 * time.Millisecond, scale: 20,
		load: load{hot: 2}, every: 15 * time.Second, faults: []string{"reset", "stall", "forget"},
	},
	{
		name: "resilient", servers: 1, processes: 3, stores: withBackup, pool: 10, length: 2 * time.Minute, idle: time.Second, hold: 5 * time.Second,
		load: load{places: 5, rates: 2}, every: 8 * time.Second, faults: with(network, "slow", "partition", "loading", "readonly", "memory", "stopped"),
	},
	{
		name: "busy", servers: 1, processes: 2, stores: withBackup, pool: 10, length: 35 * time.Second, idle: 100 * time.Millisecond, hold: 5 * time.Second, scale: 50, lasts: 3 * time.Second,
		load: load{places: 3, rates: 2}, every: 6 * time.Second, faults: []string{"partition", "freeze", "crash", "readonly", "loading", "memory"},
	},
	{
		name: "loss", servers: 1, processes: 3, stores: withBackup, pool: 10, length: 2 * time.Minute, idle: time.Second, hold: 5 * time.Second,
		load: load{places: 5, rates: 2}, every: 8 * time.Second, faults: []string{"flush", "failover", "reset", "stepOn", "stepBack", "freeze"},
	},
	{
		name: "refunds", servers: 1, processes: 2, pool: 10, length: time.Minute, idle: 200 * time.Millisecond, apart: true,
		load: load{refunds: 4}, every: 4 * time.Second, faults: []string{"stepBack", "stepBack", "reset", "dropBack"}, // no undo is under way when the clock steps
	},
	{
		name: "moved", servers: 3, processes: 2, cluster: true, pool: 10, length: 30 * time.Second, idle: 300 * time.Millisecond, hold: 5 * time.Second,
		load: load{places: 6, keys: 6, rates: 2, joint: 2}, every: 6 * time.Second, faults: []string{"migrate", "migrate", "reset"}, healed: 50 * time.Millisecond,
	},
	{
		name: "together", servers: 3, processes: 2, cluster: true, pool: 10, length: 30 * time.Second, idle: 100 * time.Millisecond,
		load: load{joint: 6},
	},
	{
		name: "cluster", servers: 3, processes: 2, cluster: true, pool: 10, length: 5 * time.Minute, idle: time.Second, hold: 5 * time.Second,
		load: load{places: 9, keys: 6, rates: 1}, every: 30 * time.Second, faults: []string{"reset", "freezeLong", "crashLong", "partition", "dropBack"},
	},
	{
		name: "part", servers: 3, processes: 2, stores: withBackup, cluster: true, pool: 10, length: time.Minute, idle: 200 * time.Millisecond, hold: 5 * time.Second,
		load: load{places: 6, keys: 12, rates: 2, joint: 2}, every: 30 * time.Second, faults: []string{"freezeLong", "crashLong", "partition"},
	},
	{
		name: "proxy", servers: 1, processes: 2, oneSlot: true, pool: 10, length: time.Minute, idle: time.Second, hold: 5 * time.Second,
		load: load{places: 6, keys: 6, joint: 2}, every: 20 * time.Second, faults: []string{"reset"},
	},
	{
		name: "forgotten", servers: 1, processes: 2, stores: withBackup, pool: 40, warm: 30, length: 2 * time.Minute, idle: 300 * time.Millisecond, hold: 5 * time.Second,
		load: load{places: 3, rates: 1}, every: 40 * time.Second, faults: []string{"die"},
	},
	{
		name: "blip", servers: 1, processes: 2, pool: 10, length: 25 * time.Second, idle: 30 * time.Millisecond, healed: 50 * time.Millisecond,
		load: load{rates: 1, only: []int{1, 4}}, every: 200 * time.Millisecond, faults: []string{"blip"},
	},
	{
		name: "pause", servers: 1, processes: 2, pool: 10, length: 30 * time.Second, idle: 50 * time.Millisecond, hold: 30 * time.Second,
		load: load{users: 8}, every: 8 * time.Second, faults: []string{"pause"},
	},
	{
		name: "replies", servers: 1, processes: 2, pool: 20, warm: 15, length: 30 * time.Second, idle: 50 * time.Millisecond, hold: 30 * time.Second,
		load: load{users: 8}, every: 8 * time.Second, faults: []string{"die", "reset", "dropBack", "flaky", "stall"},
	},
	{
		name: "overload", servers: 1, processes: 2, pool: 8, length: 4 * time.Second, idle: 5 * time.Millisecond, hold: 5 * time.Second, chargeTime: 200 * time.Microsecond, scale: 1000,
		load: load{places: 10, keys: 10, rates: 60, only: []int{0, 2}, heavy: 200}, every: time.Hour,
	},
	{
		name: "overrides", servers: 1, processes: 3, stores: withBackup, pool: 10, length: time.Minute, idle: 200 * time.Millisecond,
		load: load{overrides: 6}, every: 8 * time.Second, faults: []string{"reset", "flaky", "stall", "partition", "crash", "forget"},
	},
	{
		name: "waiting", servers: 1, processes: 4, pool: 10, length: 80 * time.Second, idle: 300 * time.Millisecond, hold: 2 * time.Second, apart: true,
		load: load{waits: 3}, every: 8 * time.Second, faults: []string{"mute", "mute", "cut", "killFirst"},
	},
	{
		name: "waitingFaults", servers: 1, processes: 3, pool: 10, length: time.Minute, idle: 300 * time.Millisecond, hold: 2 * time.Second,
		load: load{waits: 3}, every: 6 * time.Second, faults: with(network, "mute", "cut", "partition", "loading", "memory"),
	},
	{
		name: "waitingOutage", servers: 1, processes: 3, stores: withBackup, pool: 10, length: time.Minute, idle: 300 * time.Millisecond, hold: 2 * time.Second,
		load: load{waits: 3}, every: 8 * time.Second, faults: []string{"partition", "freeze", "crash", "cut", "reset"},
	},
	{
		name: "waitingCluster", servers: 3, processes: 3, cluster: true, pool: 10, length: time.Minute, idle: 300 * time.Millisecond, hold: 2 * time.Second,
		load: load{waits: 3}, every: 8 * time.Second, faults: []string{"crashLong", "freezeLong", "partition", "mute", "killFirst"},
	},
	{
		name: "waitingLate", servers: 1, processes: 3, pool: 10, length: time.Minute, idle: 300 * time.Millisecond, hold: 2 * time.Second,
		load: load{waits: 3}, every: 3 * time.Second, lasts: 9 * time.Second, faults: []string{"late"},
	},
	{
		name: "waitingLoss", servers: 1, processes: 3, pool: 10, length: time.Minute, idle: 300 * time.Millisecond, hold: 2 * time.Second,
		load: load{waits: 3}, every: 8 * time.Second, faults: []string{"flush", "stepOn", "stepBack", "stepBack"},
	},
	{
		name: "pauses", servers: 1, processes: 3, pool: 10,
		length: 30 * time.Second, idle: 200 * time.Millisecond, hold: 5 * time.Second, apart: true,
		load: load{pauses: 2}, every: 5 * time.Second, faults: with(network, "slow", "loading", "memory"),
	},
	{
		name: "pausesCached", servers: 1, processes: 3, stores: leased, pool: 10,
		length: 30 * time.Second, idle: 200 * time.Millisecond, hold: 5 * time.Second, apart: true,
		load: load{pauses: 2}, every: 8 * time.Second, faults: with(network, "slow"),
	},
	{
		name: "pausesOutage", servers: 1, processes: 3, stores: withBackup, pool: 10,
		length: 30 * time.Second, idle: 200 * time.Millisecond, hold: 5 * time.Second,
		load: load{pauses: 2, rates: 1, only: []int{1}}, every: 8 * time.Second, lasts: 4 * time.Second,
		faults: []string{"partition", "freeze", "crash", "readonly", "dropBack", "reset"},
	},
	{
		name: "pausesTogether", servers: 3, processes: 2, cluster: true, pool: 10,
		length: 15 * time.Second, idle: 200 * time.Millisecond, hold: 5 * time.Second,
		load: load{pauses: 1, joint: 3},
	},
	{
		name: "pausesLoss", servers: 1, processes: 2, pool: 10,
		length: 40 * time.Second, idle: 200 * time.Millisecond, hold: 5 * time.Second,
		load: load{pauses: 2}, every: 2 * time.Second,
		faults: []string{"flush", "failover", "stepOn", "stepBack", "stepBack", "stepBack", "freeze"},
	},
	{
		name: "bans", servers: 1, processes: 3, pool: 10, length: time.Minute, idle: 100 * time.Millisecond, apart: true,
		load: load{bans: 2}, every: 5 * time.Second, faults: with(network, "slow", "loading", "memory"),
	},
	{
		name: "bansCached", servers: 1, processes: 3, stores: leased, pool: 10, length: time.Minute, idle: 100 * time.Millisecond, apart: true,
		load: load{bans: 2}, every: 8 * time.Second, faults: with(network, "slow"),
	},
	{
		name: "bansOutage", servers: 1, processes: 3, stores: withBackup, pool: 10, length: 2 * time.Minute, idle: 100 * time.Millisecond,
		load: load{bans: 2}, every: 8 * time.Second, lasts: 4 * time.Second, faults: []string{"partition", "freeze", "crash", "readonly", "dropBack", "reset", "stall", "flaky"},
	},
	{
		name: "bansCluster", servers: 3, processes: 2, cluster: true, pool: 10, length: 30 * time.Second, idle: 100 * time.Millisecond,
		load: load{bans: 2}, every: 6 * time.Second, faults: []string{"migrate", "reset"}, healed: 50 * time.Millisecond,
	},
}

// A rate is a Limiter of rates.
type rate struct {
	rules  func(scale int) []core.Rule
	atMost bool
}

const (
	day       = 24 * time.Hour
	rateKeys  = 2 // of each rate
	jointRate = 3 // indexes of rates
	quotaRate = 5
)

var rates = []rate{
	{rules: func(scale int) []core.Rule { return []core.Rule{bucket(scale)} }},
	{rules: func(int) []core.Rule { return []core.Rule{slidingLog()} }},
	{rules: func(scale int) []core.Rule { return []core.Rule{window(scale)} }},
	{rules: func(scale int) []core.Rule { return []core.Rule{bucket(scale), slidingLog()} }},
	{rules: func(int) []core.Rule {
		return []core.Rule{core.SlidingWindow("sliding", core.Limit{Events: 30, Per: 10 * time.Second}), core.SlidingLog("shadow", core.PerMinute(2)).Shadow()}
	}},
	{rules: func(int) []core.Rule {
		return []core.Rule{core.Quota("quota", core.Daily(40)).Rollover(20)}
	}},
	{rules: func(scale int) []core.Rule { return []core.Rule{bucket(scale)} }, atMost: true},
	{rules: func(scale int) []core.Rule { return []core.Rule{ownWindow(scale)} }},
}

func bucket(scale int) core.Rule {
	return core.TokenBucket("bucket", core.Limit{Events: 150 * scale, Per: 10 * time.Second, Burst: 150 * scale})
}

func slidingLog() core.Rule {
	return core.SlidingLog("log", core.Limit{Events: 20, Per: 10 * time.Second})
}

func window(scale int) core.Rule {
	return core.FixedWindow("window", core.Limit{Events: 150 * scale, Per: 10 * time.Second})
}

func ownWindow(scale int) core.Rule {
	return core.FixedWindow("own window", core.Limit{Events: 150 * scale, Per: 10 * time.Second}).FromFirst()
}

func placeRule(name string, n int, hold time.Duration) core.Rule {
	return core.InFlight(name, n).Hold(hold)
}
