package lease

import "github.com/weir-go/weir/core/driver"

// A block is some leased tokens of one rule of one key; the zero block holds none. The file
// expiry.go explains begin and end, and when tokens expire.
type block struct {
	at      int64 // when the Store leased the tokens, by the Store's clock (us)
	asked   int64 // before that, by the clock of this process (ns)
	expires int64 // when all tokens expire (ns)
	origin  int   // of the receipt

	begin int64 // lower bound of the beginning of the first slot, in units after at
	end   int64 // begin and a unit for each token
}

// tokens returns the number of tokens, with those that have expired.
func (b *block) tokens(u *units) int64 { return (b.end - b.begin) / u.unit }

// spend removes and returns n tokens, which are held.
func (b *block) spend(u *units, now, n int64) block {
	b.begin = max(b.begin, b.refilled(u, now))
	return b.split(u, n)
}

// split removes and returns the first n tokens, whether they have expired or not.
func (b *block) split(u *units, n int64) block {
	t := *b
	t.end = t.begin + n*u.unit
	b.begin = t.end
	return t
}

// join adds the tokens of t.
func (b *block) join(u *units, t block) {
	n, more := b.tokens(u), t.tokens(u)
	switch {
	case more == 0:
		return
	case n == 0:
		*b = t
		return
	}
	later := floorDiv(t.asked-b.asked, 1000)
	b.begin = min(b.begin, t.begin+later*u.rate)
	b.end = b.begin + (n+more)*u.unit
	b.expires = min(b.expires, t.expires)
}

// receipt returns the receipt of a charge of the tokens.
func (b *block) receipt(u *units) driver.Receipt {
	return driver.Receipt{At: b.at, Used: u.span(b.begin), Origin: b.origin}
}
