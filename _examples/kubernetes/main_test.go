package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// A manifest has the fields of the manifests that concern the program.
type manifest struct {
	Metadata struct{ Name string }
	Spec     struct {
		ScaleTargetRef struct{ Kind, Name string }
		MinReplicas    int
		Selector       struct{ MatchLabels map[string]string }
		Template       struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				TerminationGracePeriodSeconds int
				Containers                    []container
				Volumes                       []struct {
					Name      string
					ConfigMap struct{ Name string }
				}
			}
		}
	}
}

// A container has the fields of a container that concern the program.
type container struct {
	Env []struct {
		Name, Value string
		ValueFrom   struct{ SecretKeyRef struct{ Name, Key string } }
	}
	Ports []struct {
		Name          string
		ContainerPort int
	}
	LivenessProbe, ReadinessProbe struct{ HTTPGet struct{ Path, Port string } }
	Lifecycle                     struct {
		PreStop struct{ Sleep struct{ Seconds int } }
	}
	VolumeMounts []struct{ Name, MountPath, SubPath string }
}

// decoded returns a manifest of the page.
func decoded(t *testing.T, kind string) (m manifest) {
	t.Helper()
	text, err := json.Marshal(manifests(t)[kind])
	demotest.Must(t, err)
	demotest.Must(t, json.Unmarshal(text, &m))
	return m
}

// The manifests agree with one another and with the server of the example.
func TestManifests_Names(t *testing.T) {
	deployment, scaler := decoded(t, "Deployment"), decoded(t, "HorizontalPodAutoscaler")
	pod := deployment.Spec.Template.Spec
	c := pod.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value + e.ValueFrom.SecretKeyRef.Key
	}
	for name, pair := range map[string][2]any{
		"the variables":          {slices.Sorted(maps.Keys(env)), []string{"ADDR", "INSTANCES", "LIMITS", "PROXIES", "REDIS_URL"}},
		"the port":               {":" + fmt.Sprint(c.Ports[0].ContainerPort), env["ADDR"]},
		"the port of liveness":   {c.LivenessProbe.HTTPGet.Port, c.Ports[0].Name},
		"the port of readiness":  {c.ReadinessProbe.HTTPGet.Port, c.Ports[0].Name},
		"the file":               {path.Join(c.VolumeMounts[0].MountPath, "limits.yaml"), env["LIMITS"]},
		"the folder":             {c.VolumeMounts[0].SubPath, ""},
		"the volume":             {c.VolumeMounts[0].Name, pod.Volumes[0].Name},
		"the ConfigMap":          {pod.Volumes[0].ConfigMap.Name, "shop-limits"},
		"the labels":             {deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Metadata.Labels},
		"the autoscaler":         {scaler.Spec.ScaleTargetRef.Kind + scaler.Spec.ScaleTargetRef.Name, "Deployment" + deployment.Metadata.Name},
		"the smallest number":    {fmt.Sprint(scaler.Spec.MinReplicas), env["INSTANCES"]},
		"the time of the server": {pod.TerminationGracePeriodSeconds > c.Lifecycle.PreStop.Sleep.Seconds+10, true}, // Shutdown takes up to 10 s
	} {
		if got, want := fmt.Sprint(pair[0]), fmt.Sprint(pair[1]); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// mount writes a file as a kubelet does: behind a symbolic link to a link that is replaced.
func mount(t *testing.T, dir, version, text string) {
	t.Helper()
	demotest.Must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
	demotest.Must(t, os.WriteFile(filepath.Join(dir, version, "limits.yaml"), []byte(text), 0o600))
	demotest.Must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
	demotest.Must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
}

// A pod with the environment of the Deployment limits a client behind the ingress, follows the ConfigMap, answers probes
// during an outage of Redis, and then enforces the part of a pod.
func TestPod(t *testing.T) {
	redis := redistest.NewServer(t)
	text, dir := block(t, "limits.yaml"), t.TempDir()
	mount(t, dir, "..1", text)
	demotest.Must(t, os.Symlink("..data/limits.yaml", filepath.Join(dir, "limits.yaml")))
	c := decoded(t, "Deployment").Spec.Template.Spec.Containers[0]
	env := []string{"REDIS_URL=redis://" + redis.Addr, "LIMITS=" + filepath.Join(dir, "limits.yaml"), "PROXIES=127.0.0.1"}
	for _, e := range c.Env {
		if e.Name == "INSTANCES" {
			env = append(env, "INSTANCES="+e.Value)
		}
	}
	p := demotest.Start(t, env...)
	client := "X-Forwarded-For: 203.0.113.9"
	policy := func() string { return p.Do(t, "GET", "/", client).Header.Get("RateLimit-Policy") }

	p.Do(t, "GET", "/", client).WantStatus(t, 200)
	if first, second := p.Do(t, "GET", "/", client).Remaining(t, "minute"), p.Do(t, "GET", "/", "X-Forwarded-For: 203.0.113.10").Remaining(t, "minute"); first != 98 || second != 99 {
		t.Errorf("got %d and %d left for two clients, want 98 and 99", first, second)
	}
	mount(t, dir, "..2", strings.Replace(text, "100/m", "90/m", 1))
	demotest.Until(t, "the ConfigMap is followed", func() bool { return policy() == `"minute";q=90;w=60` })
	mount(t, dir, "..3", strings.Replace(text, "100/m", "80/m, unheard-of: 1", 1))
	demotest.Until(t, "the log says that the program is older", func() bool {
		return strings.Contains(p.Output(), "update the program before its configuration")
	})

	demotest.Must(t, redis.Stop())
	for _, probe := range []string{c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path} {
		a := p.Do(t, "GET", probe)
		a.WantStatus(t, 200)
		a.WantField(t, "RateLimit-Policy", "")
	}
	demotest.Until(t, "the memory decides", func() bool { return policy() == `"minute";q=30;w=60` })
}

func TestHints(t *testing.T) {
	redis := redistest.NewServer(t)
	p := demotest.Start(t, "REDIS_URL=redis://"+redis.Addr, "LIMITS=../rules/limits.yaml")
	demotest.RunHints(t, p, `"minute";r=9`, "\nok\n")
}

func TestEnvironment_Mistakes(t *testing.T) {
	for name, value := range map[string]string{"REDIS_URL": "127.0.0.1", "PROXIES": "10.0.0.0/40", "INSTANCES": "0", "LIMITS": "none.yaml"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LIMITS", "../rules/limits.yaml")
			t.Setenv(name, value)
			if err := run(); err == nil || !strings.Contains(err.Error(), name) && !strings.Contains(err.Error(), value) {
				t.Errorf("got the error %v, want one about %s", err, value)
			}
		})
	}
}
