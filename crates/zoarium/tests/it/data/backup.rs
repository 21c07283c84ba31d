//! `zoarium backup`: complete and refused backups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use client::{Client, Create};
use serde_json::Value;
use storage::{Disk, RealDisk};

use crate::history::start;
use crate::support::{stderr, stdout, vector, zoarium};

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn backup(data: &Path, dir: &Path, more: &[&str]) -> Output {
    let arguments = ["backup", text(dir), "--data-dir", text(data)];
    zoarium(arguments.iter().chain(more))
}

pub(crate) fn restore(dir: &Path, to: &Path, more: &[&str]) -> Output {
    let arguments = ["restore", "--backup", text(dir), "--to", text(to)];
    zoarium(arguments.iter().chain(more))
}

fn manifest(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("backup.json")).unwrap()).unwrap()
}

pub(crate) fn refused(output: &Output, code: i32, reasons: &[&str]) {
    let complaint = stderr(output);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{complaint}{}",
        stdout(output)
    );
    for reason in reasons {
        assert!(
            complaint.contains(reason),
            "{reason} is not in: {complaint}"
        );
    }
}

pub(crate) fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output)
}

pub(crate) async fn write(client: &Client, count: usize, content: &str) {
    let content = content.to_owned();
    let persistent = Create::persistent();
    for _ in 0..count {
        let create = Create::persistent().sequential();
        client
            .create("/a-", content.clone(), &create)
            .await
            .unwrap();
    }
    let _ = client.create("/last", content.clone(), &persistent).await;
    client.set_data("/last", content, -1).await.unwrap();
}

/// Creates a data directory, and a backup of it with a snapshot and two logs.
pub(crate) async fn site() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let (data, dir) = (home.path().join("data"), home.path().join("backup"));
    fs::create_dir(&data).unwrap();
    for content in ["one", "two"] {
        let (server, client) = start(&data, "").await;
        write(&client, 20, content).await;
        // While the server runs.
        good(&backup(&data, &dir, &[]));
        drop(client);
        server.stop().await;
    }
    (home, data, dir)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "gz"));
    files.sort();
    files
}

#[tokio::test]
async fn a_backup_grows_by_the_log_and_restores_every_moment() {
    let (home, data, dir) = site().await;
    let names: Vec<_> = files(&dir);
    assert_eq!(names.len(), 3, "{names:?}");
    let (to, other) = (home.path().join("to"), home.path().join("other"));
    good(&restore(&dir, &to, &[]));
    let (server, client) = start(&to, "").await;
    let (found, _) = client.get_data("/last").await.unwrap();
    assert_eq!(found.unwrap(), "two");
    drop(client);
    server.stop().await;
    // The end of the first log, as the manifest records it.
    let at = manifest(&dir)["logs"][0]["last"]
        .as_str()
        .unwrap()
        .to_owned();
    good(&restore(&dir, &other, &["--at", &at]));
    let (server, client) = start(&other, "").await;
    let (found, _) = client.get_data("/last").await.unwrap();
    assert_eq!(found.unwrap(), "one");
    drop(client);
    server.stop().await;
    assert!(good(&zoarium(["backup", "--verify", text(&dir)])).contains("good: "));
    good(&backup(&data, &dir, &[]));
    let once_more = good(&backup(&data, &dir, &[]));
    assert!(once_more.contains("no new transactions"), "{once_more}");
    // A full backup has one snapshot, and the previous files are removed.
    good(&backup(&data, &dir, &["--full"]));
    assert!(files(&dir).len() <= 2);
    good(&zoarium(["backup", "--verify", text(&dir)]));
}

/// One changed byte, or a file that is truncated, too long or missing, is detected and named.
/// Nothing is restored.
#[tokio::test]
async fn damaged_backups_are_refused_with_the_file_and_the_way_out() {
    let (home, _, dir) = site().await;
    let to = home.path().join("to");
    let last_good = manifest(&dir)["logs"][0]["last"]
        .as_str()
        .unwrap()
        .to_owned();
    for (number, file) in files(&dir).into_iter().enumerate() {
        let content = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let way_out = match number {
            2 => format!("restore earlier transactions with --at {last_good}"),
            1 => "--at 0x".to_owned(),
            _ => "this backup cannot be restored: use another backup".to_owned(),
        };
        let mut changes: Vec<Option<Vec<u8>>> = vec![None, Some(Vec::new())];
        changes.push(Some(content[..content.len() - 1].to_vec()));
        changes.push(Some([&content[..], b"x"].concat()));
        for at in (0..content.len()).step_by(content.len() / 9) {
            let mut changed = content.clone();
            changed[at] ^= 0x10;
            changes.push(Some(changed));
        }
        for change in changes {
            match change {
                None => fs::remove_file(&file).unwrap(),
                Some(changed) => fs::write(&file, changed).unwrap(),
            }
            refused(
                &restore(&dir, &to, &[]),
                1,
                &[name, "is damaged or missing", &way_out],
            );
            refused(&zoarium(["backup", "--verify", text(&dir)]), 1, &[name]);
            assert!(!to.join("version-2").exists() && !to.join("zoarium.restoring").exists());
        }
        if number == 2 {
            // The proposed solution works.
            good(&restore(&dir, &to, &["--at", &last_good]));
            fs::remove_dir_all(&to).unwrap();
        }
        fs::write(&file, content).unwrap();
    }
    good(&restore(&dir, &to, &[]));
    fs::remove_dir_all(&to).unwrap();
    fs::write(dir.join("backup.json"), "{}").unwrap();
    refused(&restore(&dir, &to, &[]), 1, &["backup.json is damaged"]);
}

