//! The fixtures of docs/EMBEDDING.md for tests in other languages, used as a test would use them.

use std::fs;
use std::process::Command;
use std::time::Duration;

use tests::{
    apache_class_path, find_tool, go_program, java_tool, junit_class_path, or_skip,
    path_with_zoarium, python_with_kazoo, run, source_dir,
};

use crate::block;
use crate::node::node;

const LIMIT: Duration = Duration::from_secs(300);

/// Runs a program that uses a fixture, and checks that it prints `done`.
fn uses(command: &mut Command) {
    prints("done", command);
}

/// Runs a program that starts `zoarium test-server`, and checks that it prints `expected`.
pub(crate) fn prints(expected: &str, command: &mut Command) {
    let output = run(command.env("PATH", path_with_zoarium()), LIMIT)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(output.contains(expected), "{output}");
}

const IN_PYTHON: &str = r#"
from kazoo.client import KazooClient

def test_made(zookeeper):
    client = KazooClient(hosts=zookeeper.connect_string)
    client.start(timeout=60)
    client.create("/made", b"by a test")
    leader = zookeeper.command("status")["leader"]
    zookeeper.command(f"kill {leader}")
    zookeeper.command("wait")
    assert client.retry(client.get, "/made")[0] == b"by a test"
    zookeeper.command("expire %d" % client.client_id[0])
    zookeeper.command(f"restart {leader}")
    client.stop()
    print("done")
"#;

#[test]
#[ignore = "runs other people's programs"]
fn pytest_has_servers() {
    let Some(python) = or_skip("pytest", python_with_kazoo()) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let program = block("EMBEDDING.md", "python") + IN_PYTHON;
    fs::write(directory.path().join("test_made.py"), program).expect("write");
    let mut test = Command::new(python);
    test.current_dir(&directory)
        .args(["-m", "pytest", "-s", "-p", "no:cacheprovider"]);
    uses(&mut test);
}

const IN_NODE: &str = r#"
zookeeper().then((server) => {
  const client = require("node-zookeeper-client").createClient(server.connectString);
  client.once("connected", () => {
    client.create("/made", async (error) => {
      if (error) throw error;
      await server.command("kill 1");
      await server.command("wait");
      const { leader } = await server.command("status");
      client.close();
      server.stop();
      console.log(leader > 1 ? "done" : "member 1 leads");
    });
  });
  client.connect();
});
"#;

#[test]
#[ignore = "runs other people's programs"]
fn node_has_servers() {
    let Some((node, dir)) = or_skip("the Node.js client", node()) else {
        return;
    };
    let program = block("EMBEDDING.md", "js") + IN_NODE;
    uses(Command::new(node).current_dir(dir).args(["-e", &program]));
}

const IN_GO: &str = r#"package app

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

func TestMade(t *testing.T) {
	servers, command := zookeeper(t)
	client, _, err := zk.Connect(strings.Split(servers, ","), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Create("/made", []byte("by a test"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	command("pause 1")
	command("wait")
	command("resume 1")
	t.Log("done")
}
"#;

#[test]
#[ignore = "runs other people's programs"]
fn go_has_servers() {
    // The Go client brings the modules.
    let Some(program) = or_skip("the Go client", go_program()) else {
        return;
    };
    let modules = program[0].parent().expect("a directory");
    let go = find_tool("go").expect("it has built the scenario");
    let directory = tempfile::tempdir().expect("a directory");
    for file in ["go.mod", "go.sum"] {
        let from = source_dir("go").join(file);
        fs::copy(from, directory.path().join(file)).expect("copy");
    }
    let fixture = block("EMBEDDING.md", "go");
    fs::write(directory.path().join("fixture_test.go"), fixture).expect("write");
    fs::write(directory.path().join("made_test.go"), IN_GO).expect("write");
    let mut test = Command::new(go);
    test.current_dir(&directory)
        .env("GOMODCACHE", modules.join("modules"))
        .env("GOCACHE", modules.join("cache"))
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "-modcacherw")
        .args(["test", "-v", "-count=1", "."]);
    uses(&mut test);
}

const IN_JAVA: &str = r#"
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

public class MadeTest {
    @RegisterExtension
    static ZoariumServer server = new ZoariumServer();

    @Test
    void made() throws Exception {
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(server.connectString, new RetryForever(100))) {
            client.start();
            client.create().forPath("/made", "by a test".getBytes());
            server.command("slow 50ms");
            server.command("kill 1");
            server.command("wait");
            assertEquals("by a test", new String(client.getData().forPath("/made")));
        }
        System.out.println("done");
    }
}
"#;

#[test]
#[ignore = "runs other people's programs"]
fn junit_has_servers() {
    let jars = apache_class_path().and_then(|apache| Ok((apache, junit_class_path()?)));
    let tools = jars.and_then(|jars| Ok((jars, java_tool("javac")?, java_tool("java")?)));
    let Some(((apache, junit), compiler, java)) = or_skip("JUnit", tools) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path();
    fs::write(
        place.join("ZoariumServer.java"),
        block("EMBEDDING.md", "java"),
    )
    .expect("write");
    fs::write(place.join("MadeTest.java"), IN_JAVA).expect("write");
    let class_path = format!("{apache}:{junit}:{}", place.display());
    let mut compile = Command::new(compiler);
    compile
        .current_dir(place)
        .args(["-nowarn", "-cp", &class_path, "-d", "."])
        .args(["ZoariumServer.java", "MadeTest.java"]);
    run(&mut compile, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let logging = source_dir("java").join("logback.xml");
    let mut test = Command::new(java);
    test.current_dir(place)
        .arg(format!("-Dlogback.configurationFile={}", logging.display()))
        .args([
            "-cp",
            &class_path,
            "org.junit.platform.console.ConsoleLauncher",
        ])
        .args([
            "execute",
            "--select-class",
            "MadeTest",
            "--fail-if-no-tests",
        ]);
    uses(&mut test);
}
