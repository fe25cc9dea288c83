package gate

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// A login has limits of the address and of the user, in which failures count.
type login struct {
	*gate
	address, user *core.Limiter
}

func newLogin(store core.Store, opts ...Option) *login {
	address := core.Must(core.New(store, core.SlidingLog("address", core.PerHour(100))))
	user := core.Must(core.New(store, core.SlidingLog("user", core.PerHour(100)).Plan("pro", core.PerHour(200)), core.FixedWindow("daily", core.PerDay(100))))
	name := func(_ context.Context, r *http.Request) (string, error) { return r.URL.Query().Get("user"), nil }
	return &login{newGate("test", address, anyKey, append(opts, And(user, name))), address, user}
}

// admits returns the request that the handler gets.
func (l *login) admits(t *testing.T, r *http.Request) *http.Request {
	t.Helper()
	r, _, rejection := l.Admit(r.Context(), header(), r, "")
	if rejection != nil {
		t.Fatal(rejection)
	}
	return r
}

func (l *login) used(t *testing.T, address, user int) {
	t.Helper()
	if a, u := testkit.Used(t, l.address, "k")[0], testkit.Used(t, l.user, "ann"); a != address || u[0] != user || u[1] != user {
		t.Errorf("%d are in use of the address and %d of the user, want %d and %d", a, u, address, user)
	}
}

func TestRefund(t *testing.T) {
	l := newLogin(memstore.New())
	failed, succeeded := l.admits(t, get("/?user=ann")), l.admits(t, get("/?user=ann"))
	for range 2 {
		if err := Refund(succeeded.Context()); err != nil {
			t.Error(err)
		}
	}
	l.used(t, 1, 1)
	if err := Settle(failed.Context(), 3); err != nil {
		t.Error(err)
	}
	l.used(t, 3, 3)
	if err := Refund(t.Context()); err != ErrNotAdmitted {
		t.Errorf("without a gate the error is %v, want %v", err, ErrNotAdmitted)
	}
}

// Reset forgets the events of the user, and leaves those of the address. No gate refunds the charge of
// the user afterwards, however the other one is settled.
func TestReset(t *testing.T) {
	l := newLogin(memstore.New(), RefundIf(func(int) bool { return true }))
	outer := newGate("test", l.user, func(context.Context, *http.Request) (string, error) { return "ann", nil }, []Option{RefundIf(func(int) bool { return true })})
	for range 4 {
		l.admits(t, get("/?user=ann"))
	}
	r := get("/?user=ann")
	r, outerServed, _ := outer.Admit(r.Context(), header(), r, "")
	r, served, rejection := l.Admit(r.Context(), header(), r, "")
	if rejection != nil {
		t.Fatal(rejection)
	}
	if err := Reset(r.Context(), l.user.Plan("pro")); err != nil {
		t.Error(err)
	}
	l.used(t, 5, 0)
	testkit.Admit(t, l.user, "ann", 7)
	served.RefundIf(200)
	outerServed.RefundIf(200)
	if err := Refund(r.Context()); err != nil {
		t.Error(err)
	}
	l.used(t, 4, 7)
}

func TestKey(t *testing.T) {
	store := new(storetest.Fake)
	l := newLogin(store)
	other := core.Must(core.New(store, core.SlidingLog("other", core.PerHour(100))))
	r := l.admits(t, get("/?user=ann"))
	nested := newGate("test", other, keyfunc.Constant("all"), nil)
	inside, _, _ := nested.Admit(r.Context(), header(), r, "")
	denied := newGate("test", other, keyfunc.Constant("all"), []Option{Cost(func(context.Context, *http.Request) int { return 1000 })})
	refused, _, _ := denied.Admit(r.Context(), header(), r, "")
	deniedCheck := l.admits(t, get("/?user=ann"))
	if check("test", t.Context(), header(), deniedCheck, l.user, "body", []Option{Cost(func(context.Context, *http.Request) int { return 1000 })}) == nil {
		t.Error("the check is not denied")
	}
	checked := get("/")
	check("test", t.Context(), header(), checked, other, "body", nil)
	store.Set(storetest.Fail(core.ErrUnavailable))
	undecided := l.admits(t, get("/?user=ann"))
	store.Set()
	for name, c := range map[string]struct {
		r       *http.Request
		limiter *core.Limiter
		want    string
		ok      bool
	}{
		"first":                      {r, l.address, "k", true},
		"second":                     {r, l.user, "ann", true},
		"a view":                     {r, l.user.Plan("pro"), "ann", true},
		"of an outer gate":           {inside, l.user, "ann", true},
		"of the inner gate":          {inside, other, "constant:all", true},
		"not asked":                  {r, other, "", false},
		"denied, in OnDecision":      {refused, other, "constant:all", true},
		"denied by a check":          {deniedCheck, l.user, "ann", true},
		"of a check":                 {checked, other, "body", true},
		"the Store could not decide": {undecided, l.user, "", false},
		"no gate":                    {get("/"), l.user, "", false},
		"no limiter":                 {r, nil, "", false},
	} {
		key, ok := Key(c.r.Context(), c.limiter)
		if key != c.want || ok != c.ok {
			t.Errorf("%s: the key is %q, %t, want %q", name, key, ok, c.want)
		}
		if c.ok && name != "denied, in OnDecision" {
			continue
		}
		if err := Reset(c.r.Context(), c.limiter); err != ErrNotAdmitted {
			t.Errorf("%s: the error of Reset is %v, want %v", name, err, ErrNotAdmitted)
		}
	}
	store.Set(storetest.Fail(core.ErrUnavailable))
	if err := Reset(r.Context(), l.user); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("while the Store fails, the error of Reset is %v", err)
	}
}
