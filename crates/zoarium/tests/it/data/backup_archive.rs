//! `zoarium backup FILE`: a backup in one file.

use std::fs;
use std::path::Path;

use crate::data::backup::{backup, good, refused, restore, site, text, write};
use crate::history::start;
use crate::support::zoarium;

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn one_file_grows_by_the_log_and_restores_every_moment() {
    let (home, data, dir) = site().await;
    let archives = home.path().join("archives");
    fs::create_dir(&archives).unwrap();
    let file = archives.join("zk.tar");
    good(&backup(&data, &file, &[]));
    let (server, client) = start(&data, "").await;
    let middle = client.set_data("/last", "middle", -1).await.unwrap().mzxid;
    write(&client, 20, "three").await;
    drop(client);
    server.stop().await;
    let said = good(&backup(&data, &file, &[]));
    // A snapshot, the log after it, and the new transactions.
    assert!(
        said.contains(" in 3 files ") || said.contains(" in 2 files "),
        "{said}"
    );
    assert!(good(&backup(&data, &file, &[])).contains("no new transactions"));
    assert!(good(&zoarium(["backup", "--verify", text(&file)])).contains("good: "));
    // Nothing else remains next to it, and any tar program can list it.
    assert_eq!(names(&archives), ["zk.tar"]);
    let listed = std::process::Command::new("tar")
        .arg("-tf")
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        listed.stdout.starts_with(b"backup.json\n1-snapshot."),
        "{listed:?}"
    );

    for (at, content) in [(None, "three"), (Some(format!("0x{middle:x}")), "middle")] {
        let to = home.path().join(content);
        let at: Vec<&str> = at.iter().flat_map(|at| ["--at", at.as_str()]).collect();
        let said = good(&restore(&file, &to, &at));
        assert!(said.contains("zk.tar/1-snapshot."), "{said}");
        assert_eq!(names(&to), ["version-2", "zoarium.lock"]);
        let (server, client) = start(&to, "").await;
        let (found, _) = client.get_data("/last").await.unwrap();
        assert_eq!(found.unwrap(), content);
        drop(client);
        server.stop().await;
    }
    // A directory remains a directory backup, whatever its name.
    fs::rename(&dir, home.path().join("dir.tar")).unwrap();
    good(&backup(&data, &home.path().join("dir.tar"), &[]));
    assert!(home.path().join("dir.tar/backup.json").exists());
}

#[tokio::test]
async fn a_damaged_or_foreign_file_is_refused_and_stays_as_it_is() {
    let (home, data, _) = site().await;
    let (file, to) = (home.path().join("zk.tar"), home.path().join("to"));
    good(&backup(&data, &file, &[]));
    let whole = fs::read(&file).unwrap();
    let with = |at: usize, byte: u8| {
        let mut changed = whole.clone();
        changed[at] ^= byte;
        changed
    };
    let is_gz = |two: &[u8]| two == [0x1f, 0x8b];
    let compressed = whole.windows(2).position(is_gz).unwrap();
    let mut foreign = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    foreign
        .append_data(&mut header, "1-log.a/../../escaped", &b"bad"[..])
        .unwrap_err();
    foreign
        .append_data(&mut header, "notes.txt", &b"abc"[..])
        .unwrap();
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    let mut links = tar::Builder::new(Vec::new());
    links
        .append_link(&mut link, "1-log.1.gz", "/etc/passwd")
        .unwrap();
    let broken = [
        with(700, 1),
        with(compressed + 40, 4),
        with(0, 1),
        whole[..whole.len() / 2].to_vec(),
        whole[..600].to_vec(),
        Vec::new(),
        b"no archive at all, and longer than a header of one".repeat(20),
        foreign.into_inner().unwrap(),
        links.into_inner().unwrap(),
    ];
    for content in broken {
        fs::write(&file, &content).unwrap();
        refused(&restore(&file, &to, &[]), 1, &["use another"]);
        refused(&zoarium(["backup", "--verify", text(&file)]), 1, &[]);
        assert!(!to.join("version-2").exists() && !to.join("zoarium.restoring").exists());
        assert_eq!(fs::read(&file).unwrap(), content);
    }
    // An invalid archive is neither extended nor overwritten.
    refused(&backup(&data, &file, &[]), 1, &["not a backup"]);
    good(&backup(&data, &file, &["--full"]));
    good(&restore(&file, &to, &[]));
    assert!(!home.path().join("zk.tar.unfinished").exists());
}
