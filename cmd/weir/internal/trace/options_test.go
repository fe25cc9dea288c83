package trace_test

import (
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

func TestParseFormat(t *testing.T) {
	for name, format := range map[string]trace.Format{"auto": trace.Auto, "csv": trace.CSV, "json": trace.JSON, "log": trace.Log} {
		if got, err := trace.ParseFormat(name); got != format || err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "CSV", "xml"} {
		if got, err := trace.ParseFormat(name); got != trace.Auto || err == nil {
			t.Errorf("%q: got %v, %v", name, got, err)
		}
	}
}
