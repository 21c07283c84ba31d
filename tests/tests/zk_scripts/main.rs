//! The scripts of `conf/` with the names of Apache ZooKeeper's scripts: what they do, print and
//! return.

mod env_files;
mod logins;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proto::request::{Request, flags};
use tests::requests::{create, set_data};
use tests::{Flavour, RawSession, Server, ServerBuilder, or_skip, workspace_root, zoarium_binary};

fn script(name: &str, arguments: &[&str], config: Option<&Path>) -> Output {
    let mut command = Command::new(workspace_root().join("conf").join(name));
    for name in ["ZOOCFG", "ZOOCFGDIR", "SERVER_JVMFLAGS", "JVMFLAGS"] {
        command.env_remove(name);
    }
    if let Some(config) = config {
        command.env("ZOOCFG", config);
    }
    command.env("ZOARIUM", zoarium_binary()).args(arguments);
    command.output().expect("run a script")
}

fn text(output: &Output) -> (Option<i32>, String, String) {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    (status.code(), lossy(stdout), lossy(stderr))
}

fn ended(output: &Output, code: i32, wanted: &str) {
    let (found, out, err) = text(output);
    assert_eq!(found, Some(code), "{out}{err}");
    assert!(
        out.contains(wanted) || err.contains(wanted),
        "{wanted} is not in: {out}{err}"
    );
}

fn path(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Returns the sorted files of a data directory.
fn files(data: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("version-2")).expect("files");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|file| {
        file.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(kind))
    });
    files.sort();
    files
}

/// Starts a server with several logs and snapshots.
fn grown() -> Option<Server> {
    let mut server = or_skip("scripts", ServerBuilder::new(Flavour::Zoarium).start())?;
    for round in 0..5 {
        let mut session = RawSession::open(&server.address(), None, 10_000).expect("a session");
        let call = |session: &mut RawSession, request| {
            assert_eq!(
                session
                    .call(&Request::Write(request))
                    .expect("an answer")
                    .err,
                0
            );
        };
        if round == 0 {
            call(&mut session, create("/a", "0", flags::PERSISTENT));
        }
        call(&mut session, set_data("/a", format!("{round}"), -1));
        session.close().expect("an end");
        server.restart();
    }
    Some(server)
}

#[test]
fn logs_are_printed_repaired_and_cut() {
    let Some(server) = grown() else {
        return;
    };
    let data = server.data_dir().to_path_buf();
    let log = files(&data, "log.").remove(0);
    ended(
        &script("zkTxnLogToolkit.sh", &[path(&log)], None),
        0,
        "ZooKeeper Transactional Log File",
    );
    let missing = script("zkTxnLogToolkit.sh", &["nowhere"], None);
    ended(&missing, 1, "File doesn't exist or not readable: nowhere");
    ended(
        &script("zkTxnLogToolkit.sh", &["-x"], None),
        2,
        "usage: TxnLogToolkit",
    );
    ended(
        &script("zkTxnLogToolkit.sh", &["-c", "-z", "0x2", path(&log)], None),
        0,
        "",
    );
    let chopped = format!("{}.chopped2", path(&log));
    ended(
        &script("zkTxnLogToolkit.sh", &[&chopped], None),
        0,
        "zxid 0x2",
    );
    ended(
        &script("zkTxnLogToolkit.sh", &["-r", "-y", path(&log)], None),
        0,
        "",
    );
    assert!(Path::new(&format!("{}.fixed", path(&log))).exists());
}

