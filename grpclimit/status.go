package grpclimit

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// statuses has the HTTP status of each code, as HTTPStatusFromCode of grpc-gateway.
var statuses = [...]int{
	codes.OK: 200, codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504,
	codes.NotFound: 404, codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429,
	codes.FailedPrecondition: 400, codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
	codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401,
}

// statusOf returns the HTTP status of the error of a handler.
func statusOf(err error) int {
	code := status.Code(err)
	if _, ok := status.FromError(err); !ok { // as a server of grpc does
		code = status.FromContextError(err).Code()
	}
	if int(code) < len(statuses) {
		return statuses[code]
	}
	return http.StatusInternalServerError
}

// chosen has the code of each HTTP status that a gate or an option chooses: of several codes, the one that a gate means.
var chosen = map[int]codes.Code{
	400: codes.InvalidArgument, 401: codes.Unauthenticated, 403: codes.PermissionDenied, 404: codes.NotFound,
	409: codes.Aborted, 429: codes.ResourceExhausted, 499: codes.Canceled, 500: codes.Internal, 501: codes.Unimplemented,
	503: codes.Unavailable, 504: codes.DeadlineExceeded,
}

// codeOf returns the code of an HTTP status. other is that of an unknown status below 500.
func codeOf(httpStatus int, other codes.Code) codes.Code {
	if code, ok := chosen[httpStatus]; ok {
		return code
	} else if httpStatus > 500 {
		return codes.Internal
	}
	return other
}

// reject returns the status of a call whose handler does not run.
func (i *interceptor) reject(c *call, rejection *gate.Rejection) error {
	p := rejection.Problem
	switch {
	case rejection.Denied():
		return denied(c, rejection)
	case c.Err() != nil:
		return status.FromContextError(c.Err()).Err()
	case p.Status == http.StatusBadRequest:
		i.noKeys.warn(c, "weir: a call has no key; a key function that reads a body or a path value never finds one", rejection.Err)
	}
	return status.Error(codeOf(p.Status, codes.InvalidArgument), p.String())
}

// denied returns the status of a denial, and sets the pushback in the trailer: a client with a retry policy tries again
// after so many milliseconds, and never after a negative number (gRFC A6). There is no wait if it is unknown because
// calls that run must end first.
func denied(c *call, rejection *gate.Rejection) error {
	details := []protoadapt.MessageV1{quotaFailure(rejection.Decision)}
	wait, known := waitOf(c.root.header, rejection.Decision)
	if known {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	pushback := "-1"
	if ms := (wait-1)/time.Millisecond + 1; known && ms <= math.MaxInt32 {
		pushback = strconv.FormatInt(int64(ms), 10)
	}
	if known || rejection.Decision.RetryAfter == core.Never {
		_ = grpc.SetTrailer(c.Context, metadata.Pairs("grpc-retry-pushback-ms", pushback)) // fails only outside of a call
	}
	s := status.New(codeOf(rejection.Problem.Status, codes.ResourceExhausted), rejection.Problem.String())
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return s.Err()
}

// waitOf returns the wait of the denied decision d, longer by the seconds that gate.Jitter has added to Retry-After in h.
func waitOf(h http.Header, d core.Decision) (wait time.Duration, known bool) {
	field, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
	if err != nil {
		return 0, false
	}
	seconds, exact := gate.RetryAfter(d)
	if wait = time.Duration(field-seconds) * time.Second; exact {
		wait += d.RetryAfter
	}
	return wait, true
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
