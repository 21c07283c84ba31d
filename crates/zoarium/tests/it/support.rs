//! Running the executable, and a server of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Every secret of these tests: nothing that is printed may hold one.
pub(crate) mod secrets {
    /// Password of a key store.
    pub(crate) const STORE: &str = "st0resecret";
    /// Of a user of a JAAS file.
    pub(crate) const BOB: &str = "b0bsecret";
    /// By which clients authenticate.
    pub(crate) const ANN: &str = "ann:4nnsecret";
    /// The same.
    pub(crate) const OPS: &str = "ops:0pssecret";

    pub(super) const ALL: &[&str] = &[STORE, BOB, ANN, OPS];
}

/// Runs `zoarium` with these arguments to its end.
pub(crate) fn zoarium<A: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zoarium"));
    command.args(arguments).stdin(Stdio::null());
    output_of(&mut command)
}

/// Runs a command to its end; what it prints holds no secret.
pub(crate) fn output_of(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    expect_no_secret(&String::from_utf8_lossy(&output.stdout));
    expect_no_secret(&String::from_utf8_lossy(&output.stderr));
    output
}

/// # Panics
/// If this text holds a secret of these tests.
pub(crate) fn expect_no_secret(printed: &str) {
    for secret in secrets::ALL {
        assert!(!printed.contains(secret), "a secret is printed: {printed}");
    }
}

/// What it printed.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What it complained about.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A server on a port that the system chose; killed when this is dropped.
pub(crate) struct RunningServer {
    process: Child,
    pub(crate) address: String,
    _data: TempDir,
}

impl RunningServer {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With a tick, and connections that one address may have.
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

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The address of a server on this machine that printed this line when it was ready, such as
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

/// A data directory that Apache ZooKeeper 3.9.5 wrote, and what it says about it.
pub(crate) struct Vector {
    pub(crate) dir: PathBuf,
    pub(crate) expected: Value,
}

/// A recorded vector by name, if they are at hand.
pub(crate) fn vector(name: &str) -> Option<Vector> {
    let dir = testkit::recordings::find(&format!("vectors/storage/{name}"))?;
    let text = fs::read_to_string(dir.join("expected.json")).unwrap();
    let expected = serde_json::from_str(&text).unwrap();
    Some(Vector { dir, expected })
}

impl Vector {
    /// A log of the vector, changed as one of its `edits_of_...` says, in a directory of its own.
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

    /// A copy of a file of the vector in a directory of its own.
    pub(crate) fn copied(&self, file: &str) -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Path::new(file).file_name().unwrap());
        fs::copy(self.dir.join(file), &path).unwrap();
        (dir, path)
    }
}
