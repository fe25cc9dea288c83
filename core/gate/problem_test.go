package gate

import "testing"

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
