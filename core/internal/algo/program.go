package algo

// A Kind names an algorithm.
type Kind uint8

// The algorithms. The zero Kind is none.
const (
	_ Kind = iota
	KindTokenBucket
	KindSlidingLog
)

// A Program is a rule compiled for execution: one algorithm and its constants.
type Program struct {
	Kind   Kind
	Bucket Bucket // KindTokenBucket
	Log    Log    // KindSlidingLog
}

// Capacity is the largest cost that the rule can ever admit at once.
func (p *Program) Capacity() int64 {
	if p.Kind == KindSlidingLog {
		return p.Log.Events
	}
	return p.Bucket.Burst
}
