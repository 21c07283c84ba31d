//! The verdict of porcupine about histories with and without a planted fault.

use std::path::Path;

use jepsen::history::{Kind, Process, Recorder};
use jepsen::run::porcupine::judge;
use serde_json::{Value, json};

/// Number of registers, and calls of each.
const KEYS: u64 = 20;
const CALLS: u64 = 100;

/// Writes a history in which each register has writes with known and unknown outcomes, and reads.
/// The last read of a register shows this many versions too few.
fn write(path: &Path, missing: i64) {
    let recorder = Recorder::create(path).expect("a history");
    let record = |process, kind, f, key: &str, value| {
        recorder.record(Process::Client(process), kind, f, Some(key), value, None);
    };
    let mut process = 0;
    for key in 0..KEYS {
        let name = format!("r{key}");
        let (mut version, mut data) = (0, 0);
        for call in 0..CALLS {
            process += 1;
            let next = i64::try_from(key * CALLS + call + 1).expect("a small number");
            record(process, Kind::Invoke, "write", &name, json!(next));
            match call % 10 {
                // It happens, as the next call shows.
                3 => record(process, Kind::Info, "write", &name, Value::Null),
                // It does not happen.
                7 => {
                    record(process, Kind::Info, "write", &name, Value::Null);
                    continue;
                }
                _ => record(
                    process,
                    Kind::Ok,
                    "write",
                    &name,
                    json!([version + 1, next]),
                ),
            }
            (version, data) = (version + 1, next);
        }
        process += 1;
        let shown = if key == KEYS / 2 { missing } else { 0 };
        record(process, Kind::Invoke, "read", &name, Value::Null);
        let answer = json!([version - shown, data - shown]);
        record(process, Kind::Ok, "read", &name, answer);
    }
    recorder.flush().expect("a complete history");
}

#[test]
#[ignore = "runs other people's programs"]
fn porcupine_accepts_a_history_and_rejects_it_with_a_planted_fault() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("history.jsonl");
    write(&path, 0);
    let line = judge(&path).expect("a verdict");
    assert_eq!(line, "valid 20 keys 2020 calls");
    write(&path, 1);
    let line = judge(&path).expect("a verdict");
    assert_eq!(line, "invalid key r10 of 20 keys 2020 calls");
}
