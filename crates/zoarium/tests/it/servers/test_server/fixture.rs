//! A process of `zoarium test-server`, and its commands.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Instant;

use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};

use crate::embedded::embedding::PATIENCE;

/// A process that is killed on drop, so that a failed test leaves no process. The process has an
/// own directory for its files.
pub(super) struct Fixture {
    pub(super) process: Child,
    /// First line of the output.
    pub(super) said: Value,
    pub(super) stdin: Option<ChildStdin>,
    /// Further lines of the output. The channel ends with the output.
    pub(super) lines: Receiver<String>,
    pub(super) directory: TempDir,
    /// Its log.
    log: NamedTempFile,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

impl Fixture {
    pub(super) fn start(arguments: &[&str]) -> Self {
        Self::try_start(arguments).expect("the servers start")
    }

    /// Starts servers. Returns `None` if they do not start.
    pub(super) fn try_start(arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zoarium"));
        command
            .arg("test-server")
            .args(arguments)
            .stdin(Stdio::piped());
        Self::begin(command)
    }

    /// Starts a command that starts the servers, and waits for their first line. Returns `None` if
    /// the output ends first.
    pub(super) fn begin(mut command: Command) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let log = NamedTempFile::new().unwrap();
        command
            .env("TMPDIR", directory.path())
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().unwrap();
        let (told, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    return;
                }
            }
        });
        let mut fixture = Self {
            process,
            said: Value::Null,
            stdin,
            lines,
            directory,
            log,
        };
        let line = match fixture.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => panic!("the servers do not start"),
        };
        fixture.said = serde_json::from_str(&line).unwrap();
        Some(fixture)
    }

    pub(super) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    pub(super) fn connect_string(&self) -> &str {
        self.said["connectString"].as_str().unwrap()
    }

    pub(super) fn members(&self) -> Vec<&str> {
        let members = self.said["members"].as_array().unwrap();
        members
            .iter()
            .map(|member| member.as_str().unwrap())
            .collect()
    }

    /// Sends a command over standard input, and returns the answer.
    pub(super) fn command(&mut self, command: &str) -> Value {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
        let answer: Value = serde_json::from_str(&self.line()).unwrap();
        assert_eq!(answer["command"], command);
        answer
    }

    /// Sends a command that must succeed.
    pub(super) fn must(&mut self, command: &str) -> Value {
        let answer = self.command(command);
        assert_eq!(answer["ok"], true, "{answer}");
        answer
    }

    /// Sends a request with commands over HTTP, and returns the answer with its head.
    pub(super) fn http(&self, head: &str, commands: &str) -> String {
        let address = self.said["commandAddress"].as_str().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = commands.len();
        let request = format!(
            "{head}\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{commands}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(super) fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            match self.process.try_wait().unwrap() {
                Some(status) => return status,
                None if began.elapsed() > PATIENCE => panic!("it does not end"),
                None => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        }
    }

    /// Returns the names in the directory of the process.
    pub(super) fn files(&self) -> Vec<String> {
        let files = self.directory.path().read_dir().unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    /// Checks that the process ends by itself and leaves nothing.
    pub(super) fn ends(mut self) {
        let status = self.wait();
        assert!(status.success(), "{status}");
        assert_eq!(self.files(), [""; 0]);
    }
}
