package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// How long anything may take that is expected to happen.
const patience = 30 * time.Second

var input = bufio.NewReader(os.Stdin)

// The panic of an expectation that did not hold.
type failure string

func fail(format string, args ...interface{}) {
	panic(failure(fmt.Sprintf(format, args...)))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(what string, got, wanted interface{}) {
	if !reflect.DeepEqual(got, wanted) {
		fail("%s: %v instead of %v", what, got, wanted)
	}
}

func say(format string, args ...interface{}) {
	fmt.Printf(format+"\n", args...)
}

// Asks the test for something (see tests/src/scenario.rs) and waits until it is done.
func ask(request string) {
	say("ask %s", request)
	answer, err := input.ReadString('\n')
	must(err)
	expect("answer to "+request, strings.TrimSpace(answer), "done")
}

func expectEvent(events <-chan zk.Event, kind zk.EventType, path string) {
	select {
	case event := <-events:
		must(event.Err)
		expect("event", event.Type, kind)
		expect("its path", event.Path, path)
	case <-time.After(patience):
		fail("no event %v of %s", kind, path)
	}
}
