//! Commands of the program itself: `zoarium get`, `ls`, `status` and the others.

mod ensembles;
mod forms;
mod mistakes;
mod trees;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use tests::{Flavour, Port, Server, ServerBuilder, or_skip, zoarium_binary};

use super::LIMIT_S;

/// A server with an admin port.
struct Site {
    server: Server,
    admin: Port,
}

impl Site {
    fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// Starts the server with these additional settings.
    fn start_with(settings: &[(&str, &str)]) -> Option<Self> {
        let admin = Port::take();
        let builder = ServerBuilder::new(Flavour::Zoarium)
            .setting("admin.enableServer", "true")
            .setting("admin.serverAddress", "127.0.0.1")
            .setting("admin.serverPort", &admin.number().to_string());
        let builder = settings
            .iter()
            .fold(builder, |builder, (key, value)| builder.setting(key, value));
        let server = or_skip("commands of the program", builder.start())?;
        Some(Self { server, admin })
    }

    /// Returns `host:port` of the admin server.
    fn admin_address(&self) -> String {
        format!("127.0.0.1:{}", self.admin.number())
    }

    /// Runs a command with the address of the server in the environment.
    fn run(&self, words: &[&str]) -> Output {
        program(words, &self.server.address(), "")
    }

    /// Runs a command that must succeed, and returns its standard output.
    fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
        String::from_utf8(output.stdout).expect("text")
    }
}

/// Runs `zoarium` with these words, a default server, and standard input.
fn program(words: &[&str], server: &str, stdin: &str) -> Output {
    // The test ends, even if the program hangs.
    let mut command = Command::new("timeout");
    command.arg(LIMIT_S).arg(zoarium_binary()).args(words);
    command.env("ZOARIUM_SERVER", server).env("TZ", "UTC");
    output_of(&mut command, stdin)
}

fn output_of(command: &mut Command, stdin: &str) -> Output {
    let mut child = command
        .env_remove("ZOARIUM_AUTH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the program");
    let mut input = child.stdin.take().expect("a pipe");
    // A command without input may already have ended.
    let _ = input.write_all(stdin.as_bytes());
    drop(input);
    child.wait_with_output().expect("the program ends")
}

/// Returns the standard error output of a command.
fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
