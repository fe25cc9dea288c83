package diagnose

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/core/internal/processes"
)

// checkProcesses lets a process begin and end, and then counts those of the application, on the server that has them.
func (t *target) checkProcesses(ctx context.Context) Finding {
	const name = "processes"
	record := func(slot string) processes.Record { return processes.NewRecord(nil, t.encoder.Prefix, slot) }
	here, n := record(t.encoder.Tag(t.identity)), 0
	for i, command := range [][]any{here.Trial(false), here.Trial(true), record(t.app).Trial(true)} {
		client := t.rdb
		if i == 2 {
			client = t.universal
		}
		reply, err := t.command(ctx, client, command...)
		if err == nil {
			n, err = processes.Count(reply)
		}
		if want := 1 - i; err == nil && i < 2 && n != want {
			err = fmt.Errorf("%w: the script counts %d processes, and %d is right", errSteps, n, want)
		}
		if err != nil {
			f := t.failed(ctx, name, err, otherServer)
			if f.Result == ResultFailed {
				f.Result, f.Detail = ResultWarning, f.Detail+"; in an outage, resilient.Instances is the number of processes instead"
			}
			return f
		}
	}
	return Finding{Check: name, Result: ResultOK, Detail: fmt.Sprintf("a script counts them: %d of the application have a heartbeat", n)}
}
