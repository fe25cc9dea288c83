package adapter

import (
	"context"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

func anyKey(context.Context, *http.Request) (string, error) { return "k", nil }

// once admits one request a day.
func once() *core.Limiter {
	return core.Must(core.New(memstore.New(), core.SlidingLog("once", core.PerDay(1))))
}

func newGate(l *core.Limiter, opts ...gate.Option) *Gate {
	g, _ := New[func()]("test", l, anyKey, opts...)
	return g
}

// New returns the functions of Denied and Rejected to the same adapter, and panics in another.
func TestNew_Answer(t *testing.T) {
	for name, with := range map[string]func(string, func(int)) gate.Option{"OnDenied": Denied[func(int)], "OnRejected": Rejected[func(int)]} {
		called := 0
		opt := with("test", func(int) { called++ })
		rejection := &gate.Rejection{Problem: new(gate.Problem), Err: core.ErrUnavailable}
		other := &gate.Rejection{Problem: new(gate.Problem), Err: gate.ErrDenied}
		if name == "OnDenied" {
			rejection, other = other, rejection
		}
		_, answer := New[func(int)]("test", once(), anyKey, opt)
		if f, ok := answer(rejection); ok {
			f(1)
		}
		if _, ok := answer(other); ok || called != 1 {
			t.Errorf("%s: the function was called %d times, another one is given: %t", name, called, ok)
		}
		if _, answer := New[func(int)]("test", once(), anyKey); true {
			if _, ok := answer(rejection); ok {
				t.Errorf("%s: New returned a function without the option", name)
			}
		}
		testkit.Panics(t, "other: New: test."+name+" is an option for test.New only", func() {
			New[func(int)]("other", once(), anyKey, opt)
		})
		testkit.Panics(t, "gate: And: only Cost, CostOfBody and Plan can be given for one limiter", func() { gate.And(once(), anyKey, opt) })
		testkit.Panics(t, "test: "+name+": function is nil", func() { with("test", nil) })
	}
}

// A gate reads a body if an option does, also one of And.
func TestGate_ReadsBody(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerHour(1))))
	body := gate.CostOfBody(10, func(context.Context, *http.Request, []byte) (int, error) { return 1, nil })
	for name, c := range map[string]struct {
		opts []gate.Option
		want bool
	}{
		"none": {nil, false},
		"own":  {[]gate.Option{body}, true},
		"And":  {[]gate.Option{gate.And(l, anyKey, body)}, true},
	} {
		if g, _ := New[func()]("examplelimit", l, anyKey, c.opts...); g.ReadsBody() != c.want {
			t.Errorf("%s: got %t, want %t", name, g.ReadsBody(), c.want)
		}
	}
}

func TestCopyBack(t *testing.T) {
	form, other := &multipart.Form{Value: map[string][]string{"a": {"1"}}}, new(multipart.Form)
	values, otherValues := url.Values{"a": {"1"}}, url.Values{"b": {"2"}}
	type fields struct {
		multipart      *multipart.Form
		form, postForm url.Values
		pattern        string
	}
	for name, c := range map[string]struct{ original, inner, want fields }{
		"nothing":         {fields{}, fields{}, fields{}},
		"all":             {fields{}, fields{form, values, values, "GET /"}, fields{form, values, values, "GET /"}},
		"another pattern": {fields{pattern: "/"}, fields{pattern: "GET /a"}, fields{pattern: "GET /a"}},
		"another request": {fields{form, values, values, "/"}, fields{}, fields{form, values, values, "/"}},
		"other forms":     {fields{form, values, values, "/"}, fields{other, otherValues, otherValues, "/"}, fields{form, values, values, "/"}},
	} {
		request := func(f fields) *http.Request {
			r := httptest.NewRequest("GET", "/", nil)
			r.MultipartForm, r.Form, r.PostForm, r.Pattern = f.multipart, f.form, f.postForm, f.pattern
			return r
		}
		original := request(c.original)
		CopyBack(original, request(c.inner))
		CopyBack(original, original)
		CopyBack(original, nil)
		if got := (fields{original.MultipartForm, original.Form, original.PostForm, original.Pattern}); !reflect.DeepEqual(got, c.want) || got.multipart != c.want.multipart {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
