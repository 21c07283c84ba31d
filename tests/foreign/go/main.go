// The common scenario with go-zookeeper/zk; see tests/src/scenario.rs for what is said to whom.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const base = "/go"

var open = zk.WorldACL(zk.PermAll)

type client struct {
	*zk.Conn
	states <-chan zk.Event
}

func connect(address string, timeout time.Duration) client {
	conn, events, err := zk.Connect([]string{address}, timeout, zk.WithDialer(dialer()))
	must(err)
	// The library drops an event for which its small buffer has no room.
	states := make(chan zk.Event, 1000)
	go func() {
		for event := range events {
			if event.Type == zk.EventSession {
				states <- event
			}
		}
	}()
	c := client{conn, states}
	c.await(zk.StateHasSession)
	return c
}

// Waits for a state of the connection; losing the session is a failure.
func (c client) await(state zk.State) {
	limit := time.After(patience)
	for {
		select {
		case event := <-c.states:
			if event.State == zk.StateExpired {
				fail("the session expired")
			}
			if event.State == state {
				return
			}
		case <-limit:
			fail("no state %v", state)
		}
	}
}

func (c client) make(path, data string) {
	made, err := c.Create(path, []byte(data), 0, open)
	must(err)
	expect("created path", made, path)
}

func (c client) read(path string) (string, *zk.Stat) {
	data, stat, err := c.Get(path)
	must(err)
	return string(data), stat
}

func (c client) exists(path string) bool {
	there, _, err := c.Exists(path)
	must(err)
	return there
}

func (c client) children(path string) []string {
	names, _, err := c.Children(path)
	must(err)
	sort.Strings(names)
	return names
}

func createRead(c client) {
	path := base + "/node"
	c.make(path, "first")
	data, stat := c.read(path)
	expect("data", data, "first")
	expect("version", stat.Version, int32(0))
	expect("dataLength", stat.DataLength, int32(5))
	expect("ephemeralOwner", stat.EphemeralOwner, int64(0))
	expect("czxid is mzxid", stat.Czxid, stat.Mzxid)
	there, again, err := c.Exists(path)
	must(err)
	expect("exists", there, true)
	expect("stat", again, stat)
	expect("exists of nothing", c.exists(base+"/nothing"), false)
	_, _, err = c.Get(base + "/nothing")
	expect("get of nothing", err, zk.ErrNoNode)
	_, err = c.Create(base+"/nothing/below", nil, 0, open)
	expect("create below nothing", err, zk.ErrNoNode)
	_, err = c.Create(path, nil, 0, open)
	expect("create twice", err, zk.ErrNodeExists)
	_, err = c.CreateContainer(base+"/container", nil, zk.FlagContainer, open)
	must(err)
	_, err = c.CreateTTL(base+"/ttl", nil, zk.FlagTTL, open, time.Hour)
	must(err)
	large := strings.Repeat("0123456789", 80_000)
	c.make(base+"/large", large)
	data, _ = c.read(base + "/large")
	expect("large data", data == large, true)
}

func versions(c client) {
	path := base + "/node"
	stat, err := c.Set(path, []byte("second"), 0)
	must(err)
	expect("version", stat.Version, int32(1))
	expect("later mzxid", stat.Mzxid > stat.Czxid, true)
	_, err = c.Set(path, []byte("third"), 0)
	expect("bad version", err, zk.ErrBadVersion)
	data, _ := c.read(path)
	expect("data", data, "second")
	stat, err = c.Set(path, []byte("third"), -1)
	must(err)
	expect("any version", stat.Version, int32(2))
	expect("delete", c.Delete(path, 1), zk.ErrBadVersion)
	must(c.Delete(path, 2))
	expect("deleted", c.exists(path), false)
	expect("delete again", c.Delete(path, -1), zk.ErrNoNode)
}

func children(c client) {
	path := base + "/parent"
	c.make(path, "")
	for _, name := range []string{"b", "a", "c"} {
		c.make(path+"/"+name, "")
	}
	names, stat, err := c.Children(path)
	must(err)
	sort.Strings(names)
	expect("children", names, []string{"a", "b", "c"})
	expect("numChildren", stat.NumChildren, int32(3))
	expect("cversion", stat.Cversion, int32(3))
	expect("delete a parent", c.Delete(path, -1), zk.ErrNotEmpty)
	must(c.Delete(path+"/b", -1))
	expect("children left", c.children(path), []string{"a", "c"})
	expect("no children", len(c.children(path+"/a")), 0)
}

