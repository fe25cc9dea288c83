package storetest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

func histories(s *subject) { compare(s, s.histories()) }

// histories returns the number of histories of a case.
func (s *subject) histories() int {
	n := 20
	if testing.Short() {
		n = 5
	}
	if text := os.Getenv("WEIR_HISTORIES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			s.fail("WEIR_HISTORIES: %v", err)
		}
	}
	return n
}

// compare compares the subject with the oracle over n histories of 250 calls each. It returns the
// number of times that each situation occurred.
func compare(s *subject, n int) (occurred map[string]int) {
	occurred = make(map[string]int)
	for seed := range uint64(n) {
		s.Harness = s.newHarness(s.T)
		h := &history{subject: s, walk: newWalk(seed, s.Harness, occurred)}
		for range 250 {
			h.step()
		}
	}
	return occurred
}

// A history passes the calls of a walk to the subject and to the oracle.
type history struct {
	*subject
	*walk
	trace []call
}

// step makes the next call, and fails if the verdicts differ.
func (h *history) step() {
	h.Helper()
	call := h.walk.next()
	h.trace = append(h.trace, call)
	h.Advance(time.Duration(h.walk.now-h.subject.Now().UnixMicro()) * time.Microsecond)
	charges, rules := make([]driver.Charge, len(call.charges)), make([]*driver.Compiled, len(call.charges))
	for i := range charges {
		charges[i] = h.charge(&call.charges[i], call.now, call.receipts[i])
		rules[i] = charges[i].Rule
	}
	if err := Do(context.Background(), h.Store, charges); err != nil {
		h.differ("got error %v", err)
	}
	for i, receipt := range call.receipts {
		if receipt != nil {
			*receipt = charges[i].Receipt
		}
	}
	if !h.answer(call) {
		h.differ("two places have one number")
	}
	for i := range charges {
		got, want := &charges[i], &call.charges[i]
		v := h.verdict(want)
		v.Rule = rules[i] // of a quota, the rule during its periods
		if rest := want.Verdict.Rest; rest > 0 && got.Verdict.Rule != nil {
			v.Rule = got.Verdict.Rule
			if k := v.Rule.Constants; int64(v.Rule.Events-rules[i].Events) != rest || k.Capacity-k.Extra-k.Rollover != want.Rule.Limit(rest) {
				h.differ("charge %d: got the rule %v with %+v, want a rest of %d", i, v.Rule, k, rest)
			}
		}
		if got.Verdict != v || int64(got.Cost) != want.Cost {
			h.differ("charge %d:\n\tgot  %+v, cost %d\n\twant %+v, cost %d", i, got.Verdict, got.Cost, v, want.Cost)
		}
		if want.Receipt != nil && !isReceipt(got.Receipt, *want.Receipt) {
			h.differ("charge %d:\n\tgot  receipt %+v\n\twant receipt %v", i, got.Receipt, *want.Receipt)
		}
	}
}

// differ logs the last 30 calls and fails.
func (h *history) differ(format string, args ...any) {
	h.Helper()
	for _, c := range h.trace[max(0, len(h.trace)-30):] {
		h.Log(c)
	}
	h.subject.fail("history %d, call %d: %s", h.seed, len(h.trace), fmt.Sprintf(format, args...))
}
