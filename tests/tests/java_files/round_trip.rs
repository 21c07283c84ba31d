//! Java's directory, opened and extended by Zoarium, and opened again by Java.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tests::{Flavour, Missing, Server, ServerBuilder, or_skip, wait_for};

use crate::content::{Author, MANY};
use crate::state::{State, builder};

/// Log lines of the servers about a digest that differs from the recorded one.
const MISMATCHES: [&str; 4] = [
    "Digests are not matching",
    "digest mismatch",
    "of snapshot digest does not exist",
    "digest of the tree differs",
];

/// Time limit for a snapshot of all data on a busy machine, including the pause after the previous
/// snapshot.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(180);

/// Starts a server on the directory.
fn start(flavour: Flavour, dir: &Path, settings: &[(&str, &str)]) -> Result<Server, Missing> {
    let builder = builder(flavour).data_dir(dir);
    let set = |builder: ServerBuilder, (key, value): &(&str, &str)| builder.setting(key, value);
    settings.iter().fold(builder, set).start()
}

/// Starts a server on the directory, and reads its state.
fn open(flavour: Flavour, dir: &Path, with_many: bool) -> Result<(Server, State), Missing> {
    let begun = Instant::now();
    let server = start(flavour, dir, &[])?;
    let started = begun.elapsed();
    let state = State::of(&server, with_many);
    let read = begun.elapsed() - started;
    println!("{flavour:?}: serves in {started:?}, read in {read:?}");
    check_digests(&server);
    Ok((server, state))
}

pub(crate) fn check_digests(server: &Server) {
    let count = server.metric("digest_mismatches_count");
    assert_eq!(count.as_deref(), Some("0"));
    let log = server.log();
    for line in log.lines() {
        assert!(!MISMATCHES.iter().any(|text| line.contains(text)), "{line}");
    }
}

/// Returns the files of `version-2` whose names have this prefix and this suffix.
fn files(dir: &Path, prefix: &str, suffix: &str) -> Vec<String> {
    let entries = fs::read_dir(dir.join("version-2")).expect("a data directory");
    let names = entries.map(|entry| entry.expect("a file").file_name());
    let names = names.map(|name| name.into_string().expect("a name"));
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with(prefix) && name.ends_with(suffix))
        .collect();
    names.sort_by_key(|name| {
        let hex = name.split('.').nth(1).unwrap_or_default();
        u64::from_str_radix(hex, 16).expect("a zxid in a name")
    });
    names
}

fn is_snapshot_under_way(dir: &Path) -> bool {
    let entries = fs::read_dir(dir.join("version-2")).expect("a data directory");
    let mut names = entries.map(|entry| entry.expect("a file").file_name());
    names.any(|name| name.to_string_lossy().starts_with("unfinished."))
}

fn copy(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    fs::create_dir(copy.path().join("version-2")).expect("a directory");
    for name in files(dir, "", "").iter().filter(|name| name.contains('.')) {
        let file = Path::new("version-2").join(name);
        fs::copy(dir.join(&file), copy.path().join(&file)).expect("copy a file");
    }
    copy
}

/// Java writes all kinds of data and a hundred thousand znodes, in a session that stays open.
fn write_by_java(dir: &Path) -> Result<(Author, State), Missing> {
    let builder = builder(Flavour::Apache).data_dir(dir);
    let mut server = builder.start()?;
    let begun = Instant::now();
    let mut author = Author::new(&server, "/java");
    author.write_everything(&server);
    author.write_many();
    println!("Apache: written in {:?}", begun.elapsed());
    let state = State::of(&server, true);
    assert!(state.dump().znodes.len() > MANY);
    check_digests(&server);
    // The last writes are only in the log.
    server.kill();
    Ok((author, state))
}

/// Zoarium changes Java's znodes and writes all kinds of data again, with a kill and a restart
/// between.
fn write_by_zoarium(dir: &Path, author: &Author, before: &State) -> (Author, State) {
    let (mut server, state) = open(Flavour::Zoarium, dir, true).expect("our server");
    state.assert_same(before, "Java's data in Zoarium");
    state.assert_same_digest(before, "Java's data in Zoarium");
    let mut author = author.moved_to(&server, "/zoarium");
    author.write_on("/java");
    author.write_everything(&server);
    server.crash_and_restart();
    author = author.moved_to(&server, "/zoarium");
    author.write_often("often", 200);
    server.kill();
    for method in ["gz", "snappy"] {
        author = write_snapshots(dir, &author, method);
    }
    let (mut server, state) = open(Flavour::Zoarium, dir, true).expect("our server");
    wait_for("snapshot of the start", SNAPSHOT_LIMIT, || {
        let newest = files(dir, "snapshot.", "").pop();
        newest.filter(|newest| is_of_form(newest, ""))
    });
    server.kill();
    (author, state)
}

