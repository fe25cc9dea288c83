package gate

import (
	"encoding/json"
	"strings"
	"testing"
)

// A detailed error has text that JSON would contain.
type detailed struct{ Text string }

func (e *detailed) Error() string { return e.Text }

func TestRefusal_JSONWithoutErr(t *testing.T) {
	refused := &Refusal{Problem: &Problem{Status: 500}, Err: &detailed{"secret"}}
	got, err := json.Marshal(refused)
	if err != nil || strings.Contains(string(got), "secret") {
		t.Errorf("the JSON is %s, %v; want nothing of Err in it", got, err)
	}
}
