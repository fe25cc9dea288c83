package gate

import (
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/argument"
)

// PerIP returns the limiter of PerIP of the adapter called name: in memory, a sliding window called "ip".
func (functions) PerIP(name string, limit core.Limit, opts []Option) *core.Limiter {
	function := name + ": PerIP"
	o := options{adapter: name}
	argument.Apply(function, &o, opts)
	switch {
	case limit.Burst != 0:
		panic(fmt.Sprintf(`%s: a sliding window has no burst: write %s.New(core.Must(core.New(memstore.New(), core.TokenBucket("ip", limit))), keyfunc.RemoteIP())`,
			function, name))
	case len(o.and) > 0:
		panic(fmt.Sprintf(`%s: gate.And needs limiters on one store: write %s.New(core.Must(core.New(store, core.SlidingWindow("ip", limit))), keyfunc.RemoteIP(), gate.And(...))`,
			function, name))
	}
	l, err := core.New(memstore.New(), core.SlidingWindow("ip", limit))
	if err != nil {
		panic(function + ": " + err.Error())
	}
	return l
}
