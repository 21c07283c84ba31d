//! The audit log between the threads that queue lines and the thread that writes them, under random
//! schedules.

#![allow(
    clippy::unwrap_used,
    reason = "a thread of a model that panics fails the check"
)]

use std::net::Ipv4Addr;
use std::sync::Arc;

use config::AuditSettings;
use proto::{OpCode, SessionId};
use testkit::interleavings::{check, future, thread};
use zoarium_metrics::audit::{AuditLog, Caller, LineGroup, line_of_undecodable};

const PRODUCERS: usize = 2;
const ROUNDS: usize = 2;
const LINES: usize = 2 * PRODUCERS * ROUNDS;

fn log(never_blocks: bool) -> Arc<AuditLog> {
    let settings = AuditSettings {
        file: "audit".into(),
        failures_only: false,
        file_bytes_max: 0,
        files_kept: 0,
        queue_lines: 1,
        never_blocks,
    };
    Arc::new(AuditLog::new(&settings, "user", || 0))
}

/// Returns a line that contains the producer and the number.
fn line(producer: usize, number: usize) -> LineGroup {
    let caller = Caller {
        session: SessionId(i64::try_from(0x100 + producer * 0x10 + number).unwrap()),
        identities: Arc::from([]),
        ip: Ipv4Addr::LOCALHOST.into(),
    };
    line_of_undecodable(caller, OpCode::Multi).unwrap()
}

/// Queues lines like a connection: two lines for each request that the log accepts.
fn produce(log: &AuditLog, producer: usize) {
    for round in 0..ROUNDS {
        future::block_on(log.has_room());
        for number in [2 * round, 2 * round + 1] {
            log.write(line(producer, number));
        }
    }
}

fn start_producers(log: &Arc<AuditLog>) -> Vec<thread::JoinHandle<()>> {
    let producers = (0..PRODUCERS).map(|producer| {
        let log = log.clone();
        thread::spawn(move || produce(&log, producer))
    });
    producers.collect()
}

/// Writes lines like the audit thread, until the end of the queue. Returns the lines, and the
/// number of lost ones.
fn start_writer(log: &Arc<AuditLog>) -> thread::JoinHandle<(Vec<String>, u64)> {
    let log = log.clone();
    thread::spawn(move || {
        let mut written = Vec::new();
        loop {
            let (taken, lost) = log.take();
            if taken.is_empty() {
                return (written, lost);
            }
            for dated in taken {
                dated
                    .lines
                    .write_lines(|_, text| written.push(text.to_owned()));
            }
        }
    })
}

/// Checks that the lines of each producer are in order, and returns their number.
fn in_order(written: &[String]) -> usize {
    for producer in 0..PRODUCERS {
        let prefix = format!("session=0x1{producer}");
        let of_it = written.iter().filter(|text| text.starts_with(&prefix));
        assert!(of_it.is_sorted(), "{written:?}");
    }
    written.len()
}

#[test]
fn shuttle_finds_no_lost_audit_line_while_requests_wait() {
    check(|| {
        let log = log(false);
        let (producers, writer) = (start_producers(&log), start_writer(&log));
        producers.into_iter().for_each(|one| one.join().unwrap());
        log.end();
        let (written, lost) = writer.join().unwrap();
        assert_eq!((in_order(&written), lost), (LINES, 0));
    });
}

#[test]
fn shuttle_finds_no_audit_line_that_is_neither_written_nor_counted() {
    check(|| {
        let log = log(true);
        let (producers, writer) = (start_producers(&log), start_writer(&log));
        log.end();
        producers.into_iter().for_each(|one| one.join().unwrap());
        let (written, _) = writer.join().unwrap();
        let (rest, lost) = log.take();
        assert!(rest.is_empty());
        assert_eq!(in_order(&written) + usize::try_from(lost).unwrap(), LINES);
    });
}

#[test]
fn shuttle_finds_no_request_that_waits_for_an_ended_audit_log() {
    check(|| {
        let log = log(false);
        let producers = start_producers(&log);
        log.end();
        // No thread takes lines.
        producers.into_iter().for_each(|one| one.join().unwrap());
    });
}
