//! A disk that fills up: the server exits with a clear error, no acknowledged write is lost, and
//! the server serves again when there is space.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use client::Session;
use proto::request::{Request, flags};
use proto::response::GetDataResponse;
use tempfile::TempDir;
use tests::requests::{create, get_data};
use tests::{Flavour, Missing, RawSession, Server, ServerBuilder, or_skip, run};

/// Longest session timeout that a server here grants.
const TIMEOUT_MS: i32 = 10_000;
const MOUNT_LIMIT: Duration = Duration::from_secs(20);
/// Number of requests in flight.
const DEPTH: usize = 32;

/// Files have at most 128 KiB. Without the trap, a signal would end the server silently.
const LIMIT: &str = "trap '' XFSZ; ulimit -f 256";

/// A small file system, which is unmounted on drop.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// # Errors
    /// [`Missing`] if the user may not mount. Only root may.
    fn new(kib: usize) -> Result<SmallDisk, Missing> {
        let dir = tempfile::tempdir().map_err(|error| Missing(error.to_string()))?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]);
        run(mount.arg(dir.path()), MOUNT_LIMIT).map_err(Missing)?;
        Ok(SmallDisk(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn resize(&self, kib: usize) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={kib}k")]);
        run(mount.arg(self.path()), MOUNT_LIMIT).expect("another size for a mounted disk");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run(Command::new("umount").arg(self.path()), MOUNT_LIMIT).ok();
    }
}

/// Writes of a client until the server ended.
struct Written {
    session: Session,
    answered: usize,
    sent: usize,
}

fn path(number: usize) -> String {
    format!("/n{number:06}")
}

fn data(number: usize) -> String {
    format!("{number:01000}")
}

/// Creates znodes of 1000 bytes until the connection ends.
fn fill(server: &Server) -> Written {
    let mut session = RawSession::open(&server.address(), None, TIMEOUT_MS).expect("a session");
    let (mut sent, mut answered) = (0, 0);
    loop {
        while session.unanswered() < DEPTH {
            let request = create(&path(sent), data(sent), flags::PERSISTENT);
            session.put(&Request::Write(request));
            sent += 1;
        }
        let Ok(answer) = session.take() else { break };
        assert_eq!(answer.err, 0);
        answered += 1;
        assert!(answered < 100_000, "the disk does not fill up");
    }
    Written {
        session: session.session().clone(),
        answered,
        sent,
    }
}

/// Checks that all answered writes exist, and a prefix of the others.
fn check(server: &Server, written: &Written) {
    let continued = Some(&written.session);
    let mut session = RawSession::open(&server.address(), continued, TIMEOUT_MS)
        .expect("the same session after the restart");
    for number in 0..written.sent {
        session.put(&get_data(&path(number)));
    }
    let mut missing_from = None;
    for number in 0..written.sent {
        let answer = session.take().expect("an answer");
        match missing_from {
            None if answer.err == 0 => {
                let read: GetDataResponse = answer.record();
                assert_eq!(read.data.as_deref(), Some(data(number).as_bytes()));
            }
            None => missing_from = Some(number),
            Some(from) => assert_ne!(answer.err, 0, "{number} is there, {from} is not"),
        }
    }
    assert!(
        missing_from.is_none_or(|from| from >= written.answered),
        "{missing_from:?}"
    );
    // The server continues.
    let request = create("/after", "", flags::PERSISTENT);
    let answer = session.call(&Request::Write(request)).expect("an answer");
    assert_eq!(answer.err, 0);
}

/// Checks that the server ends by itself, with this code and with the reason in its log.
fn check_end(server: &mut Server, code: i32, sentences: &[&str]) {
    let status = server.wait_for_end();
    let log = server.log();
    assert_eq!(status.code(), Some(code), "{log}");
    for sentence in sentences {
        assert!(log.contains(sentence), "no {sentence:?} in\n{log}");
    }
}

fn builder() -> ServerBuilder {
    ServerBuilder::new(Flavour::Zoarium).setting("preAllocSize", "64")
}

#[test]
fn a_log_that_cannot_grow_ends_the_server() {
    let limited = builder().after(LIMIT);
    let Some(mut server) = or_skip("a limit for files", limited.start()) else {
        return;
    };
    let written = fill(&server);
    assert!(written.answered > 50, "{}", written.answered);
    check_end(
        &mut server,
        1,
        &[
            "cannot write the transaction log",
            "File too large",
            "log.1",
        ],
    );
    let again = builder().data_dir(server.data_dir()).start();
    check(&again.expect("a server without the limit"), &written);
}

#[test]
fn a_full_disk_ends_the_server_and_space_brings_it_back() {
    let disk = match SmallDisk::new(1024) {
        Ok(disk) => disk,
        Err(missing) => {
            // The missing requirement is not an installable tool: few users may mount. Limits,
            // which every user may set, take the same path through the server, so this is never a
            // failure.
            let line = format!("SKIPPED a full disk: {missing}\n");
            std::io::stderr().write_all(line.as_bytes()).ok();
            return;
        }
    };
    let server = builder().data_dir(disk.path()).start();
    let mut server = server.expect("a server on a small disk");
    let written = fill(&server);
    assert!(written.answered > 300, "{}", written.answered);
    let reason = "No space left on device";
    check_end(
        &mut server,
        1,
        &["cannot write the transaction log", reason, "log.1"],
    );
    // Without space the server does not start, reports the reason, and does no harm.
    let log = fs::read(disk.path().join("version-2/log.1")).expect("the log");
    if server.launch().is_ok() {
        let status = server.wait_for_end();
        assert_eq!(status.code(), Some(10), "{}", server.log());
    }
    assert!(server.log().matches(reason).count() > 1, "{}", server.log());
    assert_eq!(
        fs::read(disk.path().join("version-2/log.1")).expect("the log"),
        log
    );

    disk.resize(8 * 1024);
    if let Err(failure) = server.launch() {
        panic!("{failure:?}");
    }
    check(&server, &written);
}

#[test]
fn a_snapshot_that_cannot_be_written_ends_the_server_without_loss() {
    // Logs stay below the limit, but snapshots do not.
    let builder = builder()
        .setting("preAllocSize", "16")
        .setting("txnLogSizeLimitInKb", "32")
        .setting("snapCount", "200");
    let limited = builder.clone().after(LIMIT);
    let Some(mut server) = or_skip("a limit for files", limited.start()) else {
        return;
    };
    let written = fill(&server);
    check_end(
        &mut server,
        10,
        &["cannot write a snapshot", "File too large", "snapshot."],
    );
    // The beginning of a new log may remain, because the process has ended.
    let left = unfinished(server.data_dir(), "snapshot.");
    assert!(left.is_empty(), "what was begun is removed: {left:?}");
    let again = builder.data_dir(server.data_dir()).start();
    let again = again.expect("a server without the limit");
    let left = unfinished(server.data_dir(), "log.");
    assert!(left.is_empty(), "a start removes it: {left:?}");
    check(&again, &written);
}

/// Returns the incomplete files of this kind, which were never renamed.
fn unfinished(data_dir: &Path, kind: &str) -> Vec<String> {
    let files = fs::read_dir(data_dir.join("version-2")).expect("the data directory");
    let names = files.map(|entry| entry.expect("a file").file_name());
    names
        .map(|name| name.into_string().expect("a name"))
        .filter(|name| {
            let rest = name.strip_prefix("unfinished.");
            rest.is_some_and(|rest| rest.starts_with(kind))
        })
        .collect()
}
