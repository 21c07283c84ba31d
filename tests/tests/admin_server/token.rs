//! `zoarium admin-token`: the first steps of an administrator of a new server.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use tests::{
    Flavour, HttpRequest, Port, ServerBuilder, or_skip, terminal_pair, wait_for, zoarium_binary,
};

use crate::console::{Visit, found};
use crate::site::LIMIT;

fn status(port: u16, target: &str, authorization: &str) -> (u16, String) {
    let request = HttpRequest {
        method: "GET",
        target,
        headers: &[("Authorization", authorization)],
        body: None,
    };
    let answer = request.send(port).expect("an answer");
    (answer.status, answer.text())
}

/// A new server does not have an administrator. The command creates one while the server runs, and
/// the tools find the credential.
#[test]
fn the_first_administrator_needs_one_command() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let port = Port::take();
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1")
        .setting("admin.serverPort", &port.number().to_string())
        .setting("admin.rateLimiterIntervalInMS", "0");
    let Some(server) = or_skip("a server", builder.start()) else {
        return;
    };
    assert!(
        server
            .log()
            .contains("the ACL of / permits everything to everybody")
    );
    let target = "/commands/snapshot?streaming=false";
    let (refused, text) = status(port.number(), target, "digest a:b");
    assert_eq!(refused, 403, "{text}");
    assert!(text.contains("zoarium admin-token"), "{text}");

    let run = |arguments: &[&str]| {
        let mut command = Command::new(zoarium_binary());
        command.args(arguments).stdin(Stdio::null());
        let output = command.output().expect("zoarium runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}{wrong}");
        text
    };
    let config = server.config_file().display().to_string();
    let printed = run(&["admin-token", &config]);
    let console = format!("http://127.0.0.1:{}/", port.number());
    assert!(printed.contains(&console), "{printed}");
    let header = printed
        .lines()
        .find_map(|line| line.strip_prefix("header:   Authorization: "));
    let header = header.expect("a header").to_owned();
    let file = server.data_dir().join("admin-token");
    let mode = std::fs::metadata(&file)
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(run(&["admin-token", &config]), printed, "it stays as it is");

    // Immediately on the admin port, and soon on the console, which logs in through the client
    // port.
    let (answered, text) = status(port.number(), target, &header);
    assert_eq!(answered, 200, "{text}");
    let (user, password) = header
        .strip_prefix("digest ")
        .and_then(|both| both.split_once(':'))
        .expect("two parts");
    wait_for("a login at the console", LIMIT, || {
        let visit = Visit::begin(port.number());
        found(&visit.log_in(user, password));
        (visit.ask("GET", "/console/log", None).status == 200).then_some(())
    });
    let admin = format!("127.0.0.1:{}", port.number());
    let backup = server.data_dir().with_file_name("backup");
    let (backup, file) = (backup.display().to_string(), file.display().to_string());
    run(&["backup", &backup, "--server", &admin, "--token-file", &file]);

    // A new credential replaces the old one, and without the file no credential is valid.
    run(&["admin-token", "--new", &config]);
    assert_eq!(status(port.number(), target, &header).0, 403);
    std::fs::remove_file(&file).expect("remove the credential");
    wait_for("the end of the credential", LIMIT, || {
        (status(port.number(), target, &header).0 == 403).then_some(())
    });
}

/// A server at a terminal.
struct AtTerminal {
    child: Child,
    shown: String,
    pieces: mpsc::Receiver<String>,
}

/// Starts a server at a terminal, and waits until the terminal shows `until`.
fn start_at_terminal(config: &Path, until: &str) -> AtTerminal {
    let (mut screen, open) = terminal_pair();
    let child = Command::new(zoarium_binary())
        .arg("server")
        .arg(config)
        .stdin(open())
        .stdout(open())
        .stderr(open())
        .spawn()
        .expect("start a server");
    let (sender, pieces) = mpsc::channel();
    // The thread ends with the terminal. The terminal must be read, because otherwise the server
    // could not write.
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            let _ = sender.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
        }
    });
    let mut server = AtTerminal {
        child,
        shown: String::new(),
        pieces,
    };
    while !server.shown.contains(until) {
        match server.pieces.recv_timeout(LIMIT) {
            Ok(piece) => server.shown.push_str(&piece),
            Err(error) => panic!("no {until:?} at the terminal, {error}: {}", server.shown),
        }
    }
    server
}

impl AtTerminal {
    /// Stops the server. Returns everything that the terminal has shown.
    fn stop(mut self) -> String {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), Signal::TERM).expect("it runs");
        assert!(self.child.wait().expect("its end").success());
        while let Ok(piece) = self.pieces.recv() {
            self.shown.push_str(&piece);
        }
        std::mem::take(&mut self.shown)
    }
}

impl Drop for AtTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first start at a terminal shows the console's address and a credential for it. Later ones do
/// not.
#[test]
fn the_first_start_at_a_terminal_prints_the_console_login() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (client, admin) = (Port::take(), Port::take());
    let config = dir.path().join("zoo.cfg");
    let text = format!(
        "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={}\n",
        dir.path().join("data").display(),
        client.number(),
        admin.number(),
    );
    std::fs::write(&config, text).expect("write zoo.cfg");
    let server = start_at_terminal(&config, "Ctrl-C stops the server.");
    let file = dir.path().join("data/admin-token");
    let token = std::fs::read_to_string(&file).expect("the credential");
    let mode = std::fs::metadata(&file).expect("it").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let password = token.trim().split_once(':').map(|(_, password)| password);
    let password = password.expect("user and password").to_owned();
    let header = format!("digest admin-token:{password}");
    let (answered, text) = status(
        admin.number(),
        "/commands/snapshot?streaming=false",
        &header,
    );
    assert_eq!(answered, 200, "{text}");
    let shown = server.stop();
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    let first = lines.iter().position(|line| line.starts_with("Zoarium "));
    let welcome = &lines[first.expect("the version")..][..5];
    let console = format!(
        "console: http://127.0.0.1:{}/ (user admin-token, password {password})",
        admin.number()
    );
    assert_eq!(
        welcome[1],
        format!("clients: 127.0.0.1:{}", client.number())
    );
    assert_eq!(welcome[2], console);
    assert!(welcome[3].starts_with("data: "), "{shown}");
    assert_eq!(welcome[4], "Ctrl-C stops the server.");

    let shown = start_at_terminal(&config, "Ctrl-C stops the server.").stop();
    assert!(!shown.contains(&password), "{shown}");
    assert!(shown.contains("console: http://127.0.0.1:"), "{shown}");
}
