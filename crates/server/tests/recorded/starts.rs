//! Tests of starts on directories whose files were moved, removed or written with other settings.

use std::fs;
use std::path::Path;

use serde_json::Value;
use storage::StorageError;

use crate::support::{Directory, Vector, copy_into, number, vector, vectors};

/// Starts a server and compares the result with Java's start on the same files.
fn check(case: &str, directory: &Directory, recorded: &Value) {
    match directory.serve() {
        Ok(started) => {
            assert_eq!(recorded["starts"], true, "{case}: started");
            assert_eq!(started.zxid.0, number(&recorded["last_zxid"]), "{case}");
            // The initialize cases do not have a digest.
            if recorded["digest"].is_string() {
                let digest = directory.recover().unwrap().tree.digest();
                let wanted = number(&recorded["digest"]);
                assert_eq!(digest.cast_signed(), wanted, "{case}");
            }
        }
        Err(error) => {
            assert_eq!(recorded["starts"], false, "{case}: {error}");
            let code = number(&recorded["exit_code"]);
            assert_eq!(i64::from(error.exit_code()), code, "{case}: {error}");
        }
    }
}

/// Returns a copy without some of its files.
fn without(vector: &Vector, names: &[&str]) -> Directory {
    let directory = vector.copy("data");
    for name in names {
        fs::remove_file(directory.file(name)).unwrap();
    }
    directory
}

#[test]
fn rolled_logs_with_some_missing() {
    let Some(vector) = vector("rolled") else {
        return;
    };
    let cases = &vector.expected["cases"];
    let newer = ["e", "1f", "2f", "3d", "4c", "57"].map(|zxid| format!("snapshot.{zxid}"));
    let newer: Vec<&str> = newer.iter().map(String::as_str).collect();
    let case = "all logs, only snapshot.0 kept";
    check(case, &without(&vector, &newer), &cases[case]);
    let case = "without log.31, newest snapshot kept";
    check(case, &without(&vector, &["log.31"]), &cases[case]);
    let case = "without log.31, only snapshot.0 kept";
    let hole = without(&vector, &[&newer[..], &["log.31"]].concat());
    check(case, &hole, &cases[case]);
    assert!(matches!(hole.recover(), Err(StorageError::Gap { .. })));
}

/// Java starts with a transaction missing directly after the snapshot, and only warns.
#[test]
fn a_transaction_missing_after_the_snapshot_is_refused() {
    let Some(vector) = vector("rolled") else {
        return;
    };
    let case = "without log.4e, snapshot.57 kept (the first record after it was there)";
    assert_eq!(vector.expected["cases"][case]["starts"], true);
    let directory = without(&vector, &["log.4e"]);
    let refusal = directory.serve().unwrap_err();
    assert_eq!(refusal.exit_code(), 1);
    let text = refusal.to_string();
    assert!(
        text.contains("log.59") && text.contains("snapshot.57"),
        "{text}"
    );
}

fn step(from: &Path, to: &Path, name: &str) {
    let name = Path::new("version-2").join(name);
    fs::rename(from.join(&name), to.join(&name)).unwrap();
}

fn none(dir: &Path) {
    fs::remove_dir_all(dir.join("version-2")).unwrap();
}

fn empty(file: &Path) {
    fs::write(file, "").unwrap();
}

#[test]
fn two_directories_mixed_up_or_missing() {
    let Some(vector) = vector("dirs-split") else {
        return;
    };
    let case = |name: &str, change: fn(&Path, &Path), lines: &str| {
        let log = tempfile::tempdir().unwrap();
        copy_into(&vector.dir.join("datalog"), log.path());
        let lines = format!("dataLogDir={}\n{lines}", log.path().display());
        let directory = vector.copy("data").with(&lines);
        change(directory.data(), log.path());
        check(name, &directory, &vector.expected["cases"][name]);
        let left = |dir: &Path| dir.join("initialize").exists();
        (left(directory.data()), left(log.path()))
    };
    let name = "log file in dataDir";
    case(name, |data, log| step(log, data, "log.a"), "");
    let name = "snapshot in dataLogDir";
    case(name, |data, log| step(data, log, "snapshot.0"), "");
    let name = "log.txt in dataDir";
    case(name, |data, _| empty(&data.join("version-2/log.txt")), "");
    let name = "logs in dataDir";
    case(name, |data, _| empty(&data.join("version-2/logs")), "");
    case("dataLogDir empty", |_, log| none(log), "");
    case("dataDir empty", |data, _| none(data), "");
    let name = "dataDir empty, datadir.autocreate=false";
    case(name, |data, _| none(data), "datadir.autocreate=false\n");
    let name = "initialize in dataDir";
    let left = case(name, |data, _| empty(&data.join("initialize")), "");
    assert_eq!(left, (true, false));
    let name = "initialize in dataLogDir";
    let left = case(name, |_, log| empty(&log.join("initialize")), "");
    assert_eq!(left, (false, false));
}

