package core_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

func TestLimit_String(t *testing.T) {
	for text, want := range map[string]core.Limit{
		"10/s":          core.PerSecond(10),
		"10/m":          core.PerMinute(10),
		"500/h":         core.PerHour(500),
		"7/d":           core.PerDay(7),
		"7/3d":          core.Per(7, 72*time.Hour),
		"5/15m":         core.Per(5, 15*time.Minute),
		"5/2h":          core.Per(5, 2*time.Hour),
		"5/1h30m":       core.Per(5, 90*time.Minute),
		"5/1m30s":       core.Per(5, 90*time.Second),
		"5/100ms":       core.Per(5, 100*time.Millisecond),
		"5/1µs":         core.Per(5, time.Microsecond),
		"10/s burst 20": core.PerSecond(10).WithBurst(20),
		"unlimited":     core.Unlimited,
		"blocked":       core.Blocked,
		"5":             {Events: 5},
		"5/day":         core.Daily(5),
		"5/week":        core.Weekly(5),
		"5/month":       core.Monthly(5),
	} {
		if got := want.String(); got != text {
			t.Errorf("%#v: got %q, want %q", want, got, text)
		}
		if got, err := core.ParseLimit(text); err != nil || got != want {
			t.Errorf("%q: got %#v, %v, want %#v", text, got, err, want)
		}
	}
	for text, want := range map[string]core.Limit{
		"5/sec": core.PerSecond(5), "5/second": core.PerSecond(5), "5/min": core.PerMinute(5), "5/minute": core.PerMinute(5),
		"5/hour": core.PerHour(5), "5 / minute burst 9": core.PerMinute(5).WithBurst(9),
	} {
		if got, err := core.ParseLimit(text); err != nil || got != want {
			t.Errorf("%q: got %#v, %v, want %#v", text, got, err, want)
		}
	}
	if got, err := core.ParseLimit(" 10 / 60s burst  20 "); err != nil || got != core.Per(10, time.Minute).WithBurst(20) {
		t.Errorf("with spaces: got %v, %v, want 10/m burst 20", got, err)
	}
	if got, err := core.ParseLimit(" blocked "); err != nil || got != core.Blocked {
		t.Errorf("with spaces: got %v, %v, want blocked", got, err)
	}
}

func TestLimit_UnmarshalText_Invalid(t *testing.T) {
	for _, text := range []string{
		"", "/", "0", "-1", "x", "10 burst 20", "10/", "/s", "0/s", "-1/s", "+1/s", "1.5/s", "1e3/s", "10/x", "10/0s", "10/-1s", "10/s burst",
		"10/s burst 0", "10/s burst -1", "10/s burst x", "10/s burst 1 burst 2", "99999999999999999999/s", "1/0d", "1/-1d",
		"1/99999999999d", "10/s/s", "Unlimited", "blocked burst 2", "-1/-1ns burst -1", core.Blocked.WithBurst(1).String(),
	} {
		l := core.PerSecond(3)
		if err := l.UnmarshalText([]byte(text)); !errors.Is(err, core.ErrInvalidLimit) {
			t.Errorf("%q: got %v, want ErrInvalidLimit", text, err)
		}
		if l != core.PerSecond(3) {
			t.Errorf("%q: got the limit %v, want it unchanged", text, l)
		}
	}
}

// Other words for periods are an error with the text to write.
func TestParseLimit_OtherWords(t *testing.T) {
	for text, want := range map[string]string{
		"5/days": `"days" is no period; write day`, "5/weeks": "week", "5/months": "month", "5/year": "365d", "5/years": "365d", "1000/w": "write 7d, or week for the calendar", "5/mo": "month", "5/y": "365d",
		"5/daily": `"daily" is not a positive duration`, "5/Minute": "not a positive duration", "5/minutes": "not a positive duration",
	} {
		if _, err := core.ParseLimit(text); !errors.Is(err, core.ErrInvalidLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestLimit_MarshalText_JSON(t *testing.T) {
	type config struct{ Limit core.Limit }
	for want, l := range map[string]core.Limit{
		`{"Limit":"500/h"}`: core.PerHour(500), `{"Limit":"unlimited"}`: core.Unlimited, `{"Limit":"blocked"}`: core.Blocked,
	} {
		text, err := json.Marshal(config{l})
		if err != nil || string(text) != want {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
		var c config
		if err := json.Unmarshal(text, &c); err != nil || c.Limit != l {
			t.Errorf("got %v, %v, want %v", c, err, l)
		}
	}
}

// The text form of every Limit that ParseLimit returns parses to the same Limit.
func FuzzParseLimit(f *testing.F) {
	for _, text := range []string{"10/s", "500/h", "10/s burst 20", "5/1h30m", "7/3d", "1/1ns", "1/0.5s", "x", "1/h0m", "5/min", "5/months", "5", "5/month", "unlimited", " blocked"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := core.ParseLimit(text)
		if err != nil {
			return
		}
		per := l.Per > 0 && l.Calendar == 0 || l.Per == 0 && (l.Burst == 0 || l.Calendar != 0)
		if l != core.Unlimited && l != core.Blocked && (l.Events <= 0 || !per || l.Burst < 0) {
			t.Fatalf("%q: got %#v", text, l)
		}
		if again, err := core.ParseLimit(l.String()); err != nil || again != l {
			t.Errorf("%q: got %#v from %q, %v, want %#v", text, again, l.String(), err, l)
		}
		core.TokenBucket("r", l)
		core.SlidingLog("r", l)
		core.InFlight("r", 1).Plan("p", l)
		core.Quota("r", l)
	})
}
