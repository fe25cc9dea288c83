package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A fault was mended once. It comes back if old is replaced by with, and test, a package and a pattern of
// tests, then fails.
type fault struct {
	name, file, old, with, test string
}

// mutant returns the change that puts f back.
func (f fault) mutant(root string) (m mutant, err error) {
	m.file, m.name, m.with = filepath.Join(root, f.file), f.file, f.with
	text, err := os.ReadFile(m.file)
	if err != nil {
		return m, err
	}
	m.text = string(text)
	if n := strings.Count(m.text, f.old); n != 1 {
		return m, fmt.Errorf("the fault %q: its text is in %s %d times: write down how the fault comes back now", f.name, f.file, n)
	}
	m.from = strings.Index(m.text, f.old)
	m.to = m.from + len(f.old)
	m.line = 1 + strings.Count(m.text[:m.from], "\n")
	return m, nil
}

var faults = []fault{
	{
		"the files of uploads stay on disk", "core/gate/adapter/gate.go",
		"original.MultipartForm = r.MultipartForm", "_ = r", "nethttplimit ^TestContract$/^uploads$",
	},
	{
		"metrics around a gate lose the route", "core/gate/adapter/gate.go",
		"original.Pattern = r.Pattern", "_ = r", "ginlimit ^TestContract$/^outer_readers$",
	},
	{
		"X-RateLimit-* describe places beside a rate", "core/gate/headers.go",
		"return o.policy.places", "_ = o", "core/gate ^TestInFlight_Fields$",
	},
	{
		"an inner gate adds RateLimit to X-RateLimit-*", "core/gate/headers.go",
		"return around.versions()", "return around.versions() | rec.gate.versions", "core/gate ^TestNested$",
	},
	{
		"Retry-After is -1 if places and an unknown rule deny", "core/gate/denial.go",
		"case s.Allowed || s.Rule.IsShadow():", "case s.Allowed && !s.Unknown || s.Rule.IsShadow():", "core/gate ^TestInFlight_Fields$",
	},
	{
		"Check cannot be settled", "core/gate/record.go",
		"return rec.reservation.Decision().Allowed", "return !rec.gate.check && rec.reservation.Decision().Allowed", "core/gate ^TestCheck",
	},
	{
		"Check removes the Content-Encoding of a middleware", "core/gate/check.go",
		`"Content-Length", "Etag"`, `"Content-Length", "Content-Encoding", "Etag"`, "echolimit ^TestContract$/^Check$/^compressed$",
	},
	{
		"CONNECT avoids a strict route", "core/internal/routes/table.go",
		"others = append(others, clean)", "_ = clean", "core/internal/frameworks ^TestSet_ForRequest_CatchAll$",
	},
	{
		"FirstOf goes on although a handler reads the body", "keyfunc/combine.go",
		"unread != nil && !used()", "unread != nil && used == nil", "core/internal/frameworks ^TestFirstOf_",
	},
	{
		"a body that was read before has no key", "internal/requestbody/requestbody.go",
		"len(data) == 0 && r.ContentLength > 0", "len(data) < 0", "keyfunc ^TestFirstOf_Bodies$",
	},
	{
		"each spelling of a cookie has a limit", "keyfunc/header.go",
		"decoded(cookies[0].Value, url.QueryUnescape)", "cookies[0].Value", "core/internal/frameworks ^TestValues_Spellings$",
	},
	{
		"a key server that fails is silent", "keyfunc/internal/token/verifier.go",
		"!errors.Is(err, v.silent)", "false", "keyfunc ^TestJWTSubject_Log$",
	},
	{
		"a word before the address is the key of a log", "cmd/weir/internal/trace/client.go",
		"!second && p.kind(words[0]) == anAddress", "!second", "cmd/weir/internal/trace ^TestLog_Client$",
	},
	{
		"a page of another origin reads the limits", "core/inspect/handler.go",
		"return protection.Check(&post) != nil", "return false", "core/inspect ^TestHandler_Origin$",
	},
	{
		"bidirectional characters reach the terminal", "cmd/weir/pseudonyms.go",
		"unicode.Cc, unicode.Cf,", "unicode.Cc,", "cmd/weir ^TestR",
	},
	{
		"the place of a request that is not served stays taken", "core/gate/settle.go",
		"if end := places(rec); end != nil {\n\t\tend()", "if end := places(rec); end != nil {\n\t\t_ = end", "core/gate ^TestInFlight",
	},
	{
		"a second ask about a pause says that its limit is Unlimited", "core/event.go",
		"case !v.Allowed && rule.Kind().Closes:", "case !v.Allowed && rule.Kind().Closes && v.Rule == rule.d.compiled:", "core ^TestPause_Views$",
	},
	{
		"a denial by a pause in memory is that of one cost", "core/denycache/denial.go",
		"d.cost = 1 // denies all costs alike", "_ = d", "core/denycache ^TestStore_Take_Pause$",
	},
	{
		"a queue keeps places beyond the limit of its caller", "core/driver/waiter.go",
		"max(taken, min(taken+q.cost, q.limit))", "taken + q.cost", "core/memstore ^TestConformance$/^SmallerQueues$",
	},
	{
		"a queue that was woken is woken again", "core/driver/waiter.go",
		"if !q.woken && need", "if need", "core/driver ^TestWaiter_Woken$",
	},
	{
		"a place that is freed wakes no caller", "core/driver/waiter.go",
		"*woken = append(*woken, q.queue)", "_ = q", "core ^TestLimiter_Acquire_Changes$/^release$",
	},
	{
		"the next caller of a queue comes to the end of the line", "core/driver/waiter.go",
		"waits := !fits || spent && w.Next > 0", "waits := !fits", "core/memstore ^TestConformance$/^NextOfQueue$",
	},
	{
		"a caller who asks again has come later", "core/driver/waiter.go",
		"i >= 0 && w.Known", "i >= len(all)", "core/memstore ^TestConformance$/^KnownWaiters$",
	},
	{
		"the callers of a process that was killed stay in line", "core/driver/waiter.go",
		"return now < q.expires && ", "return ", "core/memstore ^TestConformance$/^ExpiredQueues$",
	},
	{
		"a caller who gives up stays in line", "core/wait.go",
		"_ = a.Limiter.store.Adjust(context.WithoutCancel(ctx), charges)", "_ = charges", "core ^TestLimiter_Reserve_BehindWaiters$",
	},
	{
		"the next caller waits although the Store knows another one", "core/internal/waiters/list.go",
		"next == all.next && ", "", "core ^TestLimiter_AcquireN_NextLeaves$",
	},
	{
		"a caller who gives up in an outage stays in line", "core/failover/adjust.go",
		"c.Op == driver.Undo && c.Waiter != nil", "false", "core/failover ^TestStore_Over$",
	},
	{
		"Redis wakes no caller", "core/redisstore/internal/wire/lua/queues.lua",
		"queues_publish(key, q[1], '')", "", "core/redisstore ^TestAcquire_messages$",
	},
	{
		"the servers of a Cluster have one subscription", "core/redisstore/internal/pipe/servers.go",
		"server, _ = rdb.MasterForKey(ctx, key)", "_ = key", "core/redisstore ^TestAcquire_servers$/^Cluster$",
	},
	{
		"a message that comes again wakes a caller", "core/redisstore/listeners.go",
		"if home != nil && home != from {", "if home != nil && from == nil {", "core/redisstore ^TestListeners_hear$",
	},
	{
		"Redis wakes a caller more than once", "core/redisstore/internal/wire/lua/queues.lua",
		"q[5] .. ':woken'", "q[5]", "core/redisstore ^TestAcquire_messages$",
	},
	{
		"a sorted set has the queues of all processes", "core/redisstore/internal/wire/lua/queues.lua",
		"if #queues >= MAX_QUEUES then", "if false then", "core/redisstore ^TestConformance$/^ManyQueues$",
	},
	{
		"an event has the number of another one", "core/redisstore/internal/wire/algorithm.go",
		"Number: n[3] >> 2", "Number: 0", "core/redisstore ^TestInFlight_numbers$",
	},
	{
		"an undo in an outage has the present number of processes", "core/failover/backup.go",
		"c.Receipt.Origin, numbers[i] = originOf(c.Receipt)", "c.Receipt.Origin, _ = originOf(c.Receipt)", "core/failover ^TestProcesses_Undo$",
	},
	{
		"a request that http.Transport repeats is not charged", "nethttplimit/client/transport.go",
		"again := written.Load() - 1; again > 0", "again := written.Load() - 1; false && again > 0", "nethttplimit/client ^TestTransport_ChargesRepetitionsOfBase$",
	},
	{
		"a cost above a part of a limit never fits", "core/failover/backup.go",
		"v.RetryAfter, v.Window = partRetry, partRetry", "_ = v", "core/failover ^TestInstances_aboveThePart$",
	},
	{
		"clients wait for the whole period with a cost above a part of a limit", "core/failover/backup.go",
		"v.RetryAfter, v.Window = partRetry, partRetry", "v.RetryAfter = partRetry", "core/failover ^TestInstances_aboveThePart$",
	},
	{
		"an outage is not logged", "core/failover/measures.go",
		"s.log != nil || s.onChange == nil", "s.log != nil", "core/failover ^TestNew_LogsOutages$",
	},
	{
		"a write without a transaction", "core/rules/internal/overrides/write.go",
		"tx.MGet(ctx, s.secretKey()) }); err != nil {", "tx.MGet(ctx, s.secretKey()) }); false {", "core/rules ^TestRedisSource_Permissions$",
	},
	{
		"places that have lapsed are removed in place of queues", "core/redisstore/internal/wire/lua/in_flight.lua",
		"local rank = queues and queues.members or 0\n    redis.call('ZREMRANGEBYRANK'", "local rank = 0\n    redis.call('ZREMRANGEBYRANK'", "core/redisstore ^TestConformance$/^Histories$",
	},
	{
		"a lower rate gives a new burst", "core/event.go",
		"if l.charge < 0 || ", "if true || ", "core/memstore ^TestConformance$/^ReplacedLength$",
	},
	{
		"a replaced bucket is in use once for each process", "core/replace.go",
		"d.Headroom = min(99, max(0, 100*(1-n/float64(d.Burst))))", "d.Burst *= 2; d.Events *= 2", "core/memstore ^TestConformance$/^ReplacedLength$",
	},
	{
		"rows of a statement that Postgres takes back are decisions", "core/pgstore/rows.go",
		"if err := errors.Join(result.Err(), result.Close()); err != nil {\n\t\treturn nil, err", "if err := errors.Join(result.Err(), result.Close()); err != nil && len(done) == 0 {\n\t\treturn nil, err",
		"core/pgstore/internal/pgtests ^TestStatements_takenBack$",
	},
	{
		"a sweep waits for locks in another order", "core/pgstore/statements.go",
		"FOR UPDATE SKIP LOCKED", "ORDER BY id DESC FOR UPDATE", "core/pgstore/internal/pgtests ^TestSweep$",
	},
	{
		"a sweep deletes rows whose states count", "core/casstore/row.go",
		"Expires: w.rule.ExpiresAt(w.state)", "Expires: 0", "core/pgstore/internal/pgtests ^TestSweep$",
	},
	{
		"a statement that Postgres takes back for a repetition fails decisions", "core/pgstore/errors.go",
		`state == "40001" || state == "40P01"`, `state == "40P01"`, "core/pgstore/internal/pgtests ^TestStatements_takenBack$",
	},
	{
		"a decision that may be charged is repeated", "core/casstore/round.go",
		"case err == nil || errors.Is(err, ErrConflict):", "case err == nil || r.attempts < 3:", "core/pgstore/internal/pgtests ^TestReplies_lost$",
	},
	{
		"package database/sql repeats a swap", "core/pgstore/rows.go",
		"done, err := r.change(ctx, conn, groups)\n\treturn done", "done, err := r.change(ctx, r.db, groups)\n\treturn done", "core/pgstore/internal/pgtests ^TestReplies_lost$",
	},
	{
		"a row that has changed is changed", "core/pgstore/statements.go",
		"\n\tWHERE s.version = excluded.version - 1 RETURNING id)", "\n\tRETURNING id)", "core/pgstore/internal/pgtests ^TestProcesses$",
	},
	{
		"a group is changed in part", "core/pgstore/statements.go",
		"WHERE s.id = w.id AND w.n NOT IN (SELECT n FROM bad)", "WHERE s.id = w.id AND s.version = w.old", "core/pgstore/internal/pgtests ^TestProcesses$",
	},
	{
		"a round under locks that fails before it decides is one that may be charged", "core/casstore/round.go",
		"\terr := locks.Update(ctx", "\tfor _, r := range requests {\n\t\tr.unknown = true\n\t}\n\terr := locks.Update(ctx", "core/casstore ^TestStore_Locks_fail$",
	},
}