#[test]
fn the_initialize_marker() {
    let (Some(vector), Some(data)) = (vector("initialize"), vector("log-damaged")) else {
        return;
    };
    for (case, recorded) in vector.expected["cases"].as_object().unwrap() {
        let directory = if case.starts_with("with data") {
            // Any directory with five transactions.
            data.copy("single")
        } else {
            Directory::empty()
        };
        let autocreate = case.contains("db.autocreate=true");
        let directory = directory.with(&format!("db.autocreate={autocreate}\n"));
        let marker = directory.data().join("initialize");
        if !case.contains("no marker") {
            fs::write(&marker, "").unwrap();
        }
        if case == "empty, db.autocreate=false, no marker" {
            refuses_to_begin_anew(&directory, &marker, recorded);
            continue;
        }
        check(case, &directory, recorded);
        assert!(!marker.exists(), "{case}");
        let java = recorded["files"].as_array().unwrap().iter();
        let java: Vec<&str> = java
            .filter_map(|file| file.as_str()?.strip_prefix("version-2/"))
            .collect();
        assert_eq!(directory.files(), java, "{case}");
    }
}

/// Checks that this server refuses to begin a new database. Java's standalone server begins at zxid
/// -1, with a snapshot that it cannot load itself.
fn refuses_to_begin_anew(directory: &Directory, marker: &Path, java: &Value) {
    assert_eq!(java["files"][0], "version-2/snapshot.ffffffffffffffff");
    let refusal = directory.serve().unwrap_err();
    assert_eq!(refusal.exit_code(), 3);
    let text = refusal.to_string();
    assert!(text.contains("db.autocreate=false"), "{text}");
    assert!(text.contains(&marker.display().to_string()), "{text}");
    assert_eq!(directory.files(), [""; 0]);
    // The advice in the message works.
    empty(marker);
    assert_eq!(directory.serve().unwrap().zxid.0, 0);
    assert_eq!(directory.serve().unwrap().zxid.0, 0);
}

/// Java reads the sections by position, and refuses combinations that it would not write itself.
#[test]
fn snapshots_of_every_writer_load_for_every_reader() {
    let digest_off = "digest.enabled=false\n";
    let zxid_off = "serializeLastProcessedZxid.enabled=false\n";
    let settings = [
        ("both", String::new()),
        ("no-digest", digest_off.to_owned()),
        ("no-lastzxid", zxid_off.to_owned()),
        ("neither", format!("{digest_off}{zxid_off}")),
    ];
    let mut refused_by_java = 0;
    for (writer, sub) in [
        ("both", "snap-sections/both"),
        ("no-digest", "snap-no-digest/data"),
        ("no-lastzxid", "snap-no-lastzxid/data"),
        ("neither", "snap-neither/data"),
    ] {
        let (Some(vector), Some(matrix)) = (vectors(), vector("snap-sections")) else {
            return;
        };
        for (reader, lines) in &settings {
            let case = format!("written {writer}, read {reader}");
            let recorded = &matrix.expected["matrix"][&case];
            let lines = format!("extendedTypesEnabled=true\n{lines}");
            let directory = vector.copy(sub).with(&lines);
            let found = directory.recover().unwrap();
            assert_eq!(found.tree.last_zxid().0, 0x37, "{case}");
            if recorded["starts"] == true {
                check(&case, &directory, recorded);
            } else {
                refused_by_java += 1;
                directory.serve().unwrap();
            }
        }
    }
    assert_eq!(refused_by_java, 4);
}
