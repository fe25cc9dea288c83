package diagnose

import (
	"strings"
	"testing"
	"time"
)

// A clock is compared no more exactly than the round trip allows, and any server may be the one that differs.
func TestDiagnosis_checkClocks(t *testing.T) {
	noTime := Finding{"clock", ResultUnknown, "no time", "change"}
	for name, c := range map[string]struct {
		noClock Finding
		clocks  []clockSample
		want    Result // none if there is no Finding
		detail  string
	}{
		"no reply":    {Finding{}, nil, "", ""},
		"no time":     {noTime, nil, ResultUnknown, "no time"},
		"one time":    {noTime, []clockSample{{"a", 0, 0}}, ResultOK, "less than 1s"},
		"equal":       {Finding{}, []clockSample{{"", 900 * time.Millisecond, 0}}, ResultOK, "less than 1s"},
		"ahead":       {Finding{}, []clockSample{{"", 1100 * time.Millisecond, 0}}, ResultWarning, "Redis is 1.1s ahead of this process"},
		"behind":      {Finding{}, []clockSample{{"", -time.Minute, time.Millisecond}}, ResultWarning, "Redis is 1m0s behind this process"},
		"far":         {Finding{}, []clockSample{{"", 3 * time.Second, 2 * time.Second}}, ResultOK, "less than 1s"},
		"one of them": {Finding{}, []clockSample{{"a", 0, 0}, {"b", time.Hour, 0}, {"c", 0, 0}}, ResultWarning, "b: Redis is 1h0m0s ahead"},
	} {
		d := &diagnosis{noClock: c.noClock, clocks: c.clocks}
		d.checkClocks()
		got := d.findings
		if len(got) == 0 {
			if c.want != "" {
				t.Errorf("%s: got no Finding, want %s", name, c.want)
			}
		} else if f := got[0]; f.Check != "clock" || f.Result != c.want || !strings.Contains(f.Detail, c.detail) {
			t.Errorf("%s: got %+v, want %s and %q", name, f, c.want, c.detail)
		}
	}
}
