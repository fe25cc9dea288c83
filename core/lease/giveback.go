package lease

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/core"
)

// lapse ends the blocks of c whose time has come, and gives back what is left.
func (s *Store) lapse(sh *shard, c *cell) {
	sh.mu.Lock()
	if c.ticking = false; sh.closed {
		sh.mu.Unlock()
		return
	}
	now := s.clock()
	debts := c.end(now, false)
	s.tick(sh, c, now)
	s.background.Add(1)
	sh.mu.Unlock()
	defer s.background.Done()
	s.pay(context.Background(), debts)
}

// end ends the blocks whose time has come, or all.
func (c *cell) end(now int64, all bool) (debts []debt) {
	for i := range c.blocks {
		b := &c.blocks[i]
		if b.serial == 0 || !all && now < b.ends {
			continue
		}
		debts = append(debts, c.owes(b, now)...)
		*b = block{}
	}
	return debts
}

// payLater gives debts back in the background. The shard is locked.
func (s *Store) payLater(sh *shard, debts []debt) {
	if len(debts) == 0 || sh.closed {
		return
	}
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		s.pay(context.Background(), debts)
	}()
}

// pay gives debts back. What fails is lost: nobody knows whether the Store has it.
func (s *Store) pay(ctx context.Context, debts []debt) (errs []error) {
	for i := range debts {
		d := &debts[i]
		s.paying <- struct{}{}
		err := s.callAlone(ctx, []core.Charge{{Key: d.key, Rule: d.rule, Op: core.Undo, Cost: int(d.n), Mark: &d.mark}})
		<-s.paying
		if err != nil {
			s.lost.Add(uint64(d.n))
			errs = append(errs, err)
			continue
		}
		s.returned.Add(uint64(d.n))
	}
	return errs
}

// Close gives back what is held, and waits for all calls that were made for more than
// one caller; each ends within [Timeout] if the Store heeds its context. From then
// on everything goes straight to the Store behind, which stays open. The error says
// what could not be given back. Closing again does nothing.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.timeout)
	defer cancel()
	now := s.clock()
	all := make(chan []debt, len(s.shards))
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.closed = true
		var debts []debt
		for _, c := range sh.cells {
			debts = append(debts, c.end(now, true)...)
			if c.timer != nil {
				c.timer.Stop()
			}
		}
		sh.mu.Unlock()
		all <- debts
	}
	close(all)
	failed := make(chan []error, payers)
	for range payers {
		go func() {
			var errs []error
			for debts := range all {
				errs = append(errs, s.pay(ctx, debts)...)
			}
			failed <- errs
		}()
	}
	var errs []error
	for range payers {
		errs = append(errs, <-failed...)
	}
	s.background.Wait()
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("lease: %d blocks could not be given back: %w", len(errs), errs[0])
}
