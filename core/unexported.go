package core

import (
	"github.com/weir-go/weir/core/internal/unexported"
)

func init() {
	unexported.Provide(unexported.Methods[*Limiter, *Reservation, Rule, Ask]{
		HasPlans:            func(l *Limiter) bool { return l.pick != nil || len(l.ruleSet().plans) > 0 },
		SharesStore:         func(l, o *Limiter) bool { return l.store == o.store },
		ReplaceAll:          replaceAll,
		Key:                 (*Reservation).key,
		Forget:              (*Reservation).forget,
		HasPlaces:           (*Reservation).hasPlaces,
		LeaveQueue:          (*Reservation).leaveQueue,
		Attempt:             func(a *Ask) { a.attempt = always },
		AttemptUnlessDenied: func(a *Ask) { a.attempt = unlessDenied },
		ChooseFor:           (*Limiter).chooseFor,
	})
}
