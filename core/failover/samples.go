package failover

import (
	"slices"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

const (
	// maxSamples is the number of samples of calls that succeeded. If a third of the keys is on a node that is down,
	// the keys of all samples are there once in 729 times.
	maxSamples = 6
	// maxProbed is the largest number of charges in a sample.
	maxProbed = 4
)

// samples are the charges of probes, as Peeks. Each sample is about one key, and about another one than the others,
// because a part of the primary may be down, as a node of a Cluster.
type samples struct {
	mu   sync.Mutex
	good [][]driver.Charge // of the latest calls that succeeded, the newest first
	bad  []driver.Charge   // of a call that failed or could not be made, or nil
	turn int               // see next
}

// next returns the sample for the next probe: that of a call that failed, if it is new, and then each in turn, see skip.
func (s *samples) next() []driver.Charge {
	all := s.all()
	s.mu.Lock()
	defer s.mu.Unlock()
	return all[s.turn%len(all)]
}

// skip makes next return another sample, after a probe has failed. Otherwise the same one is probed until the breaker
// closes: another one may be about a part that is down.
func (s *samples) skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
}

// all returns the samples.
func (s *samples) all() [][]driver.Charge {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.good)
	if s.bad != nil {
		all = slices.Insert(all, 0, s.bad)
	}
	return all
}

// succeeded adds a sample of a call that succeeded.
func (s *samples) succeeded(charges []driver.Charge) {
	sample := newSample(charges)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = slices.DeleteFunc(s.good, func(other []driver.Charge) bool { return other[0].Key == sample[0].Key })
	s.good = slices.Insert(s.good[:min(len(s.good), maxSamples-1)], 0, sample)
}

// failed adds a sample of a call that failed.
func (s *samples) failed(charges []driver.Charge) {
	sample := newSample(charges)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad, s.turn = sample, 0
}

// newSample returns Peeks for the charges about the key of the first one.
func newSample(charges []driver.Charge) (sample []driver.Charge) {
	for _, c := range charges {
		if c.Key == charges[0].Key && len(sample) < maxProbed {
			sample = append(sample, driver.Charge{Key: c.Key, Rule: c.Rule, Op: driver.Peek, Cost: 1})
		}
	}
	return sample
}
