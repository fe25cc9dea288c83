// Package penalties limits a login by penalties that grow: five failures of a user within an hour close the login of the
// user for a minute, the next five for 5 minutes, and all further ones of that day for 30 minutes.
//
//	go -C _examples test ./penalties
//
// Limit addresses, too, as the program login does. With a backup in memory, name the three rules in resilient.FailClosedFor:
// the backup counts only a part of the five failures.
package penalties

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

var penalties = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute}

// NewLogin returns the handler of a login. The fifth failure begins the penalty, so Retry-After is that of the penalty.
// Requests during a penalty do not make it longer, and charge no other rule. A success forgives failures and penalties.
func NewLogin(store core.Store, valid func(user, password string) bool) http.Handler {
	login := core.Must(core.New(store, core.Pause("penalty"), core.SlidingLog("failures", core.PerHour(5))))
	strikes := core.Must(core.New(store, core.SlidingLog("strikes", core.PerDay(100))))

	punish := gate.OnDecision(func(ctx context.Context, e gate.Event) {
		failures, _ := e.Decision.StateOf("failures")
		key, known := gate.Key(ctx, login)
		if e.Outcome != gate.Admitted || failures.Remaining > 0 || !known {
			return
		}
		ctx = context.WithoutCancel(ctx)  // a client that hangs up does not escape
		d, err := strikes.Allow(ctx, key) // counts
		if err == nil {
			nth := min(d.State(0).Used(), len(penalties))
			// The failures would deny for an hour, also after a shorter penalty. Reset ends a pause, too, so it comes
			// before Pause. A request between both is one more attempt.
			_, reset := login.Reset(ctx, key)
			err = errors.Join(reset, login.Pause(ctx, key, penalties[nth-1]))
		}
		if err != nil {
			slog.Warn("no penalty", "error", err)
		}
	})
	limit := nethttplimit.New(login, keyfunc.Fold(keyfunc.FormValue("user")), punish, gate.FailClosed(), gate.Headers())

	return limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !valid(r.PostFormValue("user"), r.PostFormValue("password")) {
			http.Error(w, "wrong user or password", http.StatusUnauthorized)
			return
		}
		ctx := context.WithoutCancel(r.Context())
		key, _ := gate.Key(ctx, login)
		_, err := strikes.Reset(ctx, key)
		if err := errors.Join(err, gate.Reset(ctx, login)); err != nil { // ends a penalty, too
			slog.Warn("a login may count as a failure", "error", err)
		}
		fmt.Fprintln(w, "welcome")
	}))
}
