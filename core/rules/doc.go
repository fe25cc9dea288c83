// Package rules reads limits from configuration files, in YAML or JSON. [Parse] checks a file, and
// the command of module github.com/weir-go/weir/cmd/weir does the same before a file is used:
//
//	weir check limits.yaml
//
// A [Set] makes ordinary limiters of the policies of a file, and changes their limits when the file
// changes:
//
//	file := rules.File("limits.yaml")
//	config, err := rules.Load(ctx, file) // an error of a missing or invalid file
//	set, err := rules.New(store, config)
//	go set.Watch(ctx, file)
//	api, err := set.Limiter("api") // for middleware, for example nethttplimit.New
//
// # Format
//
//	policies:
//	  api:                         # a policy is a limiter; letters, digits, _ and -
//	    rules:                     # an event is admitted if every rule admits it
//	      - name: second           # as for a policy; POLICY.NAME has at most 64 characters
//	        algorithm: token_bucket
//	        limit: 10/s burst 20
//	        plans: {gold: 100/s, staff: unlimited, banned: blocked}
//	        unit: tokens           # only in texts for clients; default: requests
//	      - name: hour
//	        algorithm: sliding_log
//	        limit: 500/h
//	        soft: 10               # percent above the limit that are admitted, and flagged
//	        mode: shadow           # evaluated, but never enforced; default: enforce
//	        candidate:             # a shadow rule for the same events, with states of its own
//	          algorithm: sliding_window
//	          limit: 400/h
//	          sub_windows: 30      # of a sliding_window; default: 60
//	      - name: search
//	        algorithm: fixed_window
//	        limit: 900/15m
//	        from_first: true       # the window of a key begins with its first event; default: false
//	        block_for: 10m         # a denial bans the key for that time, from 1s to 8784h (core.Spec.BlockFor); default: none
//	    keys:                      # exceptions for single keys
//	      "user:7": {blocked: true}
//	      "user:241531": {plan: gold}
//	      "user:99": {limits: {second: 5/s}, until: 2027-01-01T00:00:00Z}
//	  report:
//	    rules:
//	      - name: running
//	        algorithm: in_flight
//	        limit: 5               # events at the same time: a number without a period
//	        plans: {gold: 20}
//	        hold: 30s              # the lease, from 1s to 24h; default: 30s
//	        max_hold: 1h           # the bound of renewals (core.Rule.MaxHold); default: none
//	      - name: batch
//	        algorithm: in_flight
//	        limit: 90000           # of tokens at the same time
//	        by_cost: true          # an event takes as many places as its cost (core.Rule.ByCost); default: false
//	        unit: tokens
//	  calls:
//	    rules:
//	      - name: month
//	        algorithm: quota
//	        limit: 100000/month    # per day, week or month of the calendar
//	        plans: {pro: 5000000/month}
//	        rollover: 50000        # so many events left of the last period are added at most (core.Spec.Rollover); default: none
//	        timezone: Asia/Tokyo   # periods begin at midnight there; default: UTC
//	        headroom: {batch: 20}  # percent of its limit that a plan leaves to all others, in any algorithm
//	  partner:
//	    rules:
//	      - {name: stop, algorithm: pause} # denies a key while the application has paused it; it has no limit
//	      - {name: rate, algorithm: token_bucket, limit: 10/s}
//	  login:
//	    enforce: 25                # percent of the keys (see InPercent); default: 100
//	    disabled: true             # neither enforced nor counted; default: false
//	    rules:
//	      - {name: login, algorithm: sliding_window, limit: 5/15m}
//	routes:                        # patterns of net/http.ServeMux, and names of policies
//	  "POST /login": login
//	  "/v1/": api
//	all_routes: calls              # every request is charged to this policy, too; default: none
//	disabled: false                # true disables all policies
//
// A policy needs rules, and a rule needs a name, an algorithm and, unless it is a pause, a limit. All other
// fields are optional. [core.ParseLimit] describes the text of a limit, and [core.Rule] the algorithms, plans,
// units, soft and shadow rules. A policy with a rule or a candidate that is in_flight is for
// middlewares, and for Reserve and Acquire: core.Limiter.Allow returns an error for it
// (core.InFlight). An override with limits has precedence over plans, and its plan has precedence
// over the plan of the event. With blocked: true, every rule denies every event of the key without a
// call of the store. An override ends at the time until (RFC 3339). [ParseOverride] reads a single
// override. The rules are enforced as follows:
//
//	                               a rule    mode: shadow   candidate
//	a key that enforce includes    enforced  shadow         shadow
//	a key that enforce excludes    shadow    shadow         shadow
//	a key with blocked: true       denies    denies         denies
//	any key of a disabled policy   off       off            off
//
// The denial of a blocked key is [core.Decision.Blocked]. If the block ends, RetryAfter is the exact
// time until its end, by the clock of the process. A gate then sends Retry-After, the parameter t and
// a problem document with the end, and Wait waits for the end. Afterwards the key has its other
// override, if there is one, or the limits of the policy. RetryAfter is core.Never if the block has no
// end, and if the limit of the policy for the plan of the event is blocked, too. The same applies to
// overrides with a plan or limits that are blocked.
//
// A plan of a headroom that has no limit in plans has the limit of the rule (core.Rule.Headroom). A
// candidate has neither plans nor headroom.
//
// # Bans
//
// A denial by a rule with block_for bans the key until a time, in all processes (core.Spec.BlockFor). Only an operator
// blocks a key, and unblocks it: a ban ends by itself, or with [core.Limiter.Reset]. Overrides keep it, except
// that a key without a limit, or whose limit is blocked, has no ban. A ban stays when the configuration changes. A shadow rule, a candidate
// and a rule for a key that enforce excludes ban no key.
//
// # Pauses
//
// A pause (core.Pause) admits every event of a key until the application closes the key for a time, in all
// processes, with the limiter of the policy:
//
//	partner, err := set.Limiter("partner")
//	err = partner.Pause(ctx, "acme", retryAfter)
//
// A policy has at most one. The optional fields of a pause are mode and unit. An override cannot have a limit for it,
// and one with blocked: true denies every event, also of a key that is not paused. A pause that has begun stays when
// the configuration changes, also while the policy is disabled or does not have the rule. A pause has no candidate,
// and is no candidate of another rule.
//
// # Quotas
//
// A quota counts in periods of the calendar (core.Quota): a limit such as 100000/month is for a quota
// only, and a quota has no other limit. A file cannot name a day for each key, such as that of a
// subscription: use core.Rule.Anchor in code for such quotas.
//
// A timezone is a name of the IANA database, which [time.LoadLocation] finds in the zoneinfo of the
// system. An unknown name is an error, and so is Local, which differs from machine to machine. Images of
// containers often have no zoneinfo. Their programs contain the database if they import it, which adds
// about 400 KB; the command weir does:
//
//	import _ "time/tzdata"
//
// After a change of the file, a new limit of a quota applies at once, and a new timezone after the end of
// the period that a key is in. A smaller rollover applies at once. A limit with another period, such as 5/week after 20/month, begins a new
// count.
//
// # Files
//
// A file is one document in UTF-8. Keys of mappings are texts, with or without quotes. Unknown fields, duplicate keys,
// anchors, aliases, merge keys and tags are errors, and so are routes that conflict, or name a policy that does not
// exist. [Warnings] finds routes that no request matches. weir.schema.json in the directory of this package is a JSON
// Schema for editors. The largest file has
//
//   - 16 MiB, and about a million keys, values, lines, quotes and comments (40 000 short policies)
//   - 100 rules in a policy, and 1000 plans in a rule
//   - 4000 routes of 256 bytes each, with 40 000 segments together
//
// # Routes
//
// A Set is a table of routes for the option gate.Routes of the middlewares:
//
//	limit := nethttplimit.New(api, keyfunc.RemoteIP(), gate.Routes(set))
//	mux.Handle("POST /login", limit(login))
//	mux.Handle("/v1/", limit(v1))
//
// A request has the policy of the pattern that matches it, as in a [http.ServeMux]: the most
// specific pattern wins. Requests without a route have the limiter of New, here api. The middleware
// belongs behind the router, as in this example or with Use in Gin and Echo: a route then applies
// to the patterns of the router, and no spelling of a path avoids it. See [Set.ForRequest].
//
// With all_routes, every request is also charged to a second policy, for the same key and in one decision:
// both admit it, or none is charged. A request without a route has the limiter of New and the policy of
// all routes; give New the limiter of that policy if there is no other limit. The plans, keys, enforce and
// disabled of a policy apply to that policy alone. The policy of a route and that of all routes have at most
// 128 rules, candidates and bans together, which any Store can decide at once. See [Set.ForAll].
//
// # Changes
//
// [Set.Watch] reads the file every second. A new configuration is checked as a whole before it is
// used. Each decision uses one configuration, also if it is about several policies. States of keys
// continue as after core.Limiter.Replace. If the file is missing, empty or invalid, the last good
// configuration stays in force, and the error is logged once with its position. [Set.Version]
// identifies the configuration in force, and [OnChange] receives the differences.
//
// The limiter of a removed policy keeps its last rules as long as the program runs, for middlewares
// that have it. The routes of the policy end, and so do changes of its overrides. After the next
// start, [Set.Limiter] returns an error for it.
//
// A configuration from elsewhere, such as a row of a database (_examples/database), is a [Source]
// for Watch, or a [Config] for [Set.Apply].
//
// # Redis
//
// Several processes share a configuration that is in Redis, and overrides for any number of keys:
//
//	source := rules.RedisOf(store) // the Redis, name, prefix and secret of the store
//	soon, cancel := context.WithTimeout(ctx, time.Second)
//	defer cancel()
//	config, err := rules.Load(soon, source)
//	if err != nil { // Redis is down, or empty (ErrNoConfig)
//		config, err = rules.Load(ctx, rules.File("limits.yaml"))
//	}
//	set, err := rules.New(store, config, rules.Overrides(source))
//	go set.Watch(ctx, source) // or another source, such as a File: the overrides are followed, too
//
// [RedisSource.Put] writes a configuration. [Set.Override], [Set.Block] and [Set.Remove] change the
// override of a key, until a time or for ever; it has precedence over the keys of the
// configuration. The command weir rules does the same. Every watching process applies a change
// within two seconds. Both can have a [Note], and [RedisSource.List] returns them, newest first. Each
// takes 300 bytes in Redis, and more for its text and note.
//
// # Overrides and blocks of keys
//
// A process that runs [Set.Watch] holds the hashes of all keys that have an override or a block,
// each in 17 to 38 bytes. A key without one needs no call of Redis, and a blocked key is denied by
// its first event, also while Redis is down. A flood of new keys therefore affects no block and no
// override. Watch reads the hashes at the start, then their changes every second, and reads the
// hashes again if a change is missing. The first decision of a key with an override reads its text.
// Concurrent decisions share round trips. Later decisions use a cache of [MaxKeys] keys until the
// override has changed or [MaxAge] is over. While Redis replies, an override or a block is
// therefore in force within two seconds.
//
// The first decision of every key reads Redis, and the result is cached, so that a change may take
// until MaxAge, in these cases:
//
//   - Watch does not run, has not yet read the hashes, or has not confirmed them for MaxAge.
//   - There are more than 4 million blocks. Their hashes would take more than 150 MB.
//   - There are more than 4 million overrides. Blocks are then still in force without a read.
//
// In the first two cases, a flood of new keys can admit a blocked key if Redis replies too late.
//
// If Redis is down or hangs, no decision fails: blocks and cached overrides stay in force however
// old they are, and other keys have the limits of the configuration (see [FailClosed]). A decision
// that has to read a key waits for up to [Timeout], or for half of the time until the deadline of
// its context if that is less. After 300 ms without a reply, no decision waits, until Redis replies
// again. On a Cluster, this applies to each sixteenth of the hash slots, and to all of them if the
// node of weir:shop:{rules:shop}blocks fails. [RedisSource.Stats] counts such decisions and tells the age of
// the hashes. A text that cannot be parsed leaves the cached override in force, and a value of
// another type is no override. A plan, rule or limit that the policy cannot have is ignored. These
// errors are reported to [OnError].
//
// For other programs, these are the keys. HASH is the hash in the keys of package redisstore: the
// first 16 bytes of SHA-256 of the key, or of HMAC-SHA-256 with the KeySecret, in base64 for URLs
// without padding (q8Oke4rRi4VcaH2cosYJHg for user:1, without a secret).
//
//	weir:shop:rules                         a hash; the field text is the configuration, and the field version
//	                                        any text that changes with it
//	weir:shop:{HASH}override:POLICY         the text of an override, such as {plan: gold}
//	weir:shop:{rules:shop}overrides         a sorted set of the keys that have an override: HASH:POLICY, with
//	                                        the end in Unix milliseconds, or +inf, as the score
//	weir:shop:{rules:shop}blocks            the same for blocks, which have no text
//	weir:shop:{rules:shop}override:HASH:POLICY, weir:shop:{rules:shop}block:HASH:POLICY
//	                                        for operators: {"at": TIME, "note": TEXT, "key": TEXT}, with the time
//	                                        of the write in Unix milliseconds; each field is optional. A record
//	                                        that weir writes ends two hours after its override or block
//	weir:shop:{rules:shop}secret            the hash of "the secret of weir", from the latest write (CheckSecret)
//	weir:shop:{rules:shop}changes           a stream of the changes of both sets, of which at least the latest
//	                                        10 000 are kept
//
// The keys that begin with weir:shop:{shop}processes have the heartbeats of processes: [Fleet] reads them.
//
// A program that blocks a key writes the set and the stream in one transaction, and sets or deletes the record, which
// may be that of an earlier block:
//
//	MULTI
//	DEL weir:shop:{rules:shop}block:HASH:POLICY
//	ZADD weir:shop:{rules:shop}blocks +inf HASH:POLICY
//	XADD weir:shop:{rules:shop}changes MAXLEN ~ 10000 * member HASH:POLICY set blocks end +inf
//	EXEC
//
// To remove the block, it uses ZREM, and 0 as the end. It writes an override in three steps:
//
//	MULTI, DEL weir:shop:{rules:shop}override:HASH:POLICY, ZADD weir:shop:{rules:shop}overrides GT +inf HASH:POLICY,
//	    XADD weir:shop:{rules:shop}changes MAXLEN ~ 10000 * member HASH:POLICY set overrides end +inf, EXEC
//	SET weir:shop:{HASH}override:POLICY TEXT
//	the transaction again
//
// and removes it in three steps, too:
//
//	MULTI, DEL weir:shop:{rules:shop}override:HASH:POLICY, ZREM weir:shop:{rules:shop}overrides HASH:POLICY,
//	    XADD weir:shop:{rules:shop}changes MAXLEN ~ 10000 * member HASH:POLICY set overrides end 0, EXEC
//	DEL weir:shop:{HASH}override:POLICY
//	XADD weir:shop:{rules:shop}changes MAXLEN ~ 10000 * member HASH:POLICY
//
// With GT, a later end of an earlier override stays, and Stats count the key until then. A change of overrides with the
// field exact is that of a ZADD without GT.
//
// A Redis that evicts keys can lose all blocks at once: set maxmemory-policy to noeviction.
//
// These Redis users can read and write (passwords are examples; package redisstore describes the
// permissions of the store, of a Cluster, and client|setinfo of newer servers):
//
//	ACL SETUSER reader on >password ~weir:shop:* +hget +hgetall +mget +xrange +xrevrange +zcount +zmscore +zscan +multi +exec
//	ACL SETUSER operator on >password ~weir:shop:* +hget +hgetall +mget +xrange +xrevrange +zcount +zmscore +zscan +multi +exec +hset +watch +unwatch +set +del +xadd +zadd +zrem +zremrangebyscore
//
// For the commands why, usage, reset, credit, off, on and top of weir, and for notes about keys without events, an operator
// also needs the permissions of the store.
//
// # Names and states
//
// On the store, the rule "second" of the policy "api" is called "api.second", and its candidate
// "api.second.candidate". Options of stores, such as failover.FailClosedFor, take these names.
// Clients see "second" in the header fields. The limits of an override share the state of the key
// with other limits of the same length, like plans (core.Rule). An override is a
// core.Limiter.Variant, which is made when the key is used; keys with equal overrides share it. A
// policy remembers at most 10 000 for the keys that enforce includes, and as many for the others. Each takes about
// a kilobyte for each rule and plan.
//
// A policy does not limit the keys that enforce excludes. To limit a part of the keys differently, add
// a policy with the stricter rules and enforce, and give the limiters of both policies to one
// middleware (gate.And). With disabled, the policy has the same rules without a limit: the store is
// not called.
package rules
