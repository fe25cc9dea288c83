// Package redisstore provides a Store that keeps states in Redis or Valkey: in a single server, a
// Sentinel group or a Cluster. It is tested on Redis 7.0 and 8.0, and on Valkey 8.0, 8.1 and 9.1.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	api := core.Must(core.New(redisstore.New(rdb, "shop"), core.SlidingWindow("api", core.PerMinute(100))))
//
// An application that has to go on while Redis is down uses package resilient, in the folder of that name below this
// package, which combines this Store with a backup in memory. Package diagnose, there too, checks whether a Store works on
// the Redis at hand.
//
// A Lua script makes a decision, regardless of the number of rules, in one round trip. The script is
// atomic and takes the time from the server's clock.
//
// # Batches
//
// Concurrent decisions share round trips and scripts. While little is under way to a server, a decision
// is sent at once. Others wait until a round trip ends, and share the next one: up to 83 buckets, or as
// many other rules as take the same time, about 250 us. Calls of Adjust share the backlog. No decision
// waits for others to come.
//
// The Store bounds the time that the server needs for the round trips under way, so that a server that
// is far gets as much work as it can do, and the backlog is here and not in the server. At most four
// round trips are under way, or, if that is more, as many as the server can decide during the shortest
// round trip of the last ten seconds plus 1 ms. They use at most half of the connections of the client
// (PoolSize).
// Decisions about one or two rules with a cost of at most 10 do not wait behind decisions that take
// longer, except for those on the same key. A decision that waits too long to be answered before
// its deadline is not sent, see [ErrOverloaded].
//
// Redis decides the charges of a key in the order of the backlog, and each decision is as exact as
// alone: it sees the states that earlier decisions have written, and is atomic. A decision that
// fails, for example because of a damaged state, does not affect the others. A lost reply fails all
// decisions of its round trip; package failover counts that as one failure. The MaxDelay of an
// event shrinks by the time that the event has waited.
//
// Renewals of places of in-flight rules go ahead of decisions that wait, and find room in the backlog when
// decisions do not. A Redis that is overloaded by decisions therefore loses no place.
//
// On a Cluster, every node has its own backlog. A round trip has a script for each hash slot in it. A
// *redis.Client may also be connected to a proxy for several servers that sends a script to the
// server of its first key, or to a node of a Cluster, which rejects keys of several slots. The Store
// therefore tests whether the server has the keys of all slots: it writes 16 keys one by one, for ten
// seconds, and reads them in a script. The test begins with the first batch, or with the first decision
// about several keys. It is repeated after a second if it fails, after a minute if the user lacks a
// permission for it, which is logged, and after a minute or later if it was positive and the client has
// opened a connection since. [Unbatched] turns batches off.
//
// Without a positive test, only decisions about the same identity share a script, and a decision about
// several is split as on a Cluster: one script for each key, undone if another key is denied. It is never
// generous, and until the undo too strict.
//
// # Keys
//
//	weir:shop:{N3Jh0bO7eS3y5cQ4kz1mGA}t2:60:api
//	     │    └─ the identity, hashed ─┘ │  └─ length of the state, and name of the rule
//	     └─ the application              └─ algorithm and version of its state
//
// The name of the application keeps the states of applications apart that share a Redis: see [New].
//
// The keys of one identity share a hash slot. Keys show neither addresses nor names; see
// [KeySecret] for identities that can be guessed. Every key has a TTL and expires when its state
// equals the state of a new key. Probes of package failover write keys that end with a question
// mark and expire after about a second; the test under Batches writes such keys, too, for 10 s.
//
// The key of a quota, such as weir:shop:{N3Jh0bO7eS3y5cQ4kz1mGA}d1:month:calls, has the name of its period, and
// expires at the end of that: in up to 31 days, or with a core.Spec.Rollover 33 days later, after the next one. Its time zone and anchor are no part of the key, so a
// change of them begins no new count.
//
// The places of an in-flight rule are a sorted set of up to 1000 numbers, which the Store chooses at random.
// If the reply to a decision is late or lost, the Store frees its places by their number. It repeats
// that until it has found them, or Redis replies after ten seconds that they are not there, or they lapse.
// The key is deleted when the last place is freed, and expires hold after the last renewal. A Redis without free
// memory renews and frees places, and grants none.
//
// During a rolling deployment of two releases, their processes share the states of an algorithm if
// its version is equal in both. Otherwise the states are separate: until the deployment ends, a key can
// be admitted up to its limit by each release.
//
// # Places
//
// Callers of core.Limiter.Acquire are in the states of the places that they wait for, one of each process and Limiter,
// for 2 s after they have asked: so all processes give places in the order of arrival, by the clock of the server.
// When places are freed, the script publishes a message to the channel of the process that is first, such as
// weir:shop:wake:1804289383. While callers wait, and for a minute afterwards, a Store has a subscription, on a connection of its
// own, on each server of a Cluster or *redis.Ring that has their places. Callers who hear the messages ask at least once a
// second, so a lost message or a process that was killed delays the next caller by at most 3 s; if a subscription breaks,
// they ask within 250 ms. Without messages, because the user lacks a permission or a proxy does not pass them, callers ask
// after 50 to 250 ms.
//
// # Deadline
//
// Take and Adjust return within [Timeout], regardless of the configuration of the client. A
// decision that waits and misses its deadline is not sent. A script that was sent continues in the
// background until its reply arrives or the client's own timeouts end it, so that a slow server
// does not lose its connections. When half of the connections of the client have such scripts, and
// no reply was in time for a second, decisions fail at once. If no reply was in time, the Store also opens a
// new connection, at most twice a second. If the server replies on it, the idle connections without a reply
// are closed: a firewall or a load balancer has forgotten them. While the server replies in time, a
// caller may run its script itself. Then a missed deadline closes the connection, a caller whose
// context is cancelled waits for the reply or the deadline, and a hook of the client that ignores
// its context delays the caller.
//
// A Redis that is slow, and not only one that is down, opens a limit without a backup: package gate
// admits a request that is not decided within [Timeout]. Package resilient adds a backup in memory.
//
// A script runs at most once for a decision. A command that may have run is not sent again, so a
// failed decision may have been charged once. A command that certainly did not run is sent again
// within the deadline: after a failure to connect, and after a NOSCRIPT, LOADING, BUSY, TRYAGAIN,
// CLUSTERDOWN, MASTERDOWN, READONLY or "max number of clients reached" error.
//
// # Permissions
//
// A Redis user with these permissions can run every algorithm and operation of the application shop (weir: is
// [DefaultPrefix]; password is an example):
//
//	ACL SETUSER limiter on >password ~weir:shop:* &weir:shop:* +evalsha +eval +time +get +psetex +del
//	    +unlink +zadd +zrem +zcard +zcount +zrange +zrevrange +zrangebyscore +zremrangebyrank
//	    +hmget +hset +hgetall +hdel +exists +pexpire +info +publish +subscribe
//
// The channel weir:shop:* and the last two are used only while callers wait for places (core.Limiter.Acquire): without them,
// places are found by asking, see Places. INFO is used only for the warning that the server may evict keys, and by
// package diagnose, which names the permissions that are missing. go-redis also sends CLIENT
// SETINFO on every new connection. If the user may not call it, decisions succeed, but the server
// records each denial in ACL LOG. On Valkey, and on Redis except version 7.0, which rejects this
// permission as unknown and does not record the calls, add
//
//	+client|setinfo
//
// or set DisableIdentity in the options of the client. The client of a Cluster also needs
//
//	+cluster|slots +command
//
// A missing permission or a wrong password is a fault of the configuration: unlike an outage, it
// does not end by itself. Decisions fail with core.ErrUnavailable, as in an outage: package gate
// admits requests by default, and package failover calls its backup. The Store therefore also logs
// an error that names the fault, with slog, at most once a minute. If the user lacks a permission
// that a script needs after its first write, the event may be charged although the decision fails.
// Without +pexpire, a state may remain without a TTL. In both cases, no limit is exceeded.
//
// # Servers without TIME
//
// Some services refuse the command TIME in scripts. The Store notices that at the first decision, which it then sends again,
// and takes the time of the server from the expiry of a key of the script: PEXPIRETIME less PTTL. The time is then in
// milliseconds, so a RetryAfter is rounded up to one, and a window may be shorter by one. The user needs SET, PTTL, PEXPIREAT
// and PEXPIRETIME in place of TIME, which the server has from Redis 7.0 on.
//
// If the script has no key that exists, it writes one and removes it. Therefore a Peek or a Reset of unused keys is in the
// append-only file, and fails if the server accepts no writes, as with full memory. Denials read a key that exists.
//
// # Cluster
//
// Charges of different keys may be in different hash slots. The Store makes one call for each slot,
// in parallel. If a charge is denied or fails, the Store undoes the charges in the other slots.
// Until then, another decision may be denied that would otherwise be admitted. If an undo is lost,
// because its node fails or does not reply in time, that charge stays until it expires, although the
// event was denied. No decision exceeds a limit, except that a bucket may briefly exceed its burst by the events that are being undone;
// its rate is never exceeded in the long run. A place in the queue of a leaky bucket cannot be
// freed once later events are behind it. The place is therefore taken in a second round
// trip, after the charges in all other slots were admitted. The charge of a rule whose denials ban keys (core.Spec.BlockFor) is
// taken then, too, because otherwise the charges of events that another slot denies could ban a key.
package redisstore
