package connectlimit

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
)

// Answers returns an option of nethttplimit.New, Limit and PerIP around a handler of connect. It makes w write the
// responses to calls that are denied or rejected, as errors in the protocol of the caller: see the page of this package.
// A request of another protocol gets the problem document, as without the option.
//
// w must have the [connect.HandlerOption] values of the handler. Without [connect.WithRequireConnectProtocolHeader], w takes
// every GET, and every POST with a Content-Type that begins with application/, for a call in the Connect protocol.
//
// Answers panics if w is nil. With the option, New of any other adapter panics.
func Answers(w *connect.ErrorWriter) gate.Option {
	if w == nil {
		panic("connectlimit: Answers: error writer is nil")
	}
	respond := func(rw http.ResponseWriter, r *http.Request, rejection *gate.Rejection) {
		if !w.IsSupported(r) {
			adapter.WriteProblem(rw, r, rejection.Problem)
			return
		}
		_ = w.Write(rw, r, newError(rw.Header(), r, rejection)) // an error means that the client has gone
	}
	const name = "nethttplimit" // the adapter, whose functions have this type
	return gate.Options(adapter.Denied(name, respond), adapter.Rejected(name, respond))
}

// newError returns the error for the caller of r. h is the header of the response, with the fields of the gate.
func newError(h http.Header, r *http.Request, rejection *gate.Rejection) *connect.Error {
	e := connect.NewError(codeOf(r, rejection), errors.New(rejection.Problem.String()))
	if rejection.Denied() {
		addDetail(e, quotaFailure(rejection.Decision))
	}
	pushback := int64(-1)
	if wait, ok := waitOf(h, rejection); ok {
		addDetail(e, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
		if ms := int64((wait + time.Millisecond - 1) / time.Millisecond); ms <= math.MaxInt32 { // some clients have 32 bits for it
			pushback = ms
		}
	} else if rejection.Decision.RetryAfter != core.Never {
		return e
	}
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/grpc") {
		e.Meta().Set("Grpc-Retry-Pushback-Ms", strconv.FormatInt(pushback, 10))
	}
	return e
}

func addDetail(e *connect.Error, m proto.Message) {
	if detail, err := connect.NewErrorDetail(m); err == nil { // names and units of rules are ASCII, so all messages can be encoded
		e.AddDetail(detail)
	}
}

// codes has the codes of the statuses that stand for one.
var codes = map[int]connect.Code{
	http.StatusBadRequest:            connect.CodeInvalidArgument,
	http.StatusUnauthorized:          connect.CodeUnauthenticated,
	http.StatusForbidden:             connect.CodePermissionDenied,
	http.StatusNotFound:              connect.CodeNotFound,
	http.StatusRequestEntityTooLarge: connect.CodeResourceExhausted,
	http.StatusTooManyRequests:       connect.CodeResourceExhausted,
	http.StatusNotImplemented:        connect.CodeUnimplemented,
	http.StatusServiceUnavailable:    connect.CodeUnavailable,
	http.StatusGatewayTimeout:        connect.CodeDeadlineExceeded,
}

// codeOf returns the code for the status that the gate has chosen. A call that has ended has the code of its end.
func codeOf(r *http.Request, rejection *gate.Rejection) connect.Code {
	status := rejection.Problem.Status
	if !rejection.Denied() && status == http.StatusServiceUnavailable {
		switch err := r.Context().Err(); {
		case errors.Is(err, context.DeadlineExceeded):
			return connect.CodeDeadlineExceeded
		case err != nil:
			return connect.CodeCanceled
		}
	}
	code, ok := codes[status]
	switch {
	case ok:
		return code
	case rejection.Denied():
		return connect.CodeResourceExhausted
	case status >= 500:
		return connect.CodeInternal
	}
	return connect.CodeFailedPrecondition
}

// waitOf returns the time after which the caller should repeat the call: that of the decision, which is exact, and the
// seconds by which [gate.Jitter] has made Retry-After longer. It returns false if the gate has set no Retry-After.
func waitOf(h http.Header, rejection *gate.Rejection) (time.Duration, bool) {
	d := rejection.Decision
	seconds, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
	if err != nil || !rejection.Denied() && rejection.Problem.Status != http.StatusServiceUnavailable {
		return 0, false
	}
	if known, ok := gate.RetryAfter(d); ok && d.RetryAfter > 0 {
		return d.RetryAfter + time.Duration(seconds-known)*time.Second, true
	}
	return time.Duration(seconds) * time.Second, true
}

// quotaFailure describes the rules that deny d.
func quotaFailure(d core.Decision) *errdetails.QuotaFailure {
	quota := new(errdetails.QuotaFailure)
	for _, s := range d.States() {
		if s.Allowed || s.Rule.IsShadow() {
			continue
		}
		spec := s.Rule.Spec()
		unit := cmp.Or(spec.Unit, "requests")
		if s.Rule.Kind().Holds && unit == "requests" {
			unit = "concurrent-requests" // as in RateLimit-Policy
		}
		quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{
			QuotaId:     cmp.Or(spec.Label, spec.Name),
			QuotaMetric: unit,
			QuotaValue:  int64(s.Rule.Capacity()),
			Description: s.Limit().String(),
		})
	}
	return quota
}
