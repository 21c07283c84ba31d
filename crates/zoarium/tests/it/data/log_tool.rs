//! `zoarium log` on intact and corrupt logs of Apache ZooKeeper.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::support::{Vector, stderr, stdout, vector, zoarium};

const SINGLE: &str = "single/version-2/log.1";

fn damaged() -> Option<Vector> {
    vector("log-damaged")
}

/// Runs `zoarium log` with these options and files, and returns exit code and output.
fn log(options: &[&str], paths: &[&Path]) -> (Option<i32>, String) {
    let mut arguments = vec![OsStr::new("log")];
    arguments.extend(options.iter().map(OsStr::new));
    arguments.extend(paths.iter().map(|path| path.as_os_str()));
    let output = zoarium(arguments);
    (output.status.code(), stdout(&output) + &stderr(&output))
}

#[test]
fn a_log_is_printed_as_the_toolkit_prints_it() {
    let Some(vector) = vector("close-session-no-body") else {
        return;
    };
    for (file, lines) in vector.expected["toolkit"].as_object().unwrap() {
        let (code, text) = log(&[], &[&vector.dir.join(file)]);
        let lines = lines.as_array().unwrap().iter();
        let expected: String = lines
            .map(|line| format!("{}\n", line.as_str().unwrap()))
            .collect();
        assert_eq!((code, text), (Some(0), expected), "{file}");
    }
}

#[test]
fn a_directory_is_all_its_logs() {
    let Some(vector) = damaged() else { return };
    for dir in ["pair", "pair/version-2"] {
        let (code, text) = log(&["--verify"], &[&vector.dir.join(dir)]);
        let verdicts: Vec<&str> = text.lines().collect();
        assert_eq!((code, verdicts.len()), (Some(0), 2), "{text}");
        assert!(
            verdicts[0].contains("log.1: good: 5 records, zxid 0x1 to 0x5, 457 of 457 bytes used"),
            "{text}"
        );
        assert!(verdicts[1].contains("log.6: good: "), "{text}");
        let (code, text) = log(&[], &[&vector.dir.join(dir)]);
        assert_eq!(code, Some(0));
        assert_eq!(text.matches("Transactional Log File").count(), 2, "{text}");
    }
}

#[test]
fn files_after_a_crash_are_valid() {
    let Some(vector) = damaged() else { return };
    let (_dir, path) = vector.edited(SINGLE, "edits_of_log.1", "cut at record+57");
    let (code, text) = log(&["--verify"], &[&path]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("good: 4 records, zxid 0x1 to 0x4, 354 of 411 bytes used"),
        "{text}"
    );
    assert!(
        text.contains("an incomplete record begins at offset 354, as after a crash"),
        "{text}"
    );
}

#[test]
fn damage_is_reported_with_its_offset_and_exit_code_1() {
    let Some(vector) = damaged() else { return };
    let flip = "flip payload byte, middle";
    let (_dir, path) = vector.edited(SINGLE, "edits_of_log.1", flip);
    let (code, text) = log(&["--verify"], &[&path]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("log.1: damaged: 4 records"), "{text}");
    assert!(text.contains("log.1: offset 180: "), "{text}");
    let (code, text) = log(&[], &[&path]);
    assert_eq!(code, Some(0), "as the toolkit has it");
    assert_eq!(text.matches("CRC ERROR - ").count(), 1, "{text}");

    let end_byte = "flip end byte, middle";
    let (_dir, path) = vector.edited(SINGLE, "edits_of_log.1", end_byte);
    let (code, text) = log(&[], &[&path]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.ends_with("Last transaction was partial.\n"), "{text}");
}

#[test]
fn an_invalid_log_is_named() {
    let Some(vector) = damaged() else { return };
    let snapshot = vector.dir.join("single/version-2/snapshot.0");
    for options in [&[][..], &["--verify"], &["--repair"], &["--chop", "3"]] {
        let (code, text) = log(options, &[&snapshot]);
        assert_eq!(code, Some(1));
        assert!(
            text.contains("snapshot.0 is not a transaction log"),
            "{options:?}: {text}"
        );
    }
    let (code, text) = log(&["--verify"], &[Path::new("/nowhere/log.1")]);
    assert_eq!(code, Some(1));
    assert!(text.contains("/nowhere/log.1"), "{text}");
}

