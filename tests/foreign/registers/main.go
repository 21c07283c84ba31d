// Reads and writes registers with go-zookeeper/zk. Its calls and replies are those of
// ../python/registers.py.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const connectLimit = 30 * time.Second

var refusals = map[error]int{zk.ErrBadVersion: -103, zk.ErrNodeExists: -110, zk.ErrNoNode: -101}

func answer(conn *zk.Conn, words []string) (int32, string, error) {
	path, last := words[1], words[2]
	switch words[0] {
	case "create":
		_, err := conn.Create(path, []byte(last), 0, zk.WorldACL(zk.PermAll))
		return 0, last, err
	case "read":
		if _, err := conn.Set(last, nil, -1); err != nil {
			return 0, "", err
		}
		data, stat, err := conn.Get(path)
		if err != nil {
			return 0, "", err
		}
		return stat.Version, string(data), nil
	}
	expected, err := strconv.Atoi(words[3])
	if err != nil {
		return 0, "", err
	}
	stat, err := conn.Set(path, []byte(last), int32(expected))
	if err != nil {
		return 0, "", err
	}
	return stat.Version, last, nil
}

func reply(conn *zk.Conn, line string) {
	version, data, err := answer(conn, strings.Fields(line))
	if err == nil {
		fmt.Println("ok", version, data)
		return
	}
	for refusal, code := range refusals {
		if errors.Is(err, refusal) {
			fmt.Println("refused", code)
			return
		}
	}
	fmt.Println("unknown", err)
}

func main() {
	log.SetOutput(io.Discard)
	timeout, err := strconv.Atoi(os.Args[2])
	if err != nil {
		os.Exit(2)
	}
	servers := strings.Split(os.Args[1], ",")
	conn, events, err := zk.Connect(servers, time.Duration(timeout)*time.Millisecond)
	if err != nil {
		os.Exit(1)
	}
	limit := time.After(connectLimit)
	for isReady := false; !isReady; {
		select {
		case event := <-events:
			isReady = event.State == zk.StateHasSession
		case <-limit:
			os.Exit(1)
		}
	}
	go func() {
		for range events {
		}
	}()
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		reply(conn, lines.Text())
	}
	conn.Close()
}