func sequence(c client) {
	path := base + "/queue"
	c.make(path, "")
	for number := 0; number < 3; number++ {
		made, err := c.Create(path+"/item-", nil, zk.FlagSequence, open)
		must(err)
		expect("sequence node", made, fmt.Sprintf("%s/item-%010d", path, number))
	}
	must(c.Delete(path+"/item-0000000002", -1))
	made, err := c.Create(path+"/", nil, zk.FlagSequence|zk.FlagEphemeral, open)
	must(err)
	expect("number not used again", made, path+"/0000000003")
	must(c.Delete(made, -1))
	made, err = c.CreateProtectedEphemeralSequential(path+"/item-", nil, open)
	must(err)
	expect("protected node", strings.HasSuffix(made, "-item-0000000004"), true)
	must(c.Delete(made, -1))
}

func ephemeralClosed(c client, address string) {
	path := base + "/ephemeral"
	other := connect(address, 10*time.Second)
	_, err := other.Create(path, nil, zk.FlagEphemeral, open)
	must(err)
	_, err = other.Create(path+"/child", nil, 0, open)
	expect("child of an ephemeral", err, zk.ErrNoChildrenForEphemerals)
	_, stat, events, err := c.ExistsW(path)
	must(err)
	expect("owner", stat.EphemeralOwner, other.SessionID())
	other.Close()
	expectEvent(events, zk.EventNodeDeleted, path)
	expect("node of a closed session", c.exists(path), false)
}

func ephemeralExpired(c client) {
	path := base + "/held"
	ask("hold " + path)
	_, stat, events, err := c.ExistsW(path)
	must(err)
	owner := stat.EphemeralOwner
	expect("another's", owner != 0 && owner != c.SessionID(), true)
	ask("kill-holder")
	expectEvent(events, zk.EventNodeDeleted, path)
	expect("node of an expired session", c.exists(path), false)
}

func watches(c client) {
	path := base + "/watched"
	there, _, events, err := c.ExistsW(path)
	must(err)
	expect("not there yet", there, false)
	c.make(path, "0")
	expectEvent(events, zk.EventNodeCreated, path)
	for _, value := range []string{"1", "2"} {
		_, _, events, err = c.GetW(path)
		must(err)
		_, err = c.Set(path, []byte(value), -1)
		must(err)
		expectEvent(events, zk.EventNodeDataChanged, path)
	}
	for _, name := range []string{"/one", "/two"} {
		_, _, events, err = c.ChildrenW(path)
		must(err)
		c.make(path+name, "")
		expectEvent(events, zk.EventNodeChildrenChanged, path)
	}
	must(c.Delete(path+"/one", -1))
	must(c.Delete(path+"/two", -1))
	_, _, events, err = c.GetW(path)
	must(err)
	must(c.Delete(path, -1))
	expectEvent(events, zk.EventNodeDeleted, path)
}

func multi(c client) {
	path := base + "/multi"
	results, err := c.Multi(
		&zk.CreateRequest{Path: path, Data: []byte{}, Acl: open},
		&zk.CreateRequest{Path: path + "/a", Data: []byte("1"), Acl: open},
		&zk.CheckVersionRequest{Path: path, Version: 0},
		&zk.SetDataRequest{Path: path + "/a", Data: []byte("2"), Version: 0},
		&zk.CreateRequest{Path: path + "/s-", Acl: open, Flags: zk.FlagSequence},
		&zk.DeleteRequest{Path: path + "/a", Version: 1},
	)
	must(err)
	expect("results", len(results), 6)
	expect("made", results[1].String, path+"/a")
	expect("set", results[3].Stat.Version, int32(1))
	expect("sequence", results[4].String, path+"/s-0000000001")
	expect("children", c.children(path), []string{"s-0000000001"})

	results, err = c.Multi(
		&zk.CreateRequest{Path: path + "/b", Acl: open},
		&zk.SetDataRequest{Path: path, Data: []byte("no"), Version: 7},
		&zk.CreateRequest{Path: path + "/c", Acl: open},
	)
	expect("failing multi", err, zk.ErrBadVersion)
	expect("nothing of it happened", c.children(path), []string{"s-0000000001"})
	data, _ := c.read(path)
	expect("data", data, "")
}