#[test]
fn transactions_missing_between_logs_are_reported() {
    let Some(vector) = damaged() else { return };
    let (dir, path) = vector.copied("pair/version-2/log.1");
    fs::copy(
        vector.dir.join("pair/version-2/log.6"),
        dir.path().join("log.6"),
    )
    .unwrap();
    let (code, _) = log(&["--chop", "0x3", "--replace"], &[&path]);
    assert_eq!(code, Some(0));
    let (code, text) = log(&["--verify"], &[dir.path()]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains(
            "log.6: transactions are missing, because this log begins with zxid 0x6 but "
        ),
        "{text}"
    );
}

#[test]
fn a_log_is_cut_into_a_copy() {
    let Some(vector) = damaged() else { return };
    let (dir, path) = vector.copied(SINGLE);
    let original = fs::read(&path).unwrap();
    let (code, text) = log(&["--chop", "0x3"], &[&path]);
    assert_eq!(code, Some(0), "{text}");
    let copy = dir.path().join("chopped.log.1");
    assert!(
        text.contains("chopped.log.1: written with 3 records up to zxid 0x3"),
        "{text}"
    );
    assert_eq!(fs::read(&path).unwrap(), original);
    let kept = fs::read(&copy).unwrap();
    assert!(
        original.starts_with(&kept) && kept.len() == 255,
        "{}",
        kept.len()
    );
    let (code, text) = log(&["--verify"], &[&copy]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_repaired_log_takes_the_place_of_the_damaged_one() {
    let Some(vector) = damaged() else { return };
    let (dir, path) = vector.edited(SINGLE, "edits_of_log.1", "flip low length byte, middle");
    let bad = fs::read(&path).unwrap();
    let (code, text) = log(&["--repair"], &[&path]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("corrected the length of the record of zxid 0x3; no data is lost"),
        "{text}"
    );
    assert!(
        text.contains("is unchanged; --replace replaces it with the copy"),
        "{text}"
    );
    assert_eq!(fs::read(&path).unwrap(), bad);

    let (code, text) = log(&["--repair", "--replace"], &[&path]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("cannot detect a server"), "{text}");
    assert_eq!(
        fs::read(&path).unwrap(),
        fs::read(vector.dir.join(SINGLE)).unwrap()
    );
    assert_eq!(fs::read(dir.path().join("damaged.log.1")).unwrap(), bad);
    assert!(!dir.path().join("repaired.log.1").exists());
    let (code, _) = log(&["--verify"], &[&path]);
    assert_eq!(code, Some(0));
}

#[test]
fn a_wrong_checksum_ends_the_copy_unless_it_is_accepted() {
    let Some(vector) = damaged() else { return };
    let (dir, path) = vector.edited(SINGLE, "edits_of_log.1", "flip payload byte, middle");
    let (code, text) = log(&["--repair"], &[&path]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("the record's checksum is wrong; the copy omits 277 bytes from this offset"),
        "{text}"
    );
    assert!(text.contains("2 records up to zxid 0x2"), "{text}");
    let (code, text) = log(&["--repair", "--accept-checksums"], &[&path]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("5 records up to zxid 0x5"), "{text}");
    let (code, _) = log(&["--verify"], &[&dir.path().join("repaired.log.1")]);
    assert_eq!(code, Some(0));
}

#[test]
fn senseless_arguments_are_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    for (options, paths) in [
        (&["--replace"][..], &[dir.path()][..]),
        (&["--repair"], &[dir.path()]),
        (&["--chop", "5"], &[Path::new("a"), Path::new("b")]),
        (&["--chop", "zero"], &[Path::new("a")]),
        (&["--verify"], &[dir.path()]),
        (&[], &[]),
    ] {
        let (code, text) = log(options, paths);
        assert_eq!(code, Some(2), "{options:?}: {text}");
    }
}