#[tokio::test]
async fn a_backup_of_another_history_is_not_extended() {
    let (home, data, dir) = site().await;
    let before = fs::read(dir.join("backup.json")).unwrap();
    // The same number of transactions, but different ones.
    let strange = home.path().join("strange");
    fs::create_dir(&strange).unwrap();
    for content in ["eins", "zwei", "drei"] {
        let (server, client) = start(&strange, "").await;
        write(&client, 20, content).await;
        drop(client);
        server.stop().await;
    }
    refused(
        &backup(&strange, &dir, &[]),
        1,
        &["differs from the last transaction of the backup", "--full"],
    );
    // A server with fewer transactions.
    let young = home.path().join("young");
    fs::create_dir(&young).unwrap();
    let (server, client) = start(&young, "").await;
    drop(client);
    server.stop().await;
    refused(
        &backup(&young, &dir, &[]),
        1,
        &["does not continue from", "--full"],
    );
    assert_eq!(fs::read(dir.join("backup.json")).unwrap(), before);
    good(&backup(&data, &dir, &[]));
    // A directory with other files.
    refused(&backup(&data, &data, &[]), 2, &["and is not a backup"]);
    refused(
        &restore(&data, &home.path().join("to"), &[]),
        1,
        &["does not contain a complete backup"],
    );
    let empty = home.path().join("empty");
    fs::create_dir(&empty).unwrap();
    refused(
        &backup(&empty, &home.path().join("new"), &[]),
        1,
        &["version-2"],
    );
    let missing = zoarium([
        "backup",
        text(&home.path().join("x")),
        "--server",
        "127.0.0.1:1",
    ]);
    refused(&missing, 7, &["127.0.0.1:1"]);
}

/// Two concurrent backups, or a restore while a server runs.
#[tokio::test]
async fn a_directory_in_use_is_unchanged() {
    let (home, data, dir) = site().await;
    let to = home.path().join("to");
    fs::create_dir(&to).unwrap();
    {
        let _held = RealDisk.lock(&dir.join("zoarium.lock")).unwrap().unwrap();
        refused(&backup(&data, &dir, &[]), 1, &[text(&dir), "in use"]);
        refused(&zoarium(["backup", "--verify", text(&dir)]), 1, &["in use"]);
        let _held = RealDisk.lock(&to.join("zoarium.lock")).unwrap().unwrap();
        refused(&restore(&dir, &to, &[]), 1, &[text(&to), "in use"]);
    }
    good(&restore(&dir, &to, &[]));
}

/// The disk of the backup, or of the target, is full.
#[tokio::test]
async fn a_full_disk_keeps_existing_files() {
    let (home, data, dir) = site().await;
    let (server, client) = start(&data, "").await;
    write(&client, 200, &"x".repeat(4096)).await;
    drop(client);
    server.stop().await;
    let before = fs::read(dir.join("backup.json")).unwrap();
    let limited = |arguments: &str| {
        // The unit is 1024 bytes. Without the signal, the write fails with an error.
        let line = format!(
            "trap '' XFSZ; ulimit -f 8; exec {} {arguments}",
            env!("CARGO_BIN_EXE_zoarium")
        );
        Command::new("bash").args(["-c", &line]).output().unwrap()
    };
    let output = limited(&format!("backup {} --data-dir {}", text(&dir), text(&data)));
    refused(&output, 1, &["cannot write", text(&dir)]);
    assert_eq!(fs::read(dir.join("backup.json")).unwrap(), before);
    good(&zoarium(["backup", "--verify", text(&dir)]));
    good(&backup(&data, &dir, &[]));
    let to = home.path().join("to");
    let output = limited(&format!(
        "restore --backup {} --to {}",
        text(&dir),
        text(&to)
    ));
    refused(&output, 1, &["cannot write", text(&to)]);
    assert!(!to.join("version-2").exists());
    good(&restore(&dir, &to, &[]));
}

/// Data of Apache ZooKeeper can be backed up as well, and has the digests that it logged.
#[test]
fn directories_of_java_are_backed_up() {
    for name in ["txns-all", "rolled", "log-and-snapshot"] {
        let Some(vector) = vector(name) else {
            continue;
        };
        let home = tempfile::tempdir().unwrap();
        let (dir, to) = (home.path().join("backup"), home.path().join("to"));
        good(&backup(&vector.dir.join("data"), &dir, &[]));
        good(&restore(&dir, &to, &[]));
        let again = home.path().join("again");
        good(&backup(&to, &again, &[]));
        assert_eq!(
            manifest(&again)["digest"],
            manifest(&dir)["digest"],
            "{name}"
        );
    }
}

/// Logs have a separate directory, and both directories receive their files.
#[tokio::test]
async fn logs_are_restored_into_their_own_directory() {
    let (home, _, dir) = site().await;
    let (to, log) = (home.path().join("to"), home.path().join("log"));
    fs::create_dir(&to).unwrap();
    fs::write(to.join("myid"), "1\n").unwrap();
    good(&restore(&dir, &to, &["--to-log", text(&log)]));
    assert!(log.join("version-2").is_dir());
    let (server, client) = start(&to, &format!("dataLogDir={}\n", log.display())).await;
    let (found, _) = client.get_data("/last").await.unwrap();
    assert_eq!(found.unwrap(), "two");
    drop(client);
    server.stop().await;
}
