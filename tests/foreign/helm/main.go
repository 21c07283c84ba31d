// Lints a chart as `helm lint --strict` does, renders it, decodes what it makes by the types of
// Kubernetes (an unknown or misplaced field is an error), and prints the objects as a JSON array.
//
//	render CHART NAME NAMESPACE [VALUE.PATH=VALUE]...
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/strvals"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: render CHART NAME NAMESPACE [VALUE.PATH=VALUE]..."))
	}
	dir, name, namespace := os.Args[1], os.Args[2], os.Args[3]
	values := map[string]interface{}{}
	for _, text := range os.Args[4:] {
		check(strvals.ParseInto(text, values))
	}
	lintChart(dir, namespace, values)
	chart, err := loader.Load(dir)
	check(err)
	options := chartutil.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, nil)
	check(err)
	rendered, err := engine.Engine{Strict: true}.Render(chart, all)
	check(err)
	objects, err := json.MarshalIndent(decode(rendered), "", " ")
	check(err)
	fmt.Println(string(objects))
}

func lintChart(dir, namespace string, values map[string]interface{}) {
	for _, message := range lint.All(dir, values, namespace, true).Messages {
		if message.Severity >= support.WarningSev {
			fail(fmt.Errorf("lint: %v", message))
		}
	}
}

func decode(rendered map[string]string) []interface{} {
	var files []string
	for file := range rendered {
		if strings.HasSuffix(file, ".yaml") {
			files = append(files, file)
		}
	}
	sort.Strings(files)
	var objects []interface{}
	for _, file := range files {
		for _, text := range strings.Split(rendered[file], "\n---\n") {
			if object := decodeOne(file, text); object != nil {
				objects = append(objects, object)
			}
		}
	}
	return objects
}

func decodeOne(file, text string) interface{} {
	var kind struct{ APIVersion, Kind string }
	check(yaml.Unmarshal([]byte(text), &kind))
	var object interface{}
	switch kind.APIVersion + " " + kind.Kind {
	case " ":
		return nil
	case "apps/v1 StatefulSet":
		object = &apps.StatefulSet{}
	case "v1 Service":
		object = &core.Service{}
	case "policy/v1 PodDisruptionBudget":
		object = &policy.PodDisruptionBudget{}
	default:
		fail(fmt.Errorf("%s: nobody knows %s %s", file, kind.APIVersion, kind.Kind))
	}
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		fail(fmt.Errorf("%s: %w\n%s", file, err, text))
	}
	return object
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
