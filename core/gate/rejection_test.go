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
