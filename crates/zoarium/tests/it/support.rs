//! Helpers that run the executable and a server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Every secret of these tests. No output may contain a secret.
pub(crate) mod secrets {
    /// Password of a key store.
    pub(crate) const STORE: &str = "st0resecret";
    /// Password of a user in a JAAS file.
    pub(crate) const BOB: &str = "b0bsecret";
    /// Credentials of a client.
    pub(crate) const ANN: &str = "ann:4nnsecret";
    /// Credentials of another client.
    pub(crate) const OPS: &str = "ops:0pssecret";

    pub(super) const ALL: &[&str] = &[STORE, BOB, ANN, OPS];
}

/// Runs `zoarium` with these arguments to its end.
pub(crate) fn zoarium<A: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zoarium"));
    command.args(arguments).stdin(Stdio::null());
    output_of(&mut command)
}

/// Runs a command to its end, and checks that its output does not contain a secret.
pub(crate) fn output_of(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    expect_no_secret(&String::from_utf8_lossy(&output.stdout));
    expect_no_secret(&String::from_utf8_lossy(&output.stderr));
    output
}

/// # Panics
/// If this text contains a secret of these tests.
pub(crate) fn expect_no_secret(printed: &str) {
    for secret in secrets::ALL {
        assert!(!printed.contains(secret), "a secret is printed: {printed}");
    }
}

/// Returns the standard output.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the standard error output.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A server on a port that the system chose. It is killed when this value is dropped.
pub(crate) struct RunningServer {
    process: Child,
    pub(crate) address: String,
    _data: TempDir,
}

impl RunningServer {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with a tick time and a maximum of connections per address.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_zoarium"))
            .args(["server", "-Dzookeeper.admin.enableServer=false", "0"])
            .arg(data.path())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut ready).unwrap();
        Self {
            process,
            address: address_in(&ready),
            _data: data,
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the address from the ready line of a server on this machine, such as
/// `zoarium: serving clients on 0.0.0.0:2181; data in ...`.
pub(crate) fn address_in(ready: &str) -> String {
    let port = ready
        .split_once(" on ")
        .and_then(|(_, rest)| rest.split_once(';'))
        .and_then(|(address, _)| address.rsplit_once(':'))
        .map(|(_, port)| port);
    let port = port.unwrap_or_else(|| panic!("no address in {ready:?}"));
    format!("127.0.0.1:{port}")
}

/// A data directory of Apache ZooKeeper 3.9.5, with the expected results.
pub(crate) struct Vector {
    pub(crate) dir: PathBuf,
    pub(crate) expected: Value,
}

/// Returns a recorded vector by name, if the recordings are available.
pub(crate) fn vector(name: &str) -> Option<Vector> {
    let dir = testkit::recordings::find(&format!("vectors/storage/{name}"))?;
    let text = fs::read_to_string(dir.join("expected.json")).unwrap();
    let expected = serde_json::from_str(&text).unwrap();
    Some(Vector { dir, expected })
}

impl Vector {
    /// Copies a log of the vector into a temporary directory, changed as an entry of its
    /// `edits_of_...` describes.
    pub(crate) fn edited(&self, file: &str, edits: &str, edit: &str) -> (TempDir, PathBuf) {
        let edit = &self.expected[edits][edit];
        let mut content = fs::read(self.dir.join(file)).unwrap();
        content.truncate(usize::try_from(edit["keep"].as_u64().unwrap()).unwrap());
        let hex = edit["then"].as_str().unwrap().as_bytes();
        let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        content.extend(hex.chunks(2).map(|pair| digits(pair).unwrap()));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Path::new(file).file_name().unwrap());
        fs::write(&path, content).unwrap();
        (dir, path)
    }

    /// Copies a file of the vector into a temporary directory.
    pub(crate) fn copied(&self, file: &str) -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Path::new(file).file_name().unwrap());
        fs::copy(self.dir.join(file), &path).unwrap();
        (dir, path)
    }
}
