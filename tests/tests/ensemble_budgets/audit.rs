//! An audit log with a stalled disk, for which requests have to wait.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use proto::request::Request;
use proto::response::GetDataResponse;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use tests::ensemble::Ensemble;
use tests::requests::{get_data, set_data};
use tests::{RawSession, or_skip, wait_for};

use crate::attacker::{attacker, create_znode};
use crate::bystanders::Bystanders;
use crate::{ATTACKING, FOLLOWER, LEADER, PAUSE_MAX, three};

/// Changes that a client requests from the leader.
const CHANGES: usize = 5000;
/// Number of waiting lines from which requests wait.
const LINES_MAX: &str = "50";
/// Log line of the leader about this.
const WAITING: &str = "requests wait for the disk";
/// Time limit for each expected event.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts three members. The audit log of the leader is a pipe, whose capacity depends on its
/// reader. It is not among the leader's files, because a search of those would block on it.
fn start() -> Result<(Ensemble, File, TempDir), tests::Missing> {
    let mut ensemble = three().prepare()?;
    let member = ensemble.member(LEADER);
    let dir = tempfile::tempdir().expect("make a directory for a pipe");
    let pipe = dir.path().join("audit.log");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("make a pipe");
    let reader = OpenOptions::new().read(true).write(true).open(&pipe);
    let text = fs::read_to_string(member.config_file()).expect("read zoo.cfg");
    let text = format!(
        "{text}\naudit.enable=true\nauditlog.file={}\nauditlog.queueSize={LINES_MAX}\n\
         auditlog.neverBlock=false\nauditlog.maxfilesize=1GB\n",
        pipe.display()
    );
    fs::write(member.config_file(), text).expect("write zoo.cfg");
    for id in [FOLLOWER, LEADER, 2] {
        ensemble.start(id);
    }
    assert_eq!(ensemble.wait_until_all_serve(), LEADER);
    Ok((ensemble, reader.expect("open a pipe"), dir))
}

/// Reads a znode of the leader while others send requests.
fn read_number(session: &mut RawSession) -> usize {
    let answer = session.call(&get_data("/short")).expect("an answer");
    let data = answer.record::<GetDataResponse>().data.expect("data");
    let text = String::from_utf8(data.to_vec()).expect("a text");
    text.parse().expect("a number")
}

/// Clients that change something through this member wait, but other clients do not. Its readers
/// and its core, through which all members commit, continue.
#[test]
fn requests_waiting_for_the_audit_log_do_not_block_others() {
    let _attacking = ATTACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((ensemble, pipe, _dir)) = or_skip("an audit log that waits", start()) else {
        return;
    };
    let answered = Mutex::new(0);
    let count = || *answered.lock().expect("no thread has failed");
    for path in ["/short", "/other"] {
        create_znode(&ensemble, path, "0");
    }
    let bystanders = Bystanders::start_at(&ensemble, &[FOLLOWER, 2]);
    std::thread::scope(|scope| {
        let (ensemble, answered) = (&ensemble, &answered);
        scope.spawn(move || {
            let mut session = attacker(ensemble, LEADER);
            for _ in 0..CHANGES {
                session.put(&Request::Write(set_data("/other", "", -1)));
            }
            for _ in 0..CHANGES {
                assert_eq!(session.take().expect("an answer").err, 0);
                *answered.lock().expect("no thread has failed") += 1;
            }
        });
        // More than the capacity of the pipe, its queue, and the requests that were pending when it
        // was full.
        wait_for("requests that wait", PATIENCE, || {
            let log = ensemble.member(LEADER).log();
            log.contains(WAITING).then_some(())
        });
        // The leader continues, and so do its readers.
        let mut reader = attacker(ensemble, LEADER);
        let mut writer = attacker(ensemble, FOLLOWER);
        for number in 1..=20 {
            let write = Request::Write(set_data("/short", number.to_string(), -1));
            assert_eq!(writer.call(&write).expect("an answer").err, 0);
            wait_for("what was written", PAUSE_MAX, || {
                (read_number(&mut reader) == number).then_some(())
            });
        }
        bystanders.wait_for_more();
        assert!(count() < CHANGES);
        read_lines(pipe, "operation=setData", CHANGES);
    });
    assert_eq!(count(), CHANGES);
    let longest = bystanders.finish();
    assert!(longest < PAUSE_MAX, "a bystander waited {longest:?}");
    assert_eq!(ensemble.leaders(), [LEADER]);
}

/// Reads until `count` lines have arrived.
fn read_lines(pipe: File, of: &str, count: usize) {
    let lines = BufReader::new(pipe).lines();
    let lines = lines.map(|line| line.expect("the pipe is read"));
    assert_eq!(
        lines.filter(|line| line.contains(of)).take(count).count(),
        count
    );
}
