package keyfunc

import "testing"

// Package jwt would find the same faults later; parseObject does not rely on it.
func TestParseObjectIsStrict(t *testing.T) {
	for _, text := range []string{
		"", " ", "null", "7", `"a"`, "[]", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":1]`, `{a:1}`, `{1:1}`, `{"a":1}}`, `{"a":1} 2`, `{"a":1}{`, `{}x`,
		"{\"a\":\"\xff\"}", "{\"\xff\":1}", `{"a":1,"a":1}`, `{"a":1,"\u0061":1}`, `{"":1,"":2}`, `{"a":tru}`, `{"a":01}`, "\ufeff{}",
	} {
		if members, err := parseObject([]byte(text)); err == nil {
			t.Errorf("%q parses as %v", text, members)
		}
	}
	members, err := parseObject([]byte(` { "a" : {"b":1,"b":2} , "A" : [ ] , "" : null } ` + "\n"))
	if err != nil || len(members) != 3 || string(members["a"]) != `{"b":1,"b":2}` || string(members["A"]) != "[ ]" || string(members[""]) != "null" {
		t.Errorf("members = %q, %v", members, err)
	}
}
