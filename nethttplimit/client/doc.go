// Package client limits outgoing requests: all processes that share a Store keep the limits of a server together, and
// when it responds with 429 or 503 and a time, all of them wait until then.
//
//	partner := core.Must(core.New(store,
//		core.Pause("partner_pause"),
//		core.TokenBucket("partner", core.PerSecond(9).WithBurst(1)), // the partner admits 10 a second
//		core.InFlight("partner_calls", 4)))
//	c := &http.Client{Transport: client.New(partner, client.ByHost)}
//
// A [Transport] waits before it sends a request, in one decision about all rules. It sends each request once, unless
// Retries allows more. [RetryAfter] reads the time from the fields that servers send.
//
// Requests take different times to the server, so those of a limit of 10 a second that are sent evenly can arrive as 11
// in some second: leave 5 to 10 %. A limit for each second of the clock needs a burst of 1.
package client