#[test]
fn snapshots_are_printed_and_old_ones_purged() {
    let Some(mut server) = grown() else {
        return;
    };
    let data = server.data_dir().to_path_buf();
    let config = server.config_file();
    let snapshot = files(&data, "snapshot.").pop().expect("a snapshot");
    ended(
        &script("zkSnapShotToolkit.sh", &[path(&snapshot)], None),
        0,
        "ZNode Details",
    );
    ended(
        &script("zkSnapShotToolkit.sh", &["-d", path(&snapshot)], None),
        0,
        "/a",
    );
    ended(
        &script("zkSnapShotToolkit.sh", &[], None),
        2,
        "USAGE: SnapshotFormatter",
    );
    ended(
        &script("zkSnapShotToolkit.sh", &["-json", "x"], None),
        2,
        "zoarium snapshot --json",
    );
    let first = files(&data, "snapshot.").remove(0);
    let sides = ["-l", path(&first), "-r", path(&snapshot)];
    let compared = script(
        "zkSnapshotComparer.sh",
        &[&sides[..], &["-b", "0", "-n", "0"]].concat(),
        None,
    );
    ended(&compared, 0, "All layers compared.");
    let missing = script("zkSnapshotComparer.sh", &sides, None);
    ended(&missing, 2, "Missing required options: b, n");
    let summary = "zkSnapshotRecursiveSummaryToolkit.sh";
    let root = script(summary, &[path(&snapshot), "/", "0"], None);
    ended(&root, 0, " /\n   children: ");
    ended(
        &script(summary, &[path(&snapshot)], None),
        2,
        "USAGE: SnapshotRecursiveSummary",
    );

    assert!(files(&data, "snapshot.").len() > 3);
    let count = "count should be greater than or equal to 3";
    ended(
        &script("zkCleanup.sh", &["-n", "2"], Some(&config)),
        1,
        count,
    );
    ended(
        &script("zkCleanup.sh", &["nowhere", "-n", "3"], None),
        1,
        "name the dataDir",
    );
    ended(&script("zkCleanup.sh", &[], Some(&config)), 1, "Usage:");
    // While the server runs.
    ended(
        &script("zkCleanup.sh", &["-n", "3"], Some(&config)),
        0,
        "Removing file: ",
    );
    assert_eq!(files(&data, "snapshot.").len(), 3);
    server.crash_and_restart();
    let mut session = RawSession::open(&server.address(), None, 10_000).expect("a session");
    let answer = session
        .call(&tests::requests::get_data("/a"))
        .expect("an answer");
    assert_eq!(answer.err, 0);
}

#[test]
fn directories_are_recreated_only_by_force() {
    let home = tempfile::tempdir().expect("a directory");
    let (data, log) = (home.path().join("data"), home.path().join("log"));
    let config = home.path().join("zoo.cfg");
    let lines = format!(
        "dataDir={}\n dataLogDir = {} \n",
        data.display(),
        log.display()
    );
    fs::write(&config, lines).expect("write zoo.cfg");
    let named = format!("--configfile={}", config.display());
    let initialize = |more: &[&str]| {
        let arguments: Vec<&str> = [named.as_str()]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        script("zkServer-initialize.sh", &arguments, None)
    };
    ended(&initialize(&["--myid=x"]), 1, "is not a number");
    assert!(!data.exists());
    ended(&initialize(&["--myid=3"]), 0, "Using myid of 3");
    assert_eq!(fs::read_to_string(data.join("myid")).expect("myid"), "3\n");
    assert!(data.join("initialize").exists() && log.join("version-2").is_dir());
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        (mode(&log.join("version-2")), mode(&data.join("myid"))),
        (0o750, 0o640)
    );
    fs::write(log.join("version-2/log.1"), "mine").expect("write a file");
    let refused = "ZooKeeper data directory already exists at";
    ended(&initialize(&[]), 1, refused);
    assert!(log.join("version-2/log.1").exists());
    ended(&initialize(&["--force"]), 0, "No myid provided");
    assert!(!log.join("version-2/log.1").exists() && !data.join("myid").exists());
    ended(&initialize(&["--what"]), 1, "usage: ");
    ended(
        &script("zkServer-initialize.sh", &["--configfile=nowhere"], None),
        1,
        "cannot be read",
    );
}

/// Scripts of operators source this file.
#[test]
fn the_environment_follows_the_configuration() {
    let home = tempfile::tempdir().expect("a directory");
    let env = "ZOO_LOG_DIR=/somewhere\nJVMFLAGS=-Dx=y\n";
    fs::write(home.path().join("zookeeper-env.sh"), env).expect("write a file");
    let line = format!(
        ". {}; echo \"$ZOOCFG|$ZOO_LOG_DIR|$JVMFLAGS|$ZOOBINDIR\"",
        workspace_root().join("conf/zkEnv.sh").display()
    );
    let mut command = Command::new("bash");
    command.args(["-c", &line]).env("ZOOCFGDIR", home.path());
    command.env_remove("ZOOCFG").env_remove("ZOOBINDIR");
    let (_, out, _) = text(&command.output().expect("run bash"));
    let bin = workspace_root().join("conf");
    let dir = home.path().display();
    assert_eq!(
        out,
        format!("{dir}/zoo.cfg|/somewhere|-Dx=y|{}\n", bin.display())
    );
}
