// Judges the histories of registers with porcupine, a checker that shares no code with this
// project.
//
// Usage: porcupine SECONDS HISTORY. It reads history.jsonl of a run, and prints one line:
//
//	valid 120 keys 24000 calls
//	invalid key r0-3-1 of 120 keys 24000 calls
//	unknown 2 of 120 keys 24000 calls
//
// SECONDS limits the search for each key. The exit code is 0 for a verdict, and 1 for a file that is
// not a history of registers.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// An event as src/history.rs describes it.
type event struct {
	Index   int64           `json:"index"`
	Process json.RawMessage `json:"process"`
	Type    string          `json:"type"`
	F       string          `json:"f"`
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Error   string          `json:"error"`
}

// A call of a register.
type call struct {
	id       int
	f        string
	expected int64
	value    int64
	// The version after the call, or of a read. Negative if the outcome is unknown.
	version int64
	// The version was different from the expected one.
	isRefused bool
	// The calls that are known to have made versions.
	makers map[int64]int
}

type state struct {
	version, value int64
}

func (c call) isKnown() bool { return c.version >= 0 }

// The next state, if the call can happen in this state.
func step(from state, c call) (bool, state) {
	next := state{from.version + 1, c.value}
	switch {
	case c.f == "read":
		return from == state{c.version, c.value}, from
	case c.isRefused:
		return from.version != c.expected, from
	case c.isKnown():
		return c.version == next.version && (c.f == "write" || c.expected == from.version), next
	case c.f == "cas" && c.expected != from.version:
		// It was not executed, or is refused.
		return true, from
	}
	// The outcome is unknown. Another call may be known to have made this version.
	maker, isTaken := c.makers[next.version]
	return !isTaken || maker == c.id, next
}

var model = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: func(from, input, _ interface{}) (bool, interface{}) {
		return step(from.(state), input.(call))
	},
	Equal: func(one, other interface{}) bool { return one == other },
}

// Calls that have begun, and the calls of one key in the order of their beginnings.
type history struct {
	open map[string]*porcupine.Operation
	keys map[string][]*porcupine.Operation
}

func numbers(text json.RawMessage) ([]int64, error) {
	var pair []int64
	if err := json.Unmarshal(text, &pair); err != nil {
		var one int64
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, err
		}
		pair = []int64{one}
	}
	return pair, nil
}

func (h *history) begin(e event, process string) error {
	c := call{f: e.F, version: -1, id: int(e.Index)}
	switch e.F {
	case "read":
	case "write":
		arguments, err := numbers(e.Value)
		if err != nil || len(arguments) != 1 {
			return fmt.Errorf("event %d has no data", e.Index)
		}
		c.value = arguments[0]
	case "cas":
		arguments, err := numbers(e.Value)
		if err != nil || len(arguments) != 2 {
			return fmt.Errorf("event %d has no version and data", e.Index)
		}
		c.expected, c.value = arguments[0], arguments[1]
	default:
		return fmt.Errorf("event %d: %q is not a call of a register", e.Index, e.F)
	}
	client, _ := strconv.Atoi(process)
	// A call with an unknown outcome may happen at any later time.
	op := &porcupine.Operation{ClientId: client, Input: c, Call: e.Index, Return: math.MaxInt64}
	h.open[process] = op
	h.keys[e.Key] = append(h.keys[e.Key], op)
	return nil
}

func (h *history) end(e event, process string) error {
	op, isOpen := h.open[process]
	if !isOpen {
		return fmt.Errorf("event %d ends no call", e.Index)
	}
	delete(h.open, process)
	c := op.Input.(call)
	switch {
	case e.Type == "info":
		return nil
	case e.Type == "ok":
		answer, err := numbers(e.Value)
		if err != nil || len(answer) != 2 {
			return fmt.Errorf("event %d has no version and data", e.Index)
		}
		c.version, c.value = answer[0], answer[1]
	case c.f == "cas" && strings.Contains(e.Error, "(-103)"):
		c.isRefused = true
	default:
		// It did not happen, and reveals nothing.
		c.f = ""
	}
	op.Input, op.Return = c, e.Index
	return nil
}

// The calls that matter, with the makers of versions that are certain.
func relevant(all []*porcupine.Operation) []porcupine.Operation {
	makers, byValue := map[int64]int{}, map[int64]int{}
	for _, op := range all {
		c := op.Input.(call)
		if c.f == "write" || c.f == "cas" {
			byValue[c.value] = c.id
			if c.isKnown() {
				makers[c.version] = c.id
			}
		}
	}
	// A read shows who has made its version, because each write of a run has different data.
	for _, op := range all {
		if c := op.Input.(call); c.f == "read" && c.isKnown() {
			if maker, isWritten := byValue[c.value]; isWritten {
				if _, isTaken := makers[c.version]; !isTaken {
					makers[c.version] = maker
				}
			}
		}
	}
	var calls []porcupine.Operation
	for _, op := range all {
		c := op.Input.(call)
		if c.f == "" || (c.f == "read" && !c.isKnown()) {
			continue
		}
		c.makers = makers
		op.Input = c
		calls = append(calls, *op)
	}
	return calls
}

func read(path string) (*history, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h := &history{map[string]*porcupine.Operation{}, map[string][]*porcupine.Operation{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		process := string(e.Process)
		// A name is a text. Clients have numbers.
		if strings.HasPrefix(process, "\"") {
			continue
		}
		if e.Type == "invoke" {
			err = h.begin(e, process)
		} else {
			err = h.end(e, process)
		}
		if err != nil {
			return nil, err
		}
	}
	return h, lines.Err()
}

func run(limit time.Duration, path string) error {
	h, err := read(path)
	if err != nil {
		return err
	}
	var names []string
	for name := range h.keys {
		names = append(names, name)
	}
	sort.Strings(names)
	calls, unknown, invalid := 0, 0, ""
	for _, name := range names {
		ops := relevant(h.keys[name])
		calls += len(ops)
		switch porcupine.CheckOperationsTimeout(model, ops, limit) {
		case porcupine.Illegal:
			if invalid == "" {
				invalid = name
			}
		case porcupine.Unknown:
			unknown++
		}
	}
	of := fmt.Sprintf("%d keys %d calls", len(names), calls)
	switch {
	case invalid != "":
		fmt.Println("invalid key", invalid, "of", of)
	case unknown > 0:
		fmt.Println("unknown", unknown, "of", of)
	default:
		fmt.Println("valid", of)
	}
	return nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: porcupine SECONDS HISTORY")
		os.Exit(2)
	}
	seconds, err := strconv.Atoi(os.Args[1])
	if err == nil {
		err = run(time.Duration(seconds)*time.Second, os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
