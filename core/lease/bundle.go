package lease

import "github.com/weir-go/weir/core/driver"

// A bundle holds leased tokens of one rule of one key; the zero bundle holds none. The file
// expiry.go explains begin and end, and when tokens expire.
type bundle struct {
	at      int64 // when the Store leased the tokens, by the Store's clock (us)
	asked   int64 // when the call for them began, by the clock of this process (ns)
	expires int64 // when all tokens expire at the latest (ns)
	origin  int   // the side of a failover Store (primary or backup) that leased the tokens
	begin   int64 // the first token expires begin units after the time at, or later
	end     int64 // begin + number of tokens x unit
}

// tokens returns the number of tokens, including expired ones.
func (b *bundle) tokens(u *units) int64 { return (b.end - b.begin) / u.unit }

// split removes and returns the first n tokens, whether they have expired or not.
func (b *bundle) split(u *units, n int64) bundle {
	t := *b
	t.end = t.begin + n*u.unit
	b.begin = t.end
	return t
}

// join adds the tokens of t.
func (b *bundle) join(u *units, t bundle) {
	switch {
	case t.end-t.begin < u.unit:
	case b.end-b.begin < u.unit:
		*b = t
	default:
		n, later := b.tokens(u)+t.tokens(u), floorDiv(t.asked-b.asked, 1000)
		b.begin = min(b.begin, t.begin+later*u.rate)
		b.end = b.begin + n*u.unit
		b.expires = min(b.expires, t.expires)
	}
}

// receipt returns the receipt for an Undo of the tokens.
func (b *bundle) receipt(u *units) driver.Receipt {
	return driver.Receipt{At: b.at, Used: u.span(b.begin), Origin: b.origin}
}
