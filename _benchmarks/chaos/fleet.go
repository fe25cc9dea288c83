package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A fleet is the instances of the application and their Redis or Redis Cluster.
type fleet struct {
	config  appConfig
	servers []*server
	cluster *redistest.Cluster // the Cluster of the servers; nil for a single server
	all     []*instance
}

// An instance is one process of the application, and later the process that replaces it.
type instance struct {
	url   atomic.Value // string; remains that of an ended process until the next one starts
	child *child
}

// startFleet starts Redis and the application. If it returns an error, it has ended all of
// their processes.
func startFleet(cluster bool, fault string) (*fleet, error) {
	f := &fleet{config: appConfig{Cluster: cluster, Fault: fault}}
	if err := f.startRedis(); err != nil {
		f.close()
		return nil, err
	}
	for range instances {
		i := new(instance)
		if err := i.start(f.config); err != nil {
			f.close()
			return nil, err
		}
		f.all = append(f.all, i)
	}
	return f, nil
}

func (f *fleet) close() {
	for _, i := range f.all {
		i.child.end()
	}
	f.closeRedis()
}

func (i *instance) start(c appConfig) error {
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), appEnv+"="+string(config))
	if i.child, err = spawn(cmd); err != nil {
		return err
	}
	i.url.Store(i.child.first)
	return nil
}

func (i *instance) at() string { return i.url.Load().(string) }

// newClient returns an HTTP client that keeps up to n connections open to each instance.
func newClient(n int, timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
			MaxIdleConns:        n * instances,
			MaxIdleConnsPerHost: n,
		},
	}
}

// gone is the state of an instance that does not answer.
const gone failover.State = -1

// A sample is the states that the instances reported at one time.
type sample struct {
	at     time.Time
	states [instances]health
}

// healthy reports whether Redis decides in every instance.
func (s *sample) healthy() bool {
	for _, h := range s.states {
		if h.State != failover.Primary {
			return false
		}
	}
	return true
}

// away reports whether memory decides in every instance.
func (s *sample) away() bool {
	for _, h := range s.states {
		if h.State != failover.Backup {
			return false
		}
	}
	return true
}

// A watcher samples the fleet until it is stopped.
type watcher struct {
	fleet  *fleet
	client *http.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	samples []sample
}

// pace is the interval between two samples.
const pace = 20 * time.Millisecond

func watch(f *fleet) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{fleet: f, client: newClient(1, time.Second), cancel: cancel, done: make(chan struct{})}
	go w.run(ctx)
	return w
}

func (w *watcher) run(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		s := w.fleet.look(ctx, w.client)
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		w.samples = append(w.samples, s)
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look returns a sample of all instances. The time of the sample is that of the last
// answer, so each state was true before.
func (f *fleet) look(ctx context.Context, client *http.Client) sample {
	var s sample
	var wg sync.WaitGroup
	for n, i := range f.all {
		wg.Go(func() {
			if err := i.health(ctx, client, &s.states[n]); err != nil {
				s.states[n] = health{State: gone}
			}
		})
	}
	wg.Wait()
	s.at = time.Now()
	return s
}

func (i *instance) health(ctx context.Context, client *http.Client, h *health) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.at()+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(h)
}

// latest returns the newest sample.
func (w *watcher) latest() sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.samples) == 0 {
		return sample{states: [instances]health{{State: gone}}}
	}
	return w.samples[len(w.samples)-1]
}

// well returns an error unless Redis decides in every instance.
func (w *watcher) well() error {
	if s := w.latest(); !s.healthy() {
		return fmt.Errorf("the states of the instances are %+v", s.states)
	}
	return nil
}

// stop ends the watcher and returns its samples.
func (w *watcher) stop() []sample {
	w.cancel()
	<-w.done
	w.client.CloseIdleConnections()
	return w.samples
}
