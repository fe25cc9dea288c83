package client_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/nethttplimit/client"
)

// none is the result of an answer without a time.
const none = time.Duration(-1)

// The answers are those of servers, as they document them.
func TestRetryAfter(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	replace := strings.NewReplacer(
		"DATE+90", now.Add(90*time.Second).Format(http.TimeFormat), "DATE-90", now.Add(-90*time.Second).Format(http.TimeFormat),
		"DATE", now.Format(http.TimeFormat),
		"EPOCH+90", epoch(now.Add(90*time.Second)), "MILLIS+90", epoch(now.Add(90*time.Second))+"000",
		"RFC3339+90", now.Add(90*time.Second).Format(time.RFC3339), "RFC3339+30", now.Add(30*time.Second).Format(time.RFC3339),
	)
	for name, c := range map[string]struct {
		header string
		want   time.Duration
	}{
		"nothing":                          {"Content-Type: text/plain", none},
		"RFC 9110, seconds":                {"Retry-After: 120", 2 * time.Minute},
		"RFC 9110, date":                   {"Date: DATE\nRetry-After: DATE+90", 90 * time.Second},
		"RFC 9110, date in the past":       {"Date: DATE\nRetry-After: DATE-90", 0},
		"Retry-After of 0":                 {"Retry-After: 0", 0},
		"a fraction of a second":           {"Retry-After: 0.25", 250 * time.Millisecond},
		"Azure OpenAI":                     {"retry-after-ms: 1500\nretry-after: 2", 1500 * time.Millisecond},
		"GitHub, secondary limit":          {"Retry-After: 60\nX-RateLimit-Limit: 5000\nX-RateLimit-Remaining: 4990\nX-RateLimit-Reset: EPOCH+90", time.Minute},
		"GitHub, primary limit":            {"Date: DATE\nX-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: EPOCH+90\nX-RateLimit-Resource: core", 90 * time.Second},
		"X (Twitter)":                      {"Date: DATE\nx-rate-limit-limit: 15\nx-rate-limit-remaining: 0\nx-rate-limit-reset: EPOCH+90", 90 * time.Second},
		"Discord":                          {"Date: DATE\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1470173023.123\nX-RateLimit-Reset-After: 64.57", 64570 * time.Millisecond},
		"Slack":                            {"Retry-After: 30", 30 * time.Second},
		"Stripe, Notion, npm":              {"Retry-After: 1", time.Second},
		"Shopify":                          {"Retry-After: 2.0\nX-Shopify-Shop-Api-Call-Limit: 40/40", 2 * time.Second},
		"Twilio, Google":                   {"Content-Type: application/json", none}, // at most in the body
		"HubSpot":                          {"X-HubSpot-RateLimit-Interval-Milliseconds: 10000\nX-HubSpot-RateLimit-Max: 100\nX-HubSpot-RateLimit-Remaining: 0", none},
		"Okta":                             {"Date: DATE\nX-Rate-Limit-Limit: 600\nX-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: EPOCH+90", 90 * time.Second},
		"Auth0":                            {"Date: DATE\nx-ratelimit-limit: 10\nx-ratelimit-remaining: 0\nx-ratelimit-reset: EPOCH+90", 90 * time.Second},
		"Atlassian":                        {"Date: DATE\nRetry-After: 12\nX-RateLimit-Limit: 65000\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: RFC3339+90\nRateLimit-Reason: jira-burst-based", 12 * time.Second},
		"Atlassian, without Retry-After":   {"Date: Mon, 10 May 2021 10:58:30 GMT\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2021-05-10T11:00Z", 150 * time.Second},
		"Confluence Data Center":           {"X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-FillRate: 5\nX-RateLimit-Interval-Seconds: 1\nretry-after: 1", time.Second},
		"Cloudflare":                       {`Ratelimit: "default";r=0;t=30` + "\n" + `Ratelimit-Policy: "default";q=1200;w=300` + "\nRetry-After: 30", 30 * time.Second},
		"GitLab":                           {"Date: DATE\nRateLimit-Limit: 60\nRateLimit-Name: throttle_authenticated_web\nRateLimit-Observed: 67\nRateLimit-Remaining: 0\nRateLimit-Reset: EPOCH+90\nRetry-After: 30", 30 * time.Second},
		"GitLab, without Retry-After":      {"Date: DATE\nRateLimit-Observed: 67\nRateLimit-Remaining: 0\nRateLimit-Reset: EPOCH+90", 90 * time.Second},
		"Zendesk":                          {"Retry-After: 93\nX-Rate-Limit: 700\nX-Rate-Limit-Remaining: 0\nratelimit-limit: 700\nratelimit-remaining: 0\nratelimit-reset: 41", 93 * time.Second},
		"Zendesk, list of tickets":         {"x-rate-limit-remaining: 699\nratelimit-remaining: 0\nratelimit-reset: 41\nzendesk-ratelimit-tickets-index: total=100; remaining=0; resets=41", 41 * time.Second},
		"Linear":                           {"Date: DATE\nX-RateLimit-Requests-Limit: 5000\nX-RateLimit-Requests-Remaining: 0\nX-RateLimit-Requests-Reset: MILLIS+90\nX-RateLimit-Complexity-Remaining: 17", 90 * time.Second},
		"Linear, complexity":               {"Date: DATE\nX-RateLimit-Requests-Remaining: 9\nX-RateLimit-Requests-Reset: MILLIS+90\nX-RateLimit-Complexity-Remaining: 0\nX-RateLimit-Complexity-Reset: MILLIS+90", 90 * time.Second},
		"Docker Hub, pulls":                {"ratelimit-limit: 100;w=21600\nratelimit-remaining: 0;w=21600", none},
		"Docker Hub, API":                  {"Date: DATE\nX-RateLimit-Limit: 180\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: EPOCH+90\nRetry-After: EPOCH+90", 90 * time.Second},
		"Groq":                             {"x-ratelimit-remaining-requests: 998\nx-ratelimit-reset-requests: 2m52.8s\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 7.66s", 7660 * time.Millisecond},
		"Azure OpenAI, streaming":          {"x-ratelimit-remaining-tokens: -27689\nx-ratelimit-reset-tokens: 64", 64 * time.Second},
		"Reddit, draft 6 with a fraction":  {"X-Ratelimit-Remaining: 0.0\nX-Ratelimit-Used: 600\nX-Ratelimit-Reset: 284", 284 * time.Second},
		"milliseconds since 1970":          {"Date: DATE\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: MILLIS+90", 90 * time.Second},
		"draft 6":                          {"RateLimit-Limit: 100\nRateLimit-Remaining: 0\nRateLimit-Reset: 50", 50 * time.Second},
		"draft 7":                          {"RateLimit: limit=100, remaining=0, reset=50\nRateLimit-Policy: 100;w=60", 50 * time.Second},
		"draft 8":                          {`RateLimit: "default";r=0;t=30`, 30 * time.Second},
		"draft 11, several policies":       {`RateLimit: "burst";r=0;t=5, "day";r=0;t=3600;pk=:dXNlcg==:` + "\n" + `RateLimit-Policy: "burst";q=10;w=10, "day";q=1000;w=86400`, time.Hour},
		"draft 11, one is not exhausted":   {`RateLimit: "day";r=900;t=3600, "burst";r=0;t=5`, 5 * time.Second},
		"draft 11, a name with separators": {`RateLimit: "a;r=1,t=\"9";r=0;t=7`, 7 * time.Second},
		"draft 11, two lines":              {"RateLimit: \"a\";r=0;t=7\nRateLimit: \"b\";r=0;t=9", 9 * time.Second},
		"OpenAI":                           {"x-ratelimit-limit-requests: 60\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 6m0s\nx-ratelimit-remaining-tokens: 149984\nx-ratelimit-reset-tokens: 1s", 6 * time.Minute},
		"OpenAI, tokens":                   {"x-ratelimit-remaining-requests: 59\nx-ratelimit-reset-requests: 1s\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 120ms", 120 * time.Millisecond},
		"Anthropic":                        {"Date: DATE\nanthropic-ratelimit-requests-remaining: 49\nanthropic-ratelimit-requests-reset: RFC3339+30\nanthropic-ratelimit-tokens-remaining: 0\nanthropic-ratelimit-tokens-reset: RFC3339+90", 90 * time.Second},
		"Anthropic, with Retry-After":      {"retry-after: 11\nanthropic-ratelimit-tokens-remaining: 0\nanthropic-ratelimit-tokens-reset: RFC3339+90", 11 * time.Second},
		"an invalid Retry-After":           {"Retry-After: soon\nRateLimit: \"a\";r=0;t=7", 7 * time.Second},
		"a negative Retry-After":           {"Retry-After: -5", none},
		"two lines of Retry-After":         {"Retry-After: 3\nRetry-After: 9", 3 * time.Second},
		"a list of Retry-After":            {"Retry-After: 3, 9", none},
		"Retry-After is not a number":      {"Retry-After: NaN", none},
		"an empty Retry-After":             {"Retry-After: ", none},
		"a Date in the far future":         {"Date: Fri, 31 Dec 9999 23:59:59 GMT\nRetry-After: DATE+90", 0},
		"a Date in the far past":           {"Date: Mon, 01 Jan 0001 00:00:00 GMT\nRetry-After: DATE+90", 365 * 24 * time.Hour},
		"a Date that is none":              {"Date: today\nRetry-After: Mon, 01 Jan 2001 00:01:00 GMT", 0},
		"a huge t":                         {`RateLimit: "a";r=0;t=99999999999999999999`, 365 * 24 * time.Hour},
		"a negative t":                     {`RateLimit: "a";r=0;t=-5`, none},
		"a quote without an end":           {`RateLimit: "a;r=0;t=5`, none},
		"more than 32 policies":            {"RateLimit: " + strings.Repeat(`"a";r=1;t=9,`, 32) + `"b";r=0;t=5`, none},
		"an infinite Retry-After":          {"Retry-After: 1e400", none},
		"a huge Retry-After":               {"Retry-After: 99999999999999999999", 365 * 24 * time.Hour},
		"a date of another century":        {"Date: DATE\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT", 365 * 24 * time.Hour},
		"a clock that is wrong":            {"Date: Mon, 01 Jan 2001 00:00:00 GMT\nRetry-After: Mon, 01 Jan 2001 00:01:00 GMT", time.Minute},
		"units are left":                   {"X-RateLimit-Remaining: 7\nX-RateLimit-Reset: 50", none},
		"units are left, Reset-After":      {"X-RateLimit-Remaining: 7\nX-RateLimit-Reset-After: 5", none},
		"units are left, draft 6":          {"RateLimit-Remaining: 7\nRateLimit-Reset: 50", none},
		"a limit without remaining units":  {"x-ratelimit-reset-requests: 6m0s", none},
		"no remaining units are named":     {"X-RateLimit-Reset: 50", 50 * time.Second},
		"a broken RateLimit":               {`RateLimit: "a";r=0;t, ;;=,"`, none},
	} {
		t.Run(name, func(t *testing.T) {
			d, ok := client.RetryAfter(&http.Response{StatusCode: 429, Header: header(replace.Replace(c.header))})
			if !ok {
				d = none
			}
			if d != c.want {
				t.Errorf("got %v, want %v", d, c.want)
			}
		})
	}
}

