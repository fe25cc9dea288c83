package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

const (
	shopRules = "policies: {checkout: {rules: [{name: r, algorithm: token_bucket, limit: 10/m}]}}"
	blogRules = "policies: {comments: {rules: [{name: r, algorithm: token_bucket, limit: 5/m}]}}"
)

// Without a name, a command that reads takes the only application in Redis, and no other command does.
func TestRules_Apps(t *testing.T) {
	t.Setenv("WEIR_APP", "")
	server := redistest.NewServer(t)
	files(t)
	write(t, "shop.yaml", shopRules)
	write(t, "blog.yaml", blogRules)
	flags := "-redis redis://" + server.Addr
	for _, key := range []string{"weir:{N3Jh0bO7eS3y5cQ4kz1mGA}t2:60:api", "weir:a:b:{N3Jh0bO7eS3y5cQ4kz1mGA}t2:60:api", "weir::rules", "x:rules", strings.Repeat("é", 17) + ":shop:{N3Jh0bO7eS3y5cQ4kz1mGA}t2:60:api"} { // of none
		testkit.Must(t, server.Client().Set(t.Context(), key, "", 0).Err())
	}
	const none = "weir: the flag -app or WEIR_APP has to name the application"
	runSteps(t, flags, []step{
		{"get", 1, "", none + ", as its programs do in resilient.New or redisstore.New; none was found in Redis"},
		{"put shop.yaml", 1, "", none},
		{"put -app shop shop.yaml", 0, "checkout.r: added (token_bucket 10/m)\npolicy checkout: added\n", ""},
		{"get", 0, shopRules, `weir: note: the application is "shop", the only one in Redis`},
		{"block checkout k", 1, "", none + ", as its programs do in resilient.New or redisstore.New; in Redis there is \"shop\""},
		{"put -app blog blog.yaml", 0, "comments.r: added (token_bucket 5/m)\npolicy comments: added\n", ""},
		{"get -app shop", 0, shopRules, ""},
		{"get", 1, "", `there is "blog" and "shop"`},
		{"block -app shop checkout k", 0, "{blocked: true}\n", ""},
		{"get -app shop checkout k", 0, "{blocked: true}\n", ""},
		{"get -app blog comments k", 0, "{}\n", `weir: note: no event and no override of the key "k"`},
		{"get -app b:c", 1, "", `weir: the name of the application is "b:c"`},
		{"get -app " + strings.Repeat("a", 27), 1, "", "weir: the prefix and the name of the application are longer than 31 bytes"},
		{"get -prefix other: -app shop", 1, "", `weir: note: no key in Redis has the prefix "other:shop:"; there is "weir:" and "weir:a:b:" and "weir:shop:"`},
	}...)
	var stdout, stderr strings.Builder
	if status := run([]string{"doctor", "-redis", "redis://" + server.Addr}, &stdout, &stderr); status != 1 || !strings.HasPrefix(stderr.String(), none) {
		t.Errorf("doctor: got status %d and %q", status, &stderr)
	}
}

// The key of an operator who is wrong about the application is known elsewhere.
func TestRules_OtherApp(t *testing.T) {
	server := redistest.NewServer(t)
	files(t)
	write(t, "shop.yaml", shopRules)
	l, err := core.New(redisstore.New(server.Client(), "shop"), core.TokenBucket("checkout.r", core.PerMinute(10)))
	testkit.Must(t, err)
	_, err = l.Allow(t.Context(), "k")
	testkit.Must(t, err)
	runSteps(t, "-config shop.yaml -redis redis://"+server.Addr,
		step{"usage -app blog checkout k", 0, usageOf(t, server.Addr), `weir: note: the key has events of the application "shop": see -app`})
}

// usageOf returns the output of usage for a key without events.
func usageOf(t *testing.T, addr string) string {
	t.Helper()
	var stdout strings.Builder
	if status := run([]string{"rules", "-config", "shop.yaml", "-redis", "redis://" + addr, "usage", "-app", "shop", "checkout", "unused"}, &stdout, io.Discard); status != 0 {
		t.Fatalf("got status %d", status)
	}
	return stdout.String()
}

