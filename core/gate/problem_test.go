package gate

import (
	"encoding/json"
	"strings"
	"testing"
)

// A detailed error has text that JSON would contain.
type detailed struct{ Text string }

func (e *detailed) Error() string { return e.Text }

func TestRejection_JSONWithoutErr(t *testing.T) {
	rejection := &Rejection{Problem: &Problem{Status: 500}, Err: &detailed{"secret"}}
	got, err := json.Marshal(rejection)
	if err != nil || strings.Contains(string(got), "secret") {
		t.Errorf("the JSON is %s, %v; want nothing of Err in it", got, err)
	}
}

func TestProblem_String(t *testing.T) {
	for want, p := range map[string]*Problem{
		"detail": {Title: "title", Detail: "detail", Status: 400},
		"title":  {Title: "title", Status: 400},
		"499":    {Status: 499},
	} {
		if got := p.String(); got != want {
			t.Errorf("the text is %q, want %q", got, want)
		}
	}
}