func acl(c client, address string) {
	path := base + "/secret"
	owner := connect(address, 10*time.Second)
	must(owner.AddAuth("digest", []byte("bob:secret")))
	entry := zk.DigestACL(zk.PermAll, "bob", "secret")
	_, err := owner.Create(path, []byte("treasure"), 0, zk.AuthACL(zk.PermAll))
	must(err)
	entries, stat, err := owner.GetACL(path)
	must(err)
	expect("acl", entries, entry)
	expect("aversion", stat.Aversion, int32(0))
	data, _ := owner.read(path)
	expect("owner reads", data, "treasure")
	denied := func(what string) {
		_, _, err := c.Get(path)
		expect("read "+what, err, zk.ErrNoAuth)
		_, err = c.Set(path, nil, -1)
		expect("write "+what, err, zk.ErrNoAuth)
		_, err = c.Create(path+"/child", nil, 0, open)
		expect("create "+what, err, zk.ErrNoAuth)
		_, err = c.SetACL(path, open, -1)
		expect("setACL "+what, err, zk.ErrNoAuth)
	}
	denied("without authentication")
	must(c.AddAuth("digest", []byte("eve:guess")))
	denied("as another user")
	reader := zk.DigestACL(zk.PermRead, "eve", "guess")
	stat, err = owner.SetACL(path, append(entry, reader...), 0)
	must(err)
	expect("aversion", stat.Aversion, int32(1))
	data, _ = c.read(path)
	expect("allowed now", data, "treasure")
	_, err = c.Set(path, nil, -1)
	expect("only reading", err, zk.ErrNoAuth)
	must(owner.Delete(path, -1))
	owner.Close()
}

func lock(c client, address string) {
	other := connect(address, 10*time.Second)
	mine := zk.NewLock(c.Conn, base+"/lock", open)
	theirs := zk.NewLock(other.Conn, base+"/lock", open)
	must(mine.Lock())
	got := make(chan error, 1)
	go func() { got <- theirs.Lock() }()
	for len(c.children(base+"/lock")) < 2 {
		select {
		case err := <-got:
			fail("the lock was given twice: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	must(mine.Unlock())
	select {
	case err := <-got:
		must(err)
	case <-time.After(patience):
		fail("the lock was not passed on")
	}
	must(theirs.Unlock())
	other.Close()
}

// A restart of the server keeps the session, its ephemeral node, its watches and all data.
func reconnect(c client, how string) {
	path, kept := base+"/"+how+"-ephemeral", base+"/"+how+"-kept"
	_, err := c.Create(path, []byte("mine"), zk.FlagEphemeral, open)
	must(err)
	c.make(kept, "kept")
	_, written, events, err := c.ExistsW(kept)
	must(err)
	session := c.SessionID()
	ask(how)
	c.await(zk.StateHasSession)
	expect("session", c.SessionID(), session)
	data, stat := c.read(path)
	expect("data of the ephemeral node", data, "mine")
	expect("its owner", stat.EphemeralOwner, session)
	data, stat = c.read(kept)
	expect("data kept", data, "kept")
	expect("stat kept", stat, written)
	_, err = c.Set(kept, []byte("more"), 0)
	must(err)
	expectEvent(events, zk.EventNodeDataChanged, kept)
}

func closeSession(c client, address string) {
	other := connect(address, 10*time.Second)
	path := base + "/restart-ephemeral"
	_, stat, events, err := other.ExistsW(path)
	must(err)
	expect("owner", stat.EphemeralOwner, c.SessionID())
	c.Close()
	expectEvent(events, zk.EventNodeDeleted, path)
	other.remove(base)
	expect("cleaned", other.exists(base), false)
	other.Close()
}

func (c client) remove(path string) {
	for _, name := range c.children(path) {
		c.remove(path + "/" + name)
	}
	// An ephemeral node may go by itself meanwhile.
	if err := c.Delete(path, -1); err != zk.ErrNoNode {
		must(err)
	}
}

func scenario(address string) {
	say("step connect")
	c := connect(address, 10*time.Second)
	c.make(base, "")
	steps := []struct {
		name string
		run  func()
	}{
		{"create-read", func() { createRead(c) }},
		{"versions", func() { versions(c) }},
		{"children", func() { children(c) }},
		{"sequence", func() { sequence(c) }},
		{"ephemeral-closed", func() { ephemeralClosed(c, address) }},
		{"ephemeral-expired", func() { ephemeralExpired(c) }},
		{"watches", func() { watches(c) }},
		{"multi", func() { multi(c) }},
		{"acl", func() { acl(c, address) }},
		{"lock", func() { lock(c, address) }},
		{"restart", func() { reconnect(c, "restart") }},
		{"crash", func() { reconnect(c, "crash") }},
		{"close", func() { closeSession(c, address) }},
	}
	for _, step := range steps {
		say("step %s", step.name)
		step.run()
	}
	say("passed")
}

func main() {
	defer func() {
		if reason := recover(); reason != nil {
			say("failed %v", reason)
			os.Exit(1)
		}
	}()
	if len(os.Args) == 4 && os.Args[2] == "hold" {
		c := connect(os.Args[1], 2*time.Second)
		_, err := c.Create(os.Args[3], nil, zk.FlagEphemeral, open)
		must(err)
		say("holding")
		select {}
	}
	if len(os.Args) == 4 && os.Args[2] == "protected" {
		protected(os.Args[1], os.Args[3])
		return
	}
	scenario(os.Args[1])
}
