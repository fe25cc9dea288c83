package redistest

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Reshard moves so many slots, with their keys, from one master to another, as an
// operator does: with redis-cli --cluster reshard. It returns when they have moved.
// It may be called while the cluster is in use, which is what it is for.
func (c *ClusterSet) Reshard(from, to *Server, n int) {
	c.t.Helper()
	from.refuseShared("Reshard")
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		c.t.Fatalf("redistest: Reshard: %v (Debian has it in redis-tools, which redis-server brings along)", err)
	}
	ids := make(map[*Server]string)
	for _, s := range []*Server{from, to} {
		err := s.inst.ask(func(ctx context.Context, rdb *redis.Client) (err error) {
			ids[s], err = rdb.ClusterMyID(ctx).Result()
			return err
		})
		if err != nil {
			c.t.Fatalf("redistest: Reshard: %v", err)
		}
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(c.t.Context(), cli, "--cluster", "reshard", from.Addr,
		"--cluster-from", ids[from], "--cluster-to", ids[to],
		"--cluster-slots", strconv.Itoa(n), "--cluster-pipeline", "100", "--cluster-yes")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("redistest: Reshard: %v\n%s", err, lastLines(out.String(), 40))
	}
	if err := poll(startTimeout, func() error { return c.agree() }); err != nil {
		c.t.Fatalf("redistest: Reshard: %v", err)
	}
}

// agree is nil once all masters name the same owner for every slot, and no slot is
// on its way.
func (c *ClusterSet) agree() error {
	var first []string
	for i, node := range c.Nodes {
		var view []string
		err := node.inst.ask(func(ctx context.Context, rdb *redis.Client) error {
			text, err := rdb.ClusterNodes(ctx).Result()
			view = ownership(text)
			return err
		})
		switch {
		case err != nil:
			return err
		case i == 0:
			first = view
		case !slices.Equal(view, first):
			return fmt.Errorf("%s has another view of the slots: %q and %q", node.Addr, view, first)
		}
	}
	return nil
}

// ownership is the node and the slots of every line of CLUSTER NODES that has slots.
func ownership(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 8 {
			lines = append(lines, fields[0]+" "+strings.Join(fields[8:], " "))
		}
	}
	slices.Sort(lines)
	return lines
}
