//! `zoarium snapshot` on intact and corrupt snapshots of Apache ZooKeeper.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Vector, stderr, stdout, vector, zoarium};

fn snapshot(options: &[&str], path: &Path) -> (Option<i32>, String, String) {
    let mut arguments = vec![OsStr::new("snapshot")];
    arguments.extend(options.iter().map(OsStr::new));
    arguments.push(path.as_os_str());
    let output = zoarium(arguments);
    (output.status.code(), stdout(&output), stderr(&output))
}

/// Returns every snapshot of a vector.
fn snapshots(vector: &Vector) -> Vec<PathBuf> {
    let files = vector.expected["files"].as_object().unwrap().keys();
    let is_snapshot = |file: &&String| file.contains("/snapshot.");
    files
        .filter(is_snapshot)
        .map(|file| vector.dir.join(file))
        .collect()
}

#[test]
fn snapshots_of_every_kind_are_good() {
    for name in [
        "fresh-standalone",
        "log-and-snapshot",
        "snap-gz",
        "snap-snappy",
        "snap-neither",
    ] {
        let Some(vector) = vector(name) else { return };
        let files = snapshots(&vector);
        assert!(!files.is_empty(), "{name}");
        for file in files {
            let (code, text, errors) = snapshot(&["--verify"], &file);
            assert_eq!(code, Some(0), "{name}: {errors}");
            assert!(text.contains(": good: "), "{text}");
        }
    }
}

#[test]
fn the_newest_snapshot_of_a_directory_is_taken() {
    let Some(vector) = vector("log-damaged") else {
        return;
    };
    let (code, text, _) = snapshot(&["--verify"], &vector.dir.join("torn-then-written"));
    assert_eq!(code, Some(0));
    assert!(text.contains("snapshot.4: good: "), "{text}");
    let empty = tempfile::tempdir().unwrap();
    let (code, _, errors) = snapshot(&[], empty.path());
    assert_eq!(code, Some(2));
    assert!(errors.contains("does not contain snapshots"), "{errors}");
}

#[test]
fn znodes_are_printed_as_the_formatter_prints_them() {
    let Some(vector) = vector("fresh-standalone") else {
        return;
    };
    let (code, text, _) = snapshot(&["-d"], &vector.dir.join("data"));
    assert_eq!(code, Some(0));
    assert!(text.starts_with("ZNode Details (count="), "{text}");
    for line in [
        "/zookeeper/quota",
        "  dataVersion = 0",
        "  data = ",
        "Last zxid: 0x0",
    ] {
        assert!(
            text.lines().any(|found| found.starts_with(line)),
            "{line} in {text}"
        );
    }
}

/// Returns the znodes of the JSON form, by path.
fn znodes(json: &Value) -> BTreeMap<&str, &Value> {
    let znodes = json["znodes"].as_array().unwrap().iter();
    znodes
        .map(|znode| (znode["path"].as_str().unwrap(), znode))
        .collect()
}

