// Package client limits outgoing requests: all processes that share a Store keep the limits of a server together, and
// when it responds that a request was over a limit, all of them wait until the time that it names.
//
//	partner := core.Must(core.New(store,
//		core.Pause("partner_pause"),
//		core.LeakyBucket("partner", core.PerSecond(9)), // evenly; the partner admits 10 a second
//		core.InFlight("partner_calls", 4)))
//	c := &http.Client{Transport: client.New(partner, client.ByHost)}
//
// A [Transport] waits before it sends a request, in one decision about all rules. It sends each request once, unless
// Retries allows more, also after failures. [RetryAfter] reads the time from the fields that servers send.
//
// Requests take different times to the server, so those of a limit of 10 a second that are sent evenly can arrive as 11
// in some second. With 9 a second, this takes a request that is 111 ms late, and with 8 a second, 250 ms.
package client