/// Writes until a snapshot of this format was taken meanwhile, in addition to the snapshot of the
/// start. After a large snapshot the server pauses.
fn write_snapshots(dir: &Path, author: &Author, method: &str) -> Author {
    let settings = [
        ("snapCount", "400"),
        ("preAllocSize", "64"),
        ("snapshot.compression.method", method),
    ];
    let mut server = start(Flavour::Zoarium, dir, &settings).expect("our server");
    let mut author = author.moved_to(&server, "/zoarium");
    let suffix = format!(".{method}");
    // The snapshot of the start takes much longer during writes, and so does the pause after it.
    wait_for("the snapshot of the start", SNAPSHOT_LIMIT, || {
        (!is_snapshot_under_way(dir)).then_some(())
    });
    let begun = Instant::now();
    for round in 0.. {
        let is_late = begun.elapsed() > SNAPSHOT_LIMIT;
        assert!(!is_late, "no snapshot is taken:\n{}", server.log());
        author.write_often(&format!("{method}{round}"), 300);
        if files(dir, "snapshot.", &suffix).len() > 1 {
            break;
        }
    }
    // These digests are comparable, whatever state the server started from.
    author.write_often(&format!("{method}-last"), 150);
    check_digests(&server);
    server.kill();
    author
}

#[test]
#[ignore = "runs other people's programs"]
fn data_goes_from_java_to_zoarium_and_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((author, by_java)) = or_skip("data written by Java", write_by_java(dir.path())) else {
        return;
    };
    let (author, by_zoarium) = write_by_zoarium(dir.path(), &author, &by_java);
    // The last start wrote an uncompressed snapshot. The others were written under load.
    let whole = copy(dir.path());
    drop(check_in_java(whole.path(), "", &by_zoarium, true));
    let by_zoarium = by_zoarium.without_many();
    for suffix in [".snappy", ".gz"] {
        let copy = copy(dir.path());
        while let Some(newest) = files(copy.path(), "snapshot.", "").pop()
            && !is_of_form(&newest, suffix)
        {
            fs::remove_file(copy.path().join("version-2").join(newest)).expect("remove");
        }
        let server = check_in_java(copy.path(), suffix, &by_zoarium, false);
        if suffix == ".snappy" {
            write_by_java_again(server, copy.path(), &author);
        }
    }
}

fn is_of_form(snapshot: &str, suffix: &str) -> bool {
    match suffix {
        "" => snapshot.matches('.').count() == 1,
        suffix => snapshot.ends_with(suffix),
    }
}

/// Java reads Zoarium's data from a snapshot of this format and the later logs.
fn check_in_java(dir: &Path, suffix: &str, before: &State, with_many: bool) -> Server {
    let newest = files(dir, "snapshot.", "").pop().expect("a snapshot");
    assert!(is_of_form(&newest, suffix), "{newest}");
    let what = format!("Zoarium's data in Java, from {newest}");
    let (server, state) = open(Flavour::Apache, dir, with_many).expect("Java, as before");
    let log = server.log();
    let file = dir.join("version-2").join(newest);
    let read = format!("Reading snapshot {}", file.display());
    assert!(log.contains(&read), "{log}");
    state.assert_same(before, &what);
    if !suffix.is_empty() {
        state.assert_same_digest(before, &what);
    }
    server
}

/// Java continues with the same session, and Zoarium reads the result.
fn write_by_java_again(mut server: Server, dir: &Path, author: &Author) {
    let mut author = author.moved_to(&server, "/later");
    author.write_on("/zoarium");
    author.write_everything(&server);
    author.write_often("often", 100);
    author.session.close().expect("the end of the session");
    let by_java = State::of(&server, false);
    check_digests(&server);
    server.terminate();
    let (_server, state) = open(Flavour::Zoarium, dir, false).expect("our server");
    state.assert_same(&by_java, "Java's further data in Zoarium");
    state.assert_same_digest(&by_java, "Java's further data in Zoarium");
}
