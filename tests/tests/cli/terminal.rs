//! A person at a terminal: completion, live events, the prompt.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, Create, Options};
use proto::request::{Request, flags};
use rustix::process::{Pid, Signal};
use tests::requests::create;
use tests::secrets::CAROL;
use tests::{Flavour, RawSession, Server, or_skip, terminal_pair, wait_for, zoarium_binary};

/// The shell at a separate terminal.
struct Terminal {
    keys: File,
    screen: Arc<Mutex<String>>,
    child: Child,
    home: tempfile::TempDir,
}

impl Terminal {
    fn start(server: &Server) -> Terminal {
        Terminal::start_with(server, &[])
    }

    /// Starts the shell with a command.
    fn start_with(server: &Server, words: &[&str]) -> Terminal {
        Terminal::start_program(&[&["cli", "-server", &server.address()], words].concat())
    }

    /// Starts any command of the program.
    fn start_program(words: &[&str]) -> Terminal {
        let (keys, open) = terminal_pair();
        let home = tempfile::tempdir().expect("a home");
        let child = Command::new(zoarium_binary())
            .args(words)
            .env("TERM", "xterm")
            .env("HOME", home.path())
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .expect("start the shell");
        let mut reader = keys.try_clone().expect("a second handle");
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal ends with the shell.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                shown.lock().expect("no panic there").push_str(&text);
            }
        });
        Terminal {
            keys,
            screen,
            child,
            home,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("type");
    }

    /// Waits until the text is on the screen, and forgets it with all earlier output.
    fn wait_to_see(&self, text: &str) {
        wait_for(text, Duration::from_secs(30), || {
            let mut screen = self.screen.lock().expect("no panic there");
            let end = screen.find(text)? + text.len();
            screen.drain(..end);
            Some(())
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("on the screen: {:?}", self.screen.lock());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tab_completes_and_events_are_shown_while_a_person_types() {
    let Some(server) = or_skip("cli", Server::start(Flavour::Zoarium)) else {
        return;
    };
    let client = Client::connect(Options::new(&server.address()))
        .await
        .expect("connect");
    for path in ["/application", "/application/one-child"] {
        let created = client.create(path, "the data", &Create::persistent()).await;
        created.expect("create a znode");
    }
    let mut terminal = Terminal::start(&server);
    terminal.wait_to_see("(CONNECTED) 0]");
    terminal.press("get /appl\t\r");
    terminal.wait_to_see("the data");
    terminal.press("getAllC\t /application\r");
    terminal.wait_to_see("getAllChildrenNumber");
    terminal.wait_to_see("(CONNECTED) 2]");
    terminal.press("get -w /application/\t\r");
    terminal.wait_to_see("the data");
    terminal.wait_to_see("(CONNECTED) 3]");
    terminal.press("ls /");
    let set = client.set_data("/application/one-child", "other", -1).await;
    set.expect("set");
    terminal.wait_to_see("type:NodeDataChanged path:/application/one-child");
    terminal.press("\r");
    terminal.wait_to_see("[application, zookeeper]");

    // The command follows events until it is interrupted.
    terminal.press("set -v x /application y\r");
    terminal.wait_to_see("-v needs a number");
    terminal.press("watch /application\r");
    terminal.wait_to_see("watching /application");
    client
        .delete("/application/one-child", -1)
        .await
        .expect("delete");
    terminal.wait_to_see("NodeDeleted /application/one-child");
    let pid = Pid::from_child(&terminal.child);
    rustix::process::kill_process(pid, Signal::INT).expect("interrupt it");
    terminal.wait_to_see("(CONNECTED)");
    terminal.press(&format!("addauth digest {CAROL}\r"));
    terminal.wait_to_see("(CONNECTED)");
    terminal.press("quit\r");
    wait_for("end of the shell", Duration::from_secs(30), || {
        terminal.child.try_wait().ok().flatten()
    });
    let file = terminal.home.path().join(".zoarium_cli_history");
    let history = std::fs::read_to_string(&file).expect("a history");
    assert!(history.contains("watch /application"), "{history}");
    assert!(!history.contains("addauth"), "{history}");
    let mode = file.metadata().expect("its mode").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Control sequences in a server's answer, a znode or a file.
const COMMANDS: &[u8] = b"a\x1b]0;title\x07\xc2\x9b2Jb\x9bc";

/// Returns the complete output of a tool, at a terminal or into a pipe.
fn printed(words: &[&str], is_terminal: bool) -> Vec<u8> {
    let mut command = Command::new(zoarium_binary());
    command.args(words).stdin(Stdio::null());
    if !is_terminal {
        return command.output().expect("run zoarium").stdout;
    }
    let (mut screen, slave) = terminal_pair();
    let child = command.stdout(slave()).stderr(slave()).spawn();
    drop(command);
    let mut child = child.expect("run zoarium");
    let mut seen = Vec::new();
    // The terminal ends with the tool, which causes an error.
    let _ = screen.read_to_end(&mut seen);
    assert!(child.wait().expect("an end").success(), "{words:?}");
    seen
}

/// Earlier, `zoarium word` and every tool except `cli` wrote these sequences unchanged.
#[test]
fn data_on_a_terminal_sends_no_commands_and_pipes_get_every_byte() {
    let Some(server) = or_skip("cli", Server::start(Flavour::Zoarium)) else {
        return;
    };
    let mut session = RawSession::open(&server.address(), None, 10_000).expect("a session");
    let write = Request::Write(create("/evil", COMMANDS, flags::PERSISTENT));
    assert_eq!(session.call(&write).expect("an answer").err, 0);
    let hostile = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hostile_address = hostile.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        for mut stream in hostile.incoming().flatten() {
            let mut word = [0; 4];
            let _ = stream.read_exact(&mut word);
            let _ = stream.write_all(COMMANDS);
        }
    });
    let address = server.address();
    for words in [
        &["word", &hostile_address, "srvr"][..],
        &["cli", "-server", &address, "get", "/evil"],
        &["cli", "-server", &address, "tree", "/"],
    ] {
        let shown = printed(words, true);
        let controls = |byte: &u8| matches!(byte, 0x00..0x20 | 0x7f..0xa0);
        let mut commands = shown.iter().filter(|byte| controls(byte));
        assert!(
            commands.all(|byte| b"\r\n\t".contains(byte)),
            "{words:?}: {shown:?}"
        );
    }
    let through = printed(&["word", &hostile_address, "srvr"], false);
    assert_eq!(through, COMMANDS);
    let through = printed(&["cli", "-server", &address, "get", "/evil"], false);
    // As in zkCli.sh, invalid UTF-8 is replaced.
    let wanted = String::from_utf8_lossy(COMMANDS).into_owned();
    let through = String::from_utf8(through).expect("UTF-8");
    assert!(through.contains(&wanted), "{through:?}");
}

#[test]
fn top_runs_until_it_is_interrupted_or_its_terminal_closes() {
    let Some(server) = or_skip("cli", Server::start(Flavour::Zoarium)) else {
        return;
    };
    let ended = |terminal: &mut Terminal| {
        wait_for("end of top", Duration::from_secs(30), || {
            terminal.child.try_wait().ok().flatten()
        })
    };
    let top = || {
        let terminal = Terminal::start_with(&server, &["top", "-d", "0.2"]);
        for _ in 0..2 {
            // Each sample replaces the previous one.
            terminal.wait_to_see("\u{1b}[H\u{1b}[2J");
            terminal.wait_to_see("standalone");
        }
        terminal
    };
    let mut terminal = top();
    let pid = Pid::from_child(&terminal.child);
    rustix::process::kill_process(pid, Signal::INT).expect("interrupt it");
    assert_eq!(ended(&mut terminal).code(), Some(0));
    let mut terminal = top();
    terminal.press("q");
    assert_eq!(ended(&mut terminal).code(), Some(0));

    // Nothing else holds this terminal, so closing its file ends it.
    let (mut screen, slave) = terminal_pair();
    let mut child = Command::new(zoarium_binary())
        .args(["cli", "-server", &server.address(), "top", "-d", "0.2"])
        .stdin(Stdio::null())
        .stdout(slave())
        .stderr(Stdio::null())
        .spawn()
        .expect("start top");
    let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&seen).contains("standalone") {
        let count = screen.read(&mut bytes).expect("top shows something");
        seen.extend_from_slice(&bytes[..count]);
    }
    drop((screen, slave));
    wait_for("end of top", Duration::from_secs(30), || {
        child.try_wait().ok().flatten()
    });
}

#[test]
fn the_shell_has_relative_paths_hints_and_commands_that_end_with_q() {
    let Some(server) = or_skip("shell", Server::start(Flavour::Zoarium)) else {
        return;
    };
    let address = server.address();
    let mut terminal = Terminal::start_program(&["shell", "-s", &address]);
    terminal.wait_to_see("/> ");
    terminal.press("create /app\r");
    terminal.wait_to_see("Created /app");
    // The arguments of a command are shown before they are typed.
    terminal.press("cd ");
    terminal.wait_to_see("[path]");
    terminal.press("app\r");
    terminal.wait_to_see("/app> ");
    terminal.press("create inner data\r");
    terminal.wait_to_see("Created /app/inner");
    terminal.press("get in\t\r");
    terminal.wait_to_see("data");
    terminal.press("gte /app\r");
    terminal.wait_to_see("did you mean `get`?");
    terminal.press("top -d 0.2\r");
    terminal.wait_to_see("standalone");
    terminal.press("q");
    terminal.wait_to_see("/app> ");
    terminal.press("watch inner\r");
    terminal.wait_to_see("watching /app/inner");
    terminal.press("q");
    terminal.wait_to_see("/app> ");
    terminal.press("ls ..\r");
    terminal.wait_to_see("[app, zookeeper]");
    terminal.press("\u{4}");
    let ended = wait_for("end of the shell", Duration::from_secs(30), || {
        terminal.child.try_wait().ok().flatten()
    });
    assert!(ended.success());
}
