package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/examples/internal/demotest"
)

// block returns the block of docs/kubernetes.md that begins with the name of a file.
func block(t *testing.T, file string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	demotest.Must(t, err)
	m := regexp.MustCompile("(?s)```yaml\n# " + regexp.QuoteMeta(file) + "\n(.*?)```").FindStringSubmatch(string(page))
	if m == nil {
		t.Fatalf("docs/kubernetes.md has no block %s", file)
	}
	return m[1]
}

// misfits returns the fields of a manifest that an example with all fields of the kind has not, or not with that type. at is
// the path of the manifest.
func misfits(at string, manifest, all any) (found []string) {
	switch all := all.(type) {
	case map[string]any:
		fields, ok := manifest.(map[string]any)
		if !ok {
			return []string{at + " is no mapping"}
		}
		free, isFree := all[at[strings.LastIndex(at, ".")+1:]+"Key"] // the example has one key, such as labelsKey
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			like, known := all[name]
			if isFree {
				like, known = free, true
			}
			if !known {
				found = append(found, at+"."+name+" is unknown")
				continue
			}
			found = append(found, misfits(at+"."+name, fields[name], like)...)
		}
	case []any:
		elements, ok := manifest.([]any)
		if !ok {
			return []string{at + " is no list"}
		}
		for i, element := range elements {
			found = append(found, misfits(fmt.Sprintf("%s[%d]", at, i), element, all[0])...)
		}
	default:
		if fmt.Sprintf("%T", manifest) != fmt.Sprintf("%T", all) {
			found = append(found, fmt.Sprintf("%s is a %T, want a %T", at, manifest, all))
		}
	}
	return found
}

// complete returns the example of a kind with all of its fields, with which Kubernetes tests its own formats. The Go types of
// that module would find the same mistakes, after 24 s of compilation.
func complete(t *testing.T, apiVersion, kind string) (all any) {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", "k8s.io/api@v0.37.2").Output()
	var module struct{ Dir, Error string }
	if json.Unmarshal(out, &module) != nil || err != nil {
		t.Fatalf("k8s.io/api: %v %s", err, module.Error)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "testdata", "HEAD", strings.ReplaceAll(apiVersion, "/", ".")+"."+kind+".yaml"))
	demotest.Must(t, err)
	demotest.Must(t, yaml.Unmarshal(text, &all))
	return all
}

// manifests returns the manifests of the page by their kinds.
func manifests(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	for text := range strings.SplitSeq(block(t, "shop.yaml"), "\n---\n") {
		var m map[string]any
		demotest.Must(t, yaml.Unmarshal([]byte(text), &m))
		all[m["kind"].(string)] = m
	}
	return all
}

// Each field of the manifests exists in Kubernetes, with that type.
func TestManifests_Fields(t *testing.T) {
	all := manifests(t)
	if len(all) != 2 {
		t.Fatalf("got the manifests %v, want a Deployment and a HorizontalPodAutoscaler", all)
	}
	for kind, m := range all {
		if found := misfits(kind, m, complete(t, m.(map[string]any)["apiVersion"].(string), kind)); len(found) > 0 {
			t.Errorf("got the mistakes\n%s", strings.Join(found, "\n"))
		}
	}
}

// Mistakes of manifests are found.
func TestMisfits(t *testing.T) {
	all := complete(t, "apps/v1", "Deployment")
	for text, want := range map[string]string{
		"spec: {replica: 3}":                                "Deployment.spec.replica is unknown",
		"spec: {replicas: '3'}":                             "Deployment.spec.replicas is a string, want a int",
		"spec: {template: [a]}":                             "Deployment.spec.template is no mapping",
		"metadata: {labels: {app: 1}}":                      "Deployment.metadata.labels.app is a int, want a string",
		"metadata: {labels: {app: shop}}":                   "",
		"spec: {template: {spec: {containers: {name: a}}}}": "Deployment.spec.template.spec.containers is no list",
		"spec: {template: {spec: {containers: [{name: a, env: [{name: A, value: 3}]}]}}}":                 "Deployment.spec.template.spec.containers[0].env[0].value is a int, want a string",
		"spec: {template: {spec: {containers: [{name: a, lifecycle: {preStop: {sleep: {second: 1}}}}]}}}": "Deployment.spec.template.spec.containers[0].lifecycle.preStop.sleep.second is unknown",
	} {
		var m any
		demotest.Must(t, yaml.Unmarshal([]byte(text), &m))
		if got := strings.Join(misfits("Deployment", m, all), "\n"); got != want {
			t.Errorf("%s: got the mistakes %q, want %q", text, got, want)
		}
	}
}
