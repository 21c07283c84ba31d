//! A person at a terminal: completion, live events, the prompt.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, Create, Options};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tests::{Flavour, Server, or_skip, wait_for, zoarium_binary};

/// The shell at a terminal of its own.
struct Terminal {
    keys: File,
    screen: Arc<Mutex<String>>,
    child: Child,
    _home: tempfile::TempDir,
}

impl Terminal {
    fn start(server: &Server) -> Terminal {
        let pty: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&pty)
            .and_then(|()| unlockpt(&pty))
            .expect("a terminal");
        let name = ptsname(&pty, Vec::new()).expect("a terminal has a name");
        let name = std::ffi::OsStr::from_bytes(name.as_bytes());
        let open = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(name)
                .expect("open it")
        };
        let home = tempfile::tempdir().expect("a home");
        let child = Command::new(zoarium_binary())
            .args(["cli", "-server", &server.address()])
            .env("TERM", "xterm")
            .env("HOME", home.path())
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .expect("start the shell");
        let keys = File::from(pty);
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
            _home: home,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("type");
    }

    /// Waits until the text is on the screen, and forgets it with all in front of it.
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

    // It follows what happens until it is interrupted.
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
    terminal.press("quit\r");
    wait_for("end of the shell", Duration::from_secs(30), || {
        terminal.child.try_wait().ok().flatten()
    });
}
