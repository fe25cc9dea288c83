package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

const (
	promptPrice = 3    // millionths of a dollar for a token: 3 dollars for a million tokens
	answerPrice = 15   // the same for the answer
	longest     = 8000 // tokens of an answer of the model
	block       = 50   // tokens of a stream that are taken at once
)

// A usage is a number of tokens.
type usage struct{ prompt, answer int }

func (u usage) tokens() int { return u.prompt + u.answer }
func (u usage) money() int  { return u.prompt*promptPrice + u.answer*answerPrice } // in millionths of a dollar

// A budget has the limits of a user, team or organization.
type budget struct {
	key                     keyfunc.Func
	requests, tokens, money *core.Limiter
}

type budgets []budget

func newBudget(store core.Store, name string, key keyfunc.Func, requests, tokens, money int) budget {
	return budget{
		key:      key,
		requests: core.Must(core.New(store, core.TokenBucket(name+"-requests", core.PerMinute(requests)))),
		tokens:   core.Must(core.New(store, core.TokenBucket(name+"-tokens", core.PerMinute(tokens)).Unit("tokens"))),
		money:    core.Must(core.New(store, core.Quota(name+"-money", core.Monthly(money)).Rollover(money/10).Unit("millionths of a dollar"))),
	}
}

// final returns the usage at which a request is settled: the one that the model has named, or else the estimate.
// sent is the number of tokens of the answer that the model has sent.
func final(estimate usage, named *usage, sent int, err error) usage {
	switch {
	case named != nil:
		return *named
	case err == nil:
		return estimate // a refund would let clients pass the budget by streams, whose usage many models do not name
	case sent == 0 && !errors.Is(err, context.Canceled):
		return usage{} // the model has failed, so only the request counts
	}
	return usage{estimate.prompt, sent} // the client has gone, or a budget is used up
}

// settle sets the usage of a request or block. The unused part of the estimate is refunded. A usage above the
// estimate is charged, even if it does not fit.
func (all budgets) settle(settleFor func(l *core.Limiter, cost int) error, u usage) {
	for _, b := range all {
		if err := errors.Join(settleFor(b.tokens, u.tokens()), settleFor(b.money, u.money())); err != nil {
			log.Print(err)
		}
	}
}

// take reserves a block of an answer in all budgets, or a part of it if no more fits.
func (all budgets) take(ctx context.Context) (*core.Reservation, error) {
	for n := block; ; n /= 2 {
		part := usage{answer: n}
		var asks []core.Ask
		for _, b := range all {
			key, _ := gate.Key(ctx, b.tokens)
			asks = append(asks,
				core.Ask{Limiter: b.tokens, Key: key, Cost: part.tokens()}, // the first one is the Cost of the reservation
				core.Ask{Limiter: b.money, Key: key, Cost: part.money()})
		}
		taken, err := core.ReserveTogether(ctx, asks...)
		switch {
		case err != nil:
			log.Print(err)
			return nil, &stopError{}
		case taken.Decision().Allowed:
			return taken, nil
		case n == 1:
			return nil, &stopError{taken.Decision()}
		}
	}
}

// A stopError ends a stream. The decision of an outage is zero.
type stopError struct{ core.Decision }

// Error returns the text for the client.
func (e *stopError) Error() string {
	var names []string
	for _, s := range e.States() {
		if !s.Allowed {
			names = append(names, s.Rule.Name())
		}
	}
	if names == nil {
		return "the budget cannot be checked, try again"
	}
	text := strings.Join(names, ", ") + " used up"
	if seconds, ok := gate.RetryAfter(e.Decision); ok { // none for a user who is blocked
		text += fmt.Sprintf(", retry after %d s", seconds)
	}
	return text
}