// A put shows the changes, removes nothing without a flag, and replaces the version that it has shown.
func TestRules_Put(t *testing.T) {
	server := redistest.NewServer(t)
	files(t)
	write(t, "shop.yaml", shopRules)
	write(t, "blog.yaml", blogRules)
	write(t, "both.yaml", strings.TrimSuffix(shopRules, "}")+", "+strings.TrimPrefix(blogRules, "policies: {"))
	flags := "-redis redis://" + server.Addr
	version := func() string {
		v, err := server.Client().HGet(t.Context(), "weir:test:rules", "version").Result()
		testkit.Must(t, err)
		return v
	}
	runSteps(t, flags, []step{
		{"put -if-version abc shop.yaml", 1, "", "weir: the configuration in Redis has another version: none, not abc; nothing is written"},
		{"put -if-version= shop.yaml", 2, "", "the version is empty; without a configuration it is none"},
		{"put -if-version none shop.yaml", 0, "checkout.r: added (token_bucket 10/m)\npolicy checkout: added\n", ""},
		{"put -if-version none shop.yaml", 1, "", "not none; nothing is written"},
		{"put blog.yaml", 1, "comments.r: added (token_bucket 5/m)\npolicy checkout: removed\npolicy comments: added\n", `weir: the file does not have the policies "checkout" of the application "test", which -remove removes; nothing is written`},
		{"get", 0, shopRules, ""},
	}...)
	first := version()
	runSteps(t, flags, []step{
		{"put -if-version " + first + " both.yaml", 0, "comments.r: added (token_bucket 5/m)\npolicy comments: added\n", ""},
		{"put -if-version " + first + " shop.yaml -remove", 1, "", "not " + first + "; nothing is written"},
		{"put blog.yaml -remove", 0, "policy checkout: removed\n", ""},
		{"get", 0, blogRules, "note: version "},
	}...)
	// A configuration that this command cannot read is not replaced without -remove.
	testkit.Must(t, server.Client().HSet(t.Context(), "weir:test:rules", "text", strings.Replace(blogRules, "name: r", "name: r, new_field: 3", 1), "version", "newer").Err())
	runSteps(t, flags, []step{
		{"put shop.yaml", 1, "", "which cannot show what is removed"},
		{"get", 0, strings.Replace(blogRules, "name: r", "name: r, new_field: 3", 1), ""},
		{"put -remove blog.yaml", 0, "comments.r: added (token_bucket 5/m)\npolicy comments: added\n", "weir: the configuration in Redis was invalid; it is replaced"},
	}...)
	t.Cleanup(func() { stdin, terminal = strings.NewReader(""), func() bool { return false } })
	for answer, written := range map[string]bool{"": false, "n\n": false, "yes\n": true, "Y\n": true} {
		stdin, terminal = strings.NewReader(answer), func() bool { return true }
		before, file := version(), "shop.yaml"
		if before == first {
			file = "blog.yaml"
		}
		var stdout, stderr strings.Builder
		status := run(strings.Fields("rules put -remove "+flags+" "+file), &stdout, &stderr)
		if (status == 0) != written || (version() != before) != written || !strings.Contains(stderr.String(), `write this for the application "test"? [y/N] `) {
			t.Errorf("answer %q: got status %d and %q", answer, status, &stderr)
		}
	}
	// Another operator writes while the command asks.
	stdin, terminal = slowAnswer{func() {
		testkit.Must(t, server.Client().HSet(t.Context(), "weir:test:rules", "text", shopRules, "version", "other").Err())
	}}, func() bool { return true }
	var stdout, stderr strings.Builder
	if status := run(strings.Fields("rules put -remove "+flags+" both.yaml"), &stdout, &stderr); status != 1 || !strings.Contains(stderr.String(), "the configuration in Redis has another version") || version() != "other" {
		t.Errorf("got status %d and %q", status, &stderr)
	}
}

// A slowAnswer is a terminal at which something happens before the answer.
type slowAnswer struct{ meanwhile func() }

func (a slowAnswer) Read(b []byte) (int, error) {
	a.meanwhile()
	return copy(b, "y\n"), errors.New("end")
}
