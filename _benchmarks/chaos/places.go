package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// placeUsers is the number of users of the route with places. Each has as many callers as the limit, which send one
// request after the other, so that no request has to be denied.
const placeUsers = 10

// An occupation is the load of the route with places.
type occupation struct {
	client  *http.Client
	cancel  context.CancelFunc
	callers sync.WaitGroup

	mu      sync.Mutex
	records []record
}

// occupy sends requests for places until stop is called. name is part of the names of the users.
func occupy(f *fleet, name string) *occupation {
	ctx, cancel := context.WithCancel(context.Background())
	o := &occupation{client: newClient(placeUsers*atATime, 5*time.Second), cancel: cancel}
	for user := range placeUsers {
		for range atATime {
			o.callers.Go(func() {
				for ctx.Err() == nil {
					r := record{user: user, begun: time.Now()}
					r.status, _ = export(ctx, o.client, f.all[rand.IntN(instances)].at(), fmt.Sprintf("%s export %d", name, user))
					if r.end = time.Now(); ctx.Err() == nil {
						o.mu.Lock()
						o.records = append(o.records, r)
						o.mu.Unlock()
					}
					time.Sleep(rand.N(200 * time.Millisecond))
				}
			})
		}
	}
	return o
}

func (o *occupation) stop() []record {
	o.cancel()
	o.callers.Wait()
	o.client.CloseIdleConnections()
	return o.records
}

// export sends a request for a place and returns the status.
func export(ctx context.Context, client *http.Client, url, user string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/export", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-User", user)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, nil
}

// hangUps is the number of requests of each call of hangUp, which is made every 100 ms.
const hangUps = 50

var hasty = newClient(hangUps, 5*time.Second)

// hangUp sends requests for places whose clients hang up within a few milliseconds.
func hangUp(f *fleet) error {
	for range hangUps {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), rand.N(4*time.Millisecond))
			defer cancel()
			_, _ = export(ctx, hasty, f.all[rand.IntN(instances)].at(), fmt.Sprint("hasty ", rand.IntN(1000)))
		}()
	}
	return nil
}
