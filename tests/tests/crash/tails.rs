//! Data directories whose last log is torn or corrupt, with complete servers.
//!
//! The server's own tests tear a log at every byte. Here processes start on a few of the cases.

use std::fs;
use std::path::{Path, PathBuf};

use proto::request::{Request, flags};
use proto::response::GetDataResponse;
use tempfile::TempDir;
use tests::requests::{create, get_data, set_data};
use tests::{Dump, Flavour, RawSession, Server, ServerBuilder};

/// Longest session timeout that a server here grants.
const TIMEOUT_MS: i32 = 10_000;
/// Bytes of a log before its first record.
const HEADER_BYTES: usize = 16;
/// Length of checksum and length field before a payload. One byte follows the payload.
const PREFIX_BYTES: usize = 12;
const WRITES: usize = 12;

/// The directory of a killed server, and the log in it.
struct Left {
    dir: TempDir,
    session: client::Session,
    whole: Vec<u8>,
    /// Offset of each record, and the end of the last one.
    offsets: Vec<usize>,
}

impl Left {
    fn log(&self) -> PathBuf {
        self.dir.path().join("version-2/log.1")
    }

    /// Returns the record of the last write, or of an earlier one for `back` > 0.
    fn record(&self, back: usize) -> std::ops::Range<usize> {
        let last = self.offsets.len() - 2 - back;
        self.offsets[last]..self.offsets[last + 1]
    }
}

fn builder(dir: &Path) -> ServerBuilder {
    ServerBuilder::new(Flavour::Zoarium)
        .setting("preAllocSize", "64")
        .data_dir(dir)
}

/// Leaves the directory of a session that created `/a` and set it `WRITES` times.
fn left_behind() -> Left {
    let dir = tempfile::tempdir().expect("a data directory");
    let mut server = builder(dir.path()).start().expect("a server");
    let mut session = open(&server, None);
    let answer = session.call(&Request::Write(create("/a", "0", flags::PERSISTENT)));
    assert_eq!(answer.expect("an answer").err, 0);
    for number in 1..=WRITES {
        let request = set_data("/a", number.to_string(), -1);
        let answer = session.call(&Request::Write(request)).expect("an answer");
        assert_eq!(answer.err, 0);
    }
    server.kill();
    let whole = fs::read(dir.path().join("version-2/log.1")).expect("the log");
    let offsets = record_offsets(&whole);
    // A session, a znode, its changes.
    assert_eq!(offsets.len(), WRITES + 3);
    Left {
        dir,
        session: session.session().clone(),
        whole,
        offsets,
    }
}

fn open(server: &Server, continued: Option<&client::Session>) -> RawSession {
    RawSession::open(&server.address(), continued, TIMEOUT_MS).expect("a session")
}

fn record_offsets(log: &[u8]) -> Vec<usize> {
    let mut offsets = vec![HEADER_BYTES];
    let mut at = HEADER_BYTES;
    while let Some(prefix) = log.get(at..at + PREFIX_BYTES) {
        let len = prefix
            .last_chunk::<4>()
            .map_or(0, |len| u32::from_be_bytes(*len));
        if len == 0 {
            break;
        }
        at += PREFIX_BYTES + len as usize + 1;
        offsets.push(at);
    }
    offsets
}

/// Starts a server on the torn log. `/a` must have been set `kept` times, and the server must
/// continue.
fn check_served(left: &Left, kept: usize, what: &str) {
    let server = builder(left.dir.path()).try_start().expect("our server");
    let mut server = server.unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
    let mut session = open(&server, Some(&left.session));
    let answer = session.call(&get_data("/a")).expect("an answer");
    let read: GetDataResponse = answer.record();
    assert_eq!(
        read.data.as_deref(),
        Some(kept.to_string().as_bytes()),
        "{what}"
    );
    assert_eq!(
        read.stat.version,
        i32::try_from(kept).expect("few"),
        "{what}"
    );
    let answer = session.call(&Request::Write(set_data("/a", "on", read.stat.version)));
    let answer = answer.expect("an answer");
    assert_eq!(
        (answer.err, answer.zxid.0),
        (0, read.stat.mzxid + 1),
        "{what}"
    );
    let before = Dump::read(&mut session).expect("the tree");
    server.crash_and_restart();
    let mut session = open(&server, Some(&left.session));
    let after = Dump::read(&mut session).expect("the tree");
    after.assert_same(&before, what);
}

#[test]
fn servers_start_on_torn_logs() {
    for (back, cut, zeros) in [
        (0, 0, 0),
        (0, 1, 0),
        (0, 9, 70_000),
        (0, 40, 0),
        (1, 30, 70_000),
        (2, 13, 4096),
    ] {
        let left = left_behind();
        let record = left.record(back);
        let mut torn = left.whole[..record.start + cut].to_vec();
        torn.resize(torn.len() + zeros, 0);
        fs::write(left.log(), torn).expect("tear the log");
        let what = format!("cut in {cut} of {}, {zeros} zeros", record.len());
        check_served(&left, WRITES - 1 - back, &what);
    }
}

#[test]
fn servers_refuse_corrupt_logs_with_the_position() {
    let left = left_behind();
    let middle = left.record(4);
    let mut flipped = left.whole.clone();
    flipped[middle.start + 50] ^= 1;
    let mut wrong_length = left.whole.clone();
    wrong_length[middle.start + 11] ^= 1;
    let mut unlike_a_log = left.whole.clone();
    unlike_a_log[0] = 0;
    let offset = format!("offset {}", middle.start);
    for (damaged, offset) in [
        (flipped, &*offset),
        (wrong_length, &*offset),
        (unlike_a_log, ""),
    ] {
        fs::write(left.log(), &damaged).expect("damage the log");
        let started = builder(left.dir.path()).try_start().expect("our server");
        let failure = started.map(drop).expect_err("a refusal");
        let code = failure.status.and_then(|status| status.code());
        assert_eq!(code, Some(1), "{}", failure.log);
        let file = left.log().display().to_string();
        assert!(failure.log.contains(&file), "{}", failure.log);
        assert!(failure.log.contains(offset), "{}", failure.log);
        assert_eq!(fs::read(left.log()).expect("the log"), damaged, "changed");
    }
    // With the complete log, nothing is lost.
    fs::write(left.log(), &left.whole).expect("mend the log");
    check_served(&left, WRITES, "mended");
}
