package algo

// A Kind names an algorithm.
type Kind uint8

// The algorithms. The zero Kind is none.
const (
	_ Kind = iota
	KindTokenBucket
	KindSlidingLog
	KindLeakyBucket
	KindFixedWindow
	KindSlidingWindow
)

// A Program is a rule compiled for execution: one algorithm and its constants.
type Program struct {
	Kind   Kind
	Bucket Bucket // KindTokenBucket, KindLeakyBucket
	Window Window // KindFixedWindow
	Log    Log    // KindSlidingLog, KindSlidingWindow
}

// Capacity is the largest cost that the rule can ever admit at once.
func (p *Program) Capacity() int64 {
	switch p.Kind {
	case KindSlidingLog, KindSlidingWindow:
		return p.Log.Events
	case KindFixedWindow:
		return p.Window.Events
	}
	return p.Bucket.Burst
}