/// The output is complete: data, ACL and Stat of each znode, sessions, digest. (A server recomputes
/// the data of a quota's stats when it loads.)
#[test]
fn json_holds_what_java_reads() {
    for name in ["snap-gz", "snap-snappy"] {
        let Some(vector) = vector(name) else { return };
        let state = &vector.expected["state"];
        let (code, text, errors) = snapshot(&["--json"], &vector.dir.join("data"));
        assert_eq!(code, Some(0), "{errors}");
        let json: Value = serde_json::from_str(&text).unwrap();
        let znodes = znodes(&json);
        let expected = state["nodes"].as_object().unwrap();
        assert_eq!(znodes.len(), expected.len(), "{name}");
        for (path, java) in expected {
            compare(znodes[path.as_str()], java, &state["stored_owner"][path]);
        }
        assert_eq!(json["last_zxid"], state["last_zxid"]);
        assert_eq!(json["digest"]["digest"], state["digest"]);
        let sessions = json["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), state["sessions"].as_object().unwrap().len());
        for session in sessions {
            let java = &state["sessions"][session["id"].as_str().unwrap()];
            assert_eq!(session["timeout_ms"], java["timeout"], "{session}");
        }
    }
}

fn compare(znode: &Value, java: &Value, stored_owner: &Value) {
    let stat = &java["stat"];
    for (ours, field) in [
        ("czxid", "czxid"),
        ("mzxid", "mzxid"),
        ("pzxid", "pzxid"),
        ("ctime", "ctime"),
        ("mtime", "mtime"),
        ("version", "version"),
        ("aversion", "aversion"),
    ] {
        assert_eq!(znode[ours], stat[field], "{ours} of {znode}");
    }
    let owner = if stored_owner.is_null() {
        &stat["ephemeralOwner"]
    } else {
        stored_owner
    };
    assert_eq!(&znode["ephemeral_owner"], owner, "{znode}");
    // Clients see creations plus deletions.
    let created = znode["children_created"].as_i64().unwrap();
    let seen = 2 * created - stat["numChildren"].as_i64().unwrap();
    assert_eq!(Some(seen), stat["cversion"].as_i64(), "{znode}");
    let acl = znode["acl"].as_array().unwrap().iter();
    let acl: Value = acl
        .map(|entry| {
            [&entry["perms"], &entry["scheme"], &entry["id"]]
                .into_iter()
                .cloned()
                .collect::<Value>()
        })
        .collect();
    assert_eq!(acl, java["acl"], "{znode}");
    if !znode["path"]
        .as_str()
        .unwrap()
        .ends_with("/zookeeper_stats")
    {
        let data = java["data"].as_str().map(base64_of_hex);
        assert_eq!(znode["data"].as_str(), data.as_deref(), "{znode}");
    }
}

fn base64_of_hex(hex: &str) -> String {
    use base64::Engine;
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn a_damaged_snapshot_is_reported_and_not_printed() {
    let Some(vector) = vector("snap-gz") else {
        return;
    };
    let file = snapshots(&vector).pop().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(file.file_name().unwrap());
    let mut content = fs::read(&file).unwrap();
    content.truncate(content.len() / 2);
    fs::write(&path, content).unwrap();
    for options in [&[][..], &["--verify"], &["--json"]] {
        let (code, text, errors) = snapshot(options, &path);
        assert_eq!((code, text.as_str()), (Some(1), ""), "{options:?}");
        assert!(errors.contains(&*path.to_string_lossy()), "{errors}");
    }
}

/// Returns two snapshots of one server. The later one has one more znode.
fn grown() -> Option<(PathBuf, PathBuf)> {
    let file = |name: &str, file: &str| Some(vector(name)?.dir.join("data/version-2").join(file));
    Some((
        file("snap-no-lastzxid", "snapshot.37")?,
        file("log-and-snapshot", "snapshot.39")?,
    ))
}

fn tool(arguments: &[&OsStr]) -> (Option<i32>, String, String) {
    let mut all = vec![OsStr::new("snapshot")];
    all.extend(arguments);
    let output = zoarium(all);
    (output.status.code(), stdout(&output), stderr(&output))
}

/// The lines equal the output of Apache ZooKeeper 3.9.5's SnapshotComparer for the same files.
#[test]
fn snapshots_are_compared_level_by_level() {
    let Some((left, right)) = grown() else { return };
    let compare = |left: &Path, right: &Path, more: &[&str]| {
        let mut arguments = vec![OsStr::new("compare"), left.as_os_str(), right.as_os_str()];
        arguments.extend(more.iter().map(OsStr::new));
        tool(&arguments)
    };
    let (code, text, errors) = compare(&left, &right, &[]);
    assert_eq!(code, Some(0), "{errors}");
    for figures in [
        "Node count: 30\nTotal size: 1178\nMax depth: 5\nCount of nodes at depth 0: 1\n",
        "Node count: 31\nTotal size: 1179\nMax depth: 5\n",
        "Count of nodes at depth 1: 13\nCount of nodes at depth 2: 14\nCount of nodes at depth 3: 1\n\
         Count of nodes at depth 4: 2\n",
    ] {
        assert!(text.contains(figures), "{figures} in {text}");
    }
    let analysis = text.find("Printing analysis").map(|at| &text[at..]);
    let wanted = "Printing analysis for nodes difference larger than 0 bytes or node count difference larger \
                  than 0.\n\
                  Analysis for depth 0\n\
                  Node / found in both trees. Delta: 1 bytes, 1 descendants\n\
                  Analysis for depth 1\n\
                  Node /two found only in right tree. Descendant size: 1. Descendant count: 0\n\
                  Analysis for depth 2\nAnalysis for depth 3\nAnalysis for depth 4\nAll layers compared.\n";
    assert_eq!(analysis, Some(wanted));
    let (_, text, _) = compare(&right, &left, &[]);
    assert!(text.contains("Delta: -1 bytes, -1 descendants\n"), "{text}");
    assert!(
        text.contains("Node /two found only in left tree."),
        "{text}"
    );
    let (_, text, _) = compare(&left, &right, &["--bytes", "1", "--nodes", "1"]);
    assert!(!text.contains("Node /"), "{text}");
    let (_, text, _) = compare(&left, &right, &["--bytes", "-1"]);
    assert!(
        text.contains("Node /a/e found in both trees. Delta: 0 bytes, 0 descendants"),
        "{text}"
    );
    let (_, text, _) = compare(&left, &right, &["--output", "json"]);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["path"], "/two");
    let (code, _, errors) = compare(&left, Path::new("nowhere"), &[]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("nowhere"), "{errors}");
}

/// The lines equal the output of Apache ZooKeeper 3.9.5's SnapshotRecursiveSummary for the same
/// file, with siblings in the order of their names.
#[test]
fn sizes_are_summed_by_subtree() {
    let Some((file, _)) = grown() else { return };
    let summary = |more: &[&str]| {
        let mut arguments = vec![OsStr::new("summary"), file.as_os_str()];
        arguments.extend(more.iter().map(OsStr::new));
        tool(&arguments)
    };
    let (code, text, errors) = summary(&["/", "2"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        text.starts_with(
            " /\n   children: 29\n   data: 1178\n-- /a\n--   children: 5\n--   data: 4\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("\n---- /zookeeper/quota\n----   children: 3\n----   data: 38\n"),
        "{text}"
    );
    assert!(!text.contains("/zookeeper/quota/q"), "{text}");
    assert!(summary(&[]).1.contains("------ /zookeeper/quota/q\n"));
    assert_eq!(summary(&["/a"]).1, " /a\n   children: 5\n   data: 4\n\n");
    let (_, text, _) = summary(&["--output", "ncdu"]);
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read[3][0]["name"], "/");
    // One list for each znode with children, and one object for each other znode.
    assert_eq!(text.matches("\"name\":").count(), 30);
    let (code, _, errors) = summary(&["/nope"]);
    assert_eq!(code, Some(4));
    assert!(errors.contains("/nope does not exist"), "{errors}");
}
