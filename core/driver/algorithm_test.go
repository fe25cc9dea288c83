package driver

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

// A switch without a case for an algorithm panics.
func TestAlgorithm_Unknown(t *testing.T) {
	const unknown = 255
	type other struct{ engine }
	c := &Compiled{Definition: Definition{Algorithm: unknown}, Kind: new(Kind), engine: other{}}
	for name, do := range map[string]func(){
		"read":      func() { c.read(new(Reading), State{}, 1, 1) },
		"spend":     func() { c.spend(State{}, new(Reading), 1, 1) },
		"verdict":   func() { c.verdict(new(Verdict), new(Reading), 1, Never, true) },
		"newEngine": func() { newEngine(&Definition{Algorithm: unknown, Events: 1}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got, want := recover(), "weir: no algorithm has the number 255"; got != want {
					t.Errorf("got %v, expected %s", got, want)
				}
			}()
			do()
		})
	}
}

// An op of the other method of a Store panics. (A Debit in Take would be lost if it does not fit.)
func TestCharge_OpOfTheOtherMethod(t *testing.T) {
	c, err := Definition{Name: "r", Algorithm: TokenBucket, Events: 1, Per: time.Second}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []Op{Spend, Peek, Reset, Credit, Debit, Undo} {
		charge, r := Charge{Key: "k", Rule: c, Op: op, Cost: 1}, Reading{}
		panics := func(do func()) (panicked bool) {
			defer func() { panicked = recover() != nil }()
			do()
			return false
		}
		commits := !panics(func() { charge.Commit(State{}, &r, 1, true) })
		applies := !panics(func() { charge.Apply(State{}, &r, 1) })
		if commits != op.Asks() || applies == op.Asks() {
			t.Errorf("op %d: got Commit works: %t, Apply works: %t", op, commits, applies)
		}
	}
}

func TestAlgorithm_String(t *testing.T) {
	for a, want := range map[Algorithm]string{0: "none", TokenBucket: "token_bucket", FixedWindow: "fixed_window", Pause: "pause", 255: "none"} {
		if got := a.String(); got != want {
			t.Errorf("%d: got %s, expected %s", a, got, want)
		}
	}
}

// Every property of a kind is one that Check knows, and reports for rules that do not have it.
func TestKind_Check(t *testing.T) {
	for a := range kinds {
		k := &kinds[a]
		for _, p := range k.Properties {
			if !slices.Contains(properties[:], p) {
				t.Errorf("%s: no property is called %q", k.Name, p)
			}
		}
		for _, p := range properties {
			want := ""
			if !slices.Contains(k.Properties, p) {
				want = fmt.Sprintf("weir: rule %q: %s has no meaning for %s", "r", p, k.Name)
			}
			if err := k.Check("r", func(of string) bool { return of == p }); (err != nil) != (want != "") || err != nil && err.Error() != want {
				t.Errorf("%s with %s: got error %v, want %q", k.Name, p, err, want)
			}
		}
	}
}

// Every field of a Definition is a property that Check knows, or has a meaning for all rules.
func TestDefinition_Properties(t *testing.T) {
	all := []string{"Name", "Algorithm", "Always", "Shadow", "UpTo", "Like", "Text", "inherited"}
	for field := range reflect.TypeFor[Definition]().Fields() {
		var d Definition
		if slices.Contains(all, field.Name) {
			continue
		}
		switch v := reflect.ValueOf(&d).Elem().FieldByIndex(field.Index); v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.String:
			v.SetString("x")
		case reflect.Float64:
			v.SetFloat(1)
		case reflect.Uint8:
			v.SetUint(1)
		default:
			v.SetInt(1)
		}
		if !slices.ContainsFunc(properties[:], d.has) {
			t.Errorf("%s is no property in Definition.has", field.Name)
		}
	}
}
