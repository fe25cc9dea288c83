package gate

import "context"

// Lost returns a channel that is closed when the request has lost a place of a [core.InFlight] rule,
// although its handler still runs: see [core.Reservation.Lost]. The gate does not cancel the request. ctx
// is as for [FromContext]. If gates around each other have such rules, the channel is that of the
// innermost one. It is nil if no gate has taken a place for the request, and blocks then for ever.
func Lost(ctx context.Context) <-chan struct{} {
	for rec := recordFrom(ctx); rec != nil; rec = rec.outer {
		if lost := rec.reservation.Lost(); lost != nil {
			return lost
		}
	}
	return nil
}

// places returns a function that frees the places of in-flight rules that the request has taken, or nil if
// there are none. Until then, they are renewed, even if the client hangs up, because the handler may still
// run. The function does not wait for another process.
func places(rec *record) (end func()) {
	has, local := inner.HasPlaces(&rec.reservation)
	switch {
	case !has:
		return nil
	case local:
		return func() { release(rec) }
	}
	return func() { go release(rec) }
}

// endPlaces frees the places of a request whose handler does not run.
func endPlaces(rec *record) {
	if end := places(rec); end != nil {
		end()
	}
}

// release frees the places of rec. An error is logged; the places then lapse at the end of their hold.
func release(rec *record) {
	ctx := rec.detached()
	if err := rec.reservation.Release(ctx); err != nil {
		rec.gate.log.warn(ctx, "weir: the place of a request could not be freed, and lapses", err, sent)
	}
}
