package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// How to reach the server: plain, or by TLS with files that the test names.
func dialer() zk.Dialer {
	files := os.Getenv("ZOARIUM_TEST_TLS")
	if files == "" {
		return net.DialTimeout
	}
	authority, err := os.ReadFile(filepath.Join(files, "authority.pem"))
	must(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	expect("authority", config.RootCAs.AppendCertsFromPEM(authority), true)
	if key := os.Getenv("ZOARIUM_TEST_KEY"); key != "" {
		file := filepath.Join(files, key+".pem")
		pair, err := tls.LoadX509KeyPair(file, file)
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, config)
	}
}

// What only one identity may touch is its own again after a restart of the server.
func protected(address, entry string) {
	say("step connect")
	c := connect(address, 10*time.Second)
	c.make(base, "")
	say("step protected")
	scheme, id, _ := strings.Cut(entry, ":")
	if scheme == "digest" {
		must(c.AddAuth("digest", []byte("bob:secret")))
	}
	acl := []zk.ACL{{Perms: zk.PermAll, Scheme: scheme, ID: id}}
	path, mine := base+"/protected", base+"/mine"
	_, err := c.Create(path, []byte("treasure"), 0, acl)
	must(err)
	entries, _, err := c.GetACL(path)
	must(err)
	expect("acl", entries, acl)
	data, _ := c.read(path)
	expect("owner reads", data, "treasure")
	ask("stranger " + path)
	say("step restart")
	_, err = c.Create(mine, nil, zk.FlagEphemeral, acl)
	must(err)
	session := c.SessionID()
	ask("restart")
	c.await(zk.StateHasSession)
	expect("session", c.SessionID(), session)
	_, stat := c.read(mine)
	expect("its owner", stat.EphemeralOwner, session)
	data, _ = c.read(path)
	expect("owner still reads", data, "treasure")
	_, err = c.Set(path, []byte("more"), 0)
	must(err)
	ask("stranger " + path)
	say("step close")
	for _, name := range []string{mine, path, base} {
		must(c.Delete(name, -1))
	}
	c.Close()
	say("passed")
}
