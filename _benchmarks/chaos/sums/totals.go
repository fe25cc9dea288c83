package main

// A totals counts operations, and adds up the sums of all checks.
type totals struct {
	operations, denied, failed int
	unknown                    int // the failed operations that may have changed the state
	acknowledged               int
	low, high, counted         int // the lowest and the highest possible sum, and that of the states
	wrong                      int // violations
}

func (t *totals) plus(o totals) {
	t.operations += o.operations
	t.denied += o.denied
	t.failed += o.failed
	t.unknown += o.unknown
	t.acknowledged += o.acknowledged
	t.low += o.low
	t.high += o.high
	t.counted += o.counted
	t.wrong += o.wrong
}
