//! `zoarium backup` and `zoarium restore` while servers are under load, with kills of both. A
//! backup is complete or not valid, and a restored tree equals the server's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;
use tests::ensemble::{EnsembleBuilder, Load, check};
use tests::secrets::SUPER_DIGEST;
use tests::{
    Dump, Flavour, Port, Process, RawSession, Server, ServerBuilder, assert_modes, or_skip,
    zoarium_binary,
};

/// Number of rounds of load, kills and backups.
const ROUNDS: usize = 14;
/// Number of writes that prove progress.
const PROGRESS: u64 = 40;
/// Administrator's identity, which a backup requires.
const WHO: &str = "digest super:secret";

fn zoarium(arguments: &[&str]) -> Command {
    let mut command = Command::new(zoarium_binary());
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    zoarium(arguments).output().expect("run zoarium")
}

fn done(arguments: &[&str]) -> String {
    let output = run(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of a test is text")
}

/// Returns the contents of `backup.json`.
fn manifest(dir: &Path) -> Value {
    let text = std::fs::read(dir.join("backup.json")).expect("a backup");
    serde_json::from_slice(&text).expect("JSON")
}

/// Returns the last transaction of a data directory and the digest of its tree, from a backup of
/// its files.
fn end_of(data: &Path) -> (String, String) {
    let dir = tempfile::tempdir().expect("a directory");
    done(&["backup", text(dir.path()), "--data-dir", text(data)]);
    ends(&manifest(dir.path()))
}

fn ends(manifest: &Value) -> (String, String) {
    let field = |name: &str| manifest[name].as_str().expect("text").to_owned();
    (field("last_zxid"), field("digest"))
}

/// Runs the command, and kills it after a time. The random moment is essential, so there is no
/// condition to wait for.
fn killed(arguments: &[&str], after: Duration) {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let mut process = Process::spawn(&mut zoarium(arguments), log.path()).expect("run zoarium");
    thread::sleep(after);
    process.kill();
}

fn some_time(rng: &mut Rng) -> Duration {
    Duration::from_micros(rng.u64(1_000..250_000))
}

struct Site {
    server: Server,
    admin: String,
    _reserved: Port,
    home: tempfile::TempDir,
}

impl Site {
    fn start() -> Option<Site> {
        let port = Port::take();
        let builder = ServerBuilder::new(Flavour::Zoarium)
            .setting("maxSessionTimeout", "60000")
            .setting("snapCount", "400")
            .setting("preAllocSize", "64")
            .setting("history.enabled", "true")
            .setting("admin.enableServer", "true")
            .setting("admin.serverAddress", "127.0.0.1")
            .setting("admin.serverPort", &port.number().to_string())
            .property(
                "zookeeper.DigestAuthenticationProvider.superDigest",
                SUPER_DIGEST,
            );
        let server = or_skip("backups", builder.start())?;
        Some(Site {
            server,
            admin: format!("127.0.0.1:{}", port.number()),
            _reserved: port,
            home: tempfile::tempdir().expect("a directory"),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

#[test]
fn backups_under_load_are_complete_despite_kills() {
    let Some(mut site) = Site::start() else {
        return;
    };
    let seed = fastrand::u64(..);
    println!("the times of the kills are those of seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let dir = site.path("backup");
    let admin = site.admin.clone();
    let online = ["backup", text(&dir), "--server", &admin, "--auth", WHO];
    let output = run(&["backup", text(&dir), "--server", &admin]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains("Auth info is missing"), "{complaint}");
    let load = Load::start(&[site.server.address()]);
    let mut checked = Vec::new();
    for round in 0..ROUNDS {
        load.wait_for_progress(PROGRESS);
        match round % 4 {
            0 => killed(&online, some_time(&mut rng)),
            1 => {
                // The server is killed during the backup. The result is an error, or a backup that
                // was complete.
                thread::scope(|scope| {
                    let taking = scope.spawn(|| run(&online));
                    thread::sleep(Duration::from_micros(rng.u64(1_000..150_000)));
                    site.server.kill();
                    taking.join().expect("a backup that ends");
                });
                site.server.launch().expect("a start after a kill");
            }
            2 if round > 8 => {
                done(&[
                    "backup",
                    text(&dir),
                    "--full",
                    "--server",
                    &admin,
                    "--auth",
                    WHO,
                ]);
            }
            _ => {
                done(&online);
            }
        }
        checked.extend(whole_or_nothing(&site, &dir));
    }
    let report = load.finish();
    println!("{}", report.summary());
    assert!(checked.len() > ROUNDS / 2, "{checked:?}");
    done(&online);
    site.server.terminate();

    // The files of the server, truncated at the same transactions, lead to the same trees.
    let mut compared = 0;
    for (zxid, digest) in &checked {
        let to = tempfile::tempdir().expect("a directory");
        let data = text(site.server.data_dir());
        done(&[
            "restore",
            "--data-dir",
            data,
            "--to",
            text(to.path()),
            "--at",
            zxid,
        ]);
        assert_eq!(end_of(to.path()), (zxid.clone(), digest.clone()));
        compared += 1;
    }
    assert!(compared > 4);
    restores_are_whole_or_nothing(&site, &dir, &mut rng);
}

/// Returns the last transaction of a backup and the digest of its tree, or `None` if it is not
/// complete yet.
fn whole_or_nothing(site: &Site, dir: &Path) -> Option<(String, String)> {
    if dir.join("backup.json").exists() {
        done(&["backup", "--verify", text(dir)]);
        return Some(ends(&manifest(dir)));
    }
    let to = site.path("nothing");
    let output = run(&["restore", "--backup", text(dir), "--to", text(&to)]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let reason = "does not contain a complete backup";
    assert!(complaint.contains(reason), "{complaint}");
    assert!(!to.join("version-2").exists());
    None
}

fn restores_are_whole_or_nothing(site: &Site, dir: &Path, rng: &mut Rng) {
    let to = site.path("restored");
    let restore = ["restore", "--backup", text(dir), "--to", text(&to)];
    let wanted = ends(&manifest(dir));
    let mut kills_before = 0;
    for number in 0..8 {
        // The first backup has hardly started, on any machine.
        let after = match number {
            0 => Duration::from_millis(1),
            _ => some_time(rng),
        };
        killed(&restore, after);
        if to.join("version-2").exists() {
            assert_eq!(end_of(&to), wanted);
            std::fs::remove_dir_all(&to).expect("remove what was restored");
        } else {
            kills_before += 1;
        }
    }
    assert!(kills_before > 0, "no restore was killed before its end");
    done(&restore);
    assert_eq!(end_of(&to), wanted);
    assert!(!to.join("zoarium.restoring").exists());
    let output = run(&restore);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(
        complaint.contains("is not empty (it contains version-2)"),
        "{complaint}"
    );

    let dump = |data: &Path| {
        let builder = ServerBuilder::new(Flavour::Zoarium).data_dir(data);
        let server = builder.start().expect("a server");
        let mut session = RawSession::open(&server.address(), None, 30_000).expect("a session");
        Dump::read(&mut session).expect("a tree")
    };
    let (restored, original) = (dump(&to), dump(site.server.data_dir()));
    assert_eq!(restored.znodes, original.znodes);
    assert!(restored.znodes.len() > 10);
    for dir in [dir, &to, site.server.data_dir()] {
        assert_modes(dir);
    }
}

/// The steps of docs/BACKUP.md, "Restore an ensemble".
#[test]
fn an_ensemble_is_restored_by_the_documented_steps() {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1");
    let Some(mut ensemble) = or_skip("a backup of an ensemble", builder.prepare()) else {
        return;
    };
    let ids = ensemble.ids();
    let mut ports = Vec::new();
    for id in &ids {
        let port = Port::take();
        let file = ensemble.member(*id).config_file();
        let mut text = std::fs::read_to_string(&file).expect("zoo.cfg");
        text.push_str(&format!("admin.serverPort={}\n", port.number()));
        std::fs::write(&file, text).expect("write zoo.cfg");
        ports.push(port);
    }
    for id in &ids {
        ensemble.start(*id);
    }
    ensemble.wait_until_all_serve();
    let servers: Vec<String> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{}", port.number()))
        .collect();
    let servers = servers.join(",");
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("backup");
    let online = ["backup", text(&dir), "--server", &servers, "--auth", WHO];

    let load = Load::start(&ensemble.addresses(&ids));
    load.wait_for_progress(PROGRESS);
    done(&online);
    // In another epoch, and without the first member of the list, the next member continues the
    // backup.
    let leader = ensemble.wait_for_leader();
    ensemble.member_mut(leader).kill();
    let others: Vec<u64> = ids.iter().copied().filter(|id| *id != leader).collect();
    ensemble.wait_until_these_serve(&others);
    load.wait_for_progress(PROGRESS);
    done(&online);
    ensemble.start(leader);
    ensemble.wait_until_all_serve();
    let report = load.finish();
    done(&online);
    ensemble.wait_for_equal_zxids(&ids);
    let before = check::dump(&ensemble, ids[0]);
    println!("{}", report.summary());

    for id in &ids {
        ensemble.member_mut(*id).kill();
    }
    for id in &ids {
        let data = ensemble.member(*id).data_dir();
        std::fs::rename(data.join("version-2"), data.join("../version-2.before"))
            .expect("move it away");
        done(&["restore", "--backup", text(&dir), "--to", text(&data)]);
    }
    for id in &ids {
        ensemble.start(*id);
    }
    ensemble.wait_until_all_serve();
    let after = check::all_agree(&ensemble);
    assert_eq!(after.znodes, before.znodes);
    check::all_write(&ensemble, "after-the-restore");
    // The restored ensemble continues from the backup, so the next backup extends it.
    let text = done(&online);
    assert!(text.contains("znodes after"), "{text}");
}
