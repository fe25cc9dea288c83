package main

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// A possible is the set of all sums that are possible after some operations, of which some have failed. It knows
// more than the bounds of these sums: after a failed charge of 5, the sum is 0 or 5.
type possible struct {
	low  int      // the lowest sum
	sums *big.Int // bit i is set if low+i is possible
}

// newPossible returns the set of the sum of no operations.
func newPossible() possible { return possible{0, big.NewInt(1)} }

// add adds an operation that has changed the sum by one of the changes.
func (p *possible) add(changes ...int) {
	low := slices.Min(changes)
	p.low += low
	if len(changes) == 1 {
		return
	}
	sums := new(big.Int)
	for _, c := range changes {
		sums.Or(sums, new(big.Int).Lsh(p.sums, uint(c-low)))
	}
	p.sums = sums
}

// high returns the highest sum.
func (p *possible) high() int { return p.low + p.sums.BitLen() - 1 }

func (p *possible) has(sum int) bool { return sum >= p.low && p.sums.Bit(sum-p.low) == 1 }

// exact reports whether one sum is possible only.
func (p *possible) exact() bool { return p.low == p.high() }

// String lists the sums, such as "3, 5 to 7".
func (p *possible) String() string {
	var spans []string
	for from := p.low; from <= p.high(); {
		to := from
		for p.has(to + 1) {
			to++
		}
		span := fmt.Sprint(from)
		if to > from {
			span = fmt.Sprintf("%d to %d", from, to)
		}
		spans = append(spans, span)
		for from = to + 1; from < p.high() && !p.has(from); {
			from++
		}
	}
	return strings.Join(spans, ", ")
}