// A header as large as net/http reads needs little more memory than it has.
func TestRetryAfter_HugeFields(t *testing.T) {
	const size = 10 << 20
	for name, h := range map[string]http.Header{
		"policies":   {"Ratelimit": {strings.Repeat(",", size)}},
		"parameters": {"Ratelimit": {strings.Repeat(";", size)}},
		"draft 7":    {"Ratelimit": {strings.Repeat("reset=1,", size/8)}},
		"a number":   {"Retry-After": {strings.Repeat("9", size)}},
		"a duration": {"X-Ratelimit-Reset": {strings.Repeat("\xff", size)}},
		"a t":        {"Ratelimit": {`"a";r=0;t=` + strings.Repeat("\xff", size)}},
		"a date":     {"Date": {"Mon, " + strings.Repeat("2", size)}},
	} {
		var d time.Duration
		var ok bool
		_, n := testkit.Allocated(1, func() { d, ok = client.RetryAfter(&http.Response{Header: h}) })
		if ok || n > 2*size {
			t.Errorf("%s: got %v, %v with %d bytes", name, d, ok, n)
		}
	}
}

func epoch(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func FuzzRetryAfter(f *testing.F) {
	for _, name := range []string{"Retry-After", "RateLimit", "X-RateLimit-Reset", "anthropic-ratelimit-tokens-reset"} {
		f.Add(name, "3", "X-Ratelimit-Remaining", "0")
	}
	f.Add("RateLimit", `"a";r=0;t=7`, "Date", "x")
	f.Fuzz(func(t *testing.T, name, value, other, text string) {
		h := http.Header{http.CanonicalHeaderKey(name): {value}, http.CanonicalHeaderKey(other): {text}}
		if d, ok := client.RetryAfter(&http.Response{Header: h}); d < 0 || d > 365*24*time.Hour || !ok && d != 0 {
			t.Errorf("got %v, %v", d, ok)
		}
	})
}
