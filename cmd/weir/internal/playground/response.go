package playground

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core"
)

// response returns the response of a middleware to a denied request for /, as text, for a limiter with one
// rule, which has the State s. Package gate writes it; it is not used here because it needs net/http, which
// would make the program for browsers half as large again.
func response(s core.State) string {
	l, capacity := s.Limit(), s.Rule.Capacity()
	fill := l.Per // the time in which the capacity is restored
	if s.Rule.Kind().Refills {
		fill = time.Duration((int64(capacity)*int64(l.Per) + int64(l.Events) - 1) / int64(l.Events))
	}
	window, plural, burst := "", "s", ""
	if fill >= time.Second {
		window = fmt.Sprintf(";w=%d", simulate.Seconds(fill))
	}
	if l.Events == 1 {
		plural = ""
	}
	if capacity != l.Events {
		burst = fmt.Sprintf(", %d at once", capacity)
	}
	return fmt.Sprintf(`HTTP/1.1 429 Too Many Requests
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: %[1]q;r=%[2]d;t=%[3]d
Ratelimit-Policy: %[1]q;q=%[4]d%[5]s
Retry-After: %[3]d
X-Content-Type-Options: nosniff

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Policy \"%[6]s\" allows %[7]d request%[8]s per %[9]v s%[10]s. Retry in %[3]d s.","instance":"/","violated-policies":[%[1]q]}
`, s.Rule.Name(), s.Remaining, simulate.Seconds(s.Window), capacity, window, s.Rule.Name(), l.Events, plural, l.Per.Seconds(), burst)
}
