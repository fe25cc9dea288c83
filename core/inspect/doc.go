// Package inspect is a page for operators. It shows the decisions of a process, the rules in force, the
// state of the store, and the limits of a key with the commands that change them. The page itself
// changes nothing.
//
//	store := resilient.New(rdb, "shop", resilient.Observe(observe.TopKeys(10)))
//	api := core.Must(core.New(store, core.SlidingWindow("api", core.PerMinute(100))))
//	page := inspect.New(isOperator, store.Observer(), inspect.Limiters(api))
//	mux.Handle("/debug/limits", page)
//
// The argument isOperator must authenticate the person: with a password, a token, a session of the
// application or a client certificate. An address that only operators reach is not enough. The browser of
// an operator reaches it, and so does each page in that browser: by DNS rebinding, a page can give its own
// name the address of the application, and read the responses as its own. To the Handler, its requests look
// like those of the page, but the browser adds no password or cookie for that name. A request that a page
// of another origin sends openly is rejected (see [Handler.ServeHTTP]).
//
// All figures are those of the process that serves the page, except for those below Application, which all processes
// tell Redis once a minute if their store is that of package resilient. The metrics of package observe are those of one
// process, too; a system of metrics adds them up.
//
// # Content
//
//   - Decisions of the last hour, in charts by result and by the rule that determined a denial (the
//     one with the longest RetryAfter), and in a table by rule and plan.
//   - A key, which may be a hash of a log, or of the list or the table of a command, if this process counts the key
//     (observe.TopKeys): used and remaining events of each rule, its override or block, the rest of a pause (core.Pause) or ban (core.Spec.BlockFor), and the
//     commands of weir rules that change them. A question about a key is a Peek: it charges nothing. The key is in the
//     body of a POST, and so not in access logs. The commands are lines for bash, zsh, fish and sh. There is
//     none for a key or another argument with a character, such as ', & or $, that a shell can execute: the
//     lines must be harmless in PowerShell and cmd.exe, too. The page then shows the reason.
//   - Rules in force, with the configuration that they come from, its version ([rules.Set.Version]) and its
//     policy of all routes.
//   - The application: its processes, decisions by rule in the last hour beside those of this process, limits that are off,
//     where processes differ ([rules.Differences]), and the hashes of the keys with the most denials, in this hour and the
//     one before. The text of a key is beside its hash if the page has been asked for the key, or shows it as text
//     (observe.ClearKeys).
//   - Keys with the most denials and the most decisions of this process, with the option observe.TopKeys. They
//     appear as HMACs ([observe.Store.Tag]); the tag of a key that is asked for is shown beside it.
//   - The store: the state of failover, times of calls, and all measures of its parts.
//
// The page is refreshed every two seconds while it is visible. It needs no file or script from
// elsewhere. Its Content-Security-Policy permits its own script and style only.
//
// # JSON
//
// With the parameter format=json, the response is a JSON document with the same content, and all
// rules and plans:
//
//	curl -u :$TOKEN 'http://localhost:8080/debug/limits?format=json' -d key=user:7 -d plan=gold
//
// The field requests contains the decisions since the start of the process by result (see package
// observe), and series those of each rule and plan: as decisions the results of the rule, as requests the
// decisions that it determined, each since the start and in the last hour. The field minutes contains the
// requests of each minute, of which the last one is not complete. configuration has the name, the version
// and, as all_routes, the policy of all routes, whose limits of a key have of_all_routes. application has the content below
// Application, with hour as the decisions of all rules by result. rules, denied, active, measures, calls
// and key are as on the page; no_command is the reason why a command is missing, and banned_until the end of a ban by a rule. Durations are texts, such as
// "1.5s". The retry_after and reset_after of an in-flight rule name the end of events, which has no known
// time, and those of a quota the end of its period in its time zone, such as "at 2027-01-01T00:00:00+01:00".
//
// # Cost
//
// A Handler has one goroutine, which reads the figures once a minute. For the last hour it keeps about
// 200 bytes for each minute, rule and plan with decisions in that minute. A page for ten rules takes
// some milliseconds.
package inspect
