//! The Debian package: it is built, installed into a separate root, started, and removed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::{
    HttpRequest, Missing, Port, Process, find_tool, four_letter_word, or_skip, run, wait_for,
    workspace_root, zoarium_binary,
};

const LIMIT: Duration = Duration::from_secs(300);

/// A root that contains only the database of dpkg.
struct Root {
    dir: tempfile::TempDir,
}

impl Root {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Other users must be able to enter it.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("rights");
        for made in ["info", "updates", "triggers"].map(|name| format!("var/lib/dpkg/{name}")) {
            fs::create_dir_all(dir.path().join(made)).expect("a directory");
        }
        fs::create_dir(dir.path().join("etc")).expect("a directory");
        // The dependencies of this root's packages are installed on the machine on which the
        // scripts run. dpkg does not process triggers of a package whose dependencies are missing.
        let architecture = run(Command::new("dpkg").arg("--print-architecture"), LIMIT);
        let architecture = architecture.unwrap_or_else(|failure| panic!("{failure}"));
        let mut status = String::new();
        for name in ["libc6", "libgcc-s1", "systemd"] {
            status += &format!(
                "Package: {name}\nStatus: install ok installed\nVersion: 1\nMaintainer: x <x@localhost>\n\
                 Architecture: {}\nDescription: x\n\n",
                architecture.trim()
            );
            let list = format!("var/lib/dpkg/info/{name}.list");
            fs::write(dir.path().join(list), "").expect("a file");
        }
        fs::write(dir.path().join("var/lib/dpkg/status"), status).expect("a file");
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn dpkg(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", self.dir.path().display()))
            .arg("--force-script-chrootless")
            .args(arguments)
            // A question would fail: no package may need a terminal.
            .stdin(Stdio::null());
        run(&mut command, LIMIT).unwrap_or_else(|failure| panic!("{arguments:?}: {failure}"))
    }
}

fn tools() -> Result<(), Missing> {
    for tool in [
        "dpkg",
        "dpkg-deb",
        "strip",
        "systemd-sysusers",
        "systemd-tmpfiles",
    ] {
        find_tool(tool)?;
    }
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Missing("root, to install a package".to_owned()))
    }
}

fn build(dir: &Path, version: &str) -> PathBuf {
    let output = dir.join(format!("zoarium_{version}.deb"));
    let mut command = Command::new(workspace_root().join("conf/deb/build.sh"));
    command.arg(zoarium_binary()).arg(version).arg(&output);
    // The binary of a test is large, and its package is deleted soon.
    command.env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    run(&mut command, LIMIT).unwrap_or_else(|failure| panic!("no package: {failure}"));
    output
}

#[test]
fn a_package_is_installed_upgraded_and_removed() {
    if or_skip("the Debian package", tools()).is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) = (build(dir.path(), "0.1.0"), build(dir.path(), "0.1.1"));
    let root = Root::new();
    root.dpkg(&["--install", first.to_str().expect("text")]);
    let users = fs::read_to_string(root.path("etc/passwd")).expect("users");
    let user = users.lines().find(|line| line.starts_with("zookeeper:"));
    let id: u32 = user
        .and_then(|line| line.split(':').nth(2)?.parse().ok())
        .expect("a user");
    let listed = run(Command::new("dpkg-deb").arg("-c").arg(&first), LIMIT).expect("a list");
    let top = listed.lines().next().unwrap_or_default();
    assert!(top.starts_with("drwxr-xr-x root/root "), "{top}");
    let logs = fs::read_link(root.path("usr/share/zoarium/logs")).expect("a link");
    assert_eq!(logs, Path::new("/var/log/zookeeper"));
    let data = root.path("var/lib/zookeeper");
    let found = fs::metadata(&data).expect("a data directory");
    assert_eq!((found.uid(), found.mode() & 0o777), (id, 0o750));
    // They may contain passwords. reconfig writes the member list next to zoo.cfg.
    let group = found.gid();
    for (name, mode) in [("conf", 0o770), ("conf/zoo.cfg", 0o640)] {
        let found = fs::metadata(root.path("etc/zookeeper").join(name)).expect("it is there");
        let shown = (found.uid(), found.gid(), found.mode() & 0o777);
        assert_eq!(shown, (0, group, mode), "{name}");
    }
    let unit = fs::read_to_string(root.path("lib/systemd/system/zoarium.service")).expect("a unit");
    let start = "zoarium server -Dzookeeper.log.dir=${ZOO_LOG_DIR} /etc/zookeeper/conf/zoo.cfg";
    assert!(unit.contains(&format!("\nExecStart=/usr/bin/{start}\n")));
    assert!(unit.contains("\nEnvironment=ZOO_LOG_DIR=/var/log/zookeeper\n"));
    for page in ["man/man1/zoarium.1.gz", "man/man1/zoarium-backup.1.gz"] {
        assert!(root.path("usr/share").join(page).is_file(), "no {page}");
    }
    let completions = [
        "bash-completion/completions/zoarium",
        "zsh/vendor-completions/_zoarium",
        "fish/vendor_completions.d/zoarium.fish",
    ];
    for script in completions {
        let text = fs::read_to_string(root.path("usr/share").join(script)).expect("completions");
        assert!(text.contains("preflight"), "{script}");
    }

    // The changes of an operator: in this test, the root and the ports.
    let config = root.path("etc/zookeeper/conf/zoo.cfg");
    let (port, admin) = (Port::take(), Port::take());
    let text = fs::read_to_string(&config).expect("zoo.cfg");
    let mine =
        text.replace(
            "dataDir=/var",
            &format!("dataDir={}/var", root.dir.path().display()),
        )
        .replace(
            "clientPort=2181",
            &format!("clientPort={}\nclientPortAddress=127.0.0.1", port.number()),
        ) + &format!("admin.serverPort={}\n", admin.number());
    assert_ne!(mine, text);
    fs::write(&config, &mine).expect("write zoo.cfg");
    serves(&root, (port.number(), admin.number()));
    audits_as_its_user(&root, (id, group), port.number());

    root.dpkg(&["--install", second.to_str().expect("text")]);
    assert_eq!(fs::read_to_string(&config).expect("zoo.cfg"), mine);
    let listed = root.dpkg(&["--status", "zoarium"]);
    assert!(listed.contains("Version: 0.1.1"), "{listed}");
    serves(&root, (port.number(), admin.number()));

    root.dpkg(&["--remove", "zoarium"]);
    assert!(!root.path("usr/bin/zoarium").exists());
    assert_eq!(fs::read_to_string(&config).expect("zoo.cfg"), mine);
    root.dpkg(&["--purge", "zoarium"]);
    assert!(!config.exists());
    assert!(data.join("version-2").is_dir(), "the data is gone");
}

/// The first minute of an administrator of the package: after one command, the credential is valid
/// immediately.
fn is_administered(root: &Root, port: u16) {
    let mut command = Command::new(root.path("usr/bin/zoarium"));
    command.arg("admin-token");
    command.arg(root.path("etc/zookeeper/conf/zoo.cfg"));
    let printed = run(&mut command, LIMIT).expect("a credential");
    let header = printed
        .lines()
        .find_map(|line| line.strip_prefix("header:   Authorization: "));
    let header = header.unwrap_or_else(|| panic!("no header: {printed}"));
    let snapshot = |authorization: &str| {
        let request = HttpRequest {
            method: "GET",
            target: "/commands/snapshot?streaming=false",
            headers: &[("Authorization", authorization)],
            body: None,
        };
        request.send(port).expect("an answer").status
    };
    assert_eq!(snapshot("digest a:b"), 403);
    assert_eq!(snapshot(header), 200);
}

/// Starts the server as the unit does, but in the separate root. It tells systemd when it is ready,
/// and stops on request. Then the wrapper of the package checks it.
fn serves(root: &Root, (port, admin): (u16, u16)) {
    let socket_path = root.path("notify");
    fs::remove_file(&socket_path).ok();
    let socket = std::os::unix::net::UnixDatagram::bind(&socket_path).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut command = Command::new(root.path("usr/bin/zoarium"));
    command
        .arg("server")
        .arg(root.path("etc/zookeeper/conf/zoo.cfg"))
        .env("NOTIFY_SOCKET", &socket_path)
        .env("WATCHDOG_USEC", "3000000")
        .stdin(Stdio::null());
    let mut process = Process::spawn(&mut command, &root.path("log")).expect("start it");
    let told = || {
        let mut buffer = [0; 256];
        let len = socket.recv(&mut buffer).expect("a word to systemd");
        String::from_utf8_lossy(&buffer[..len]).trim().to_owned()
    };
    assert_eq!(told(), "READY=1", "{}", process.log());
    is_administered(root, admin);
    assert!(
        four_letter_word(port, "srvr")
            .expect("an answer")
            .contains("Mode: standalone")
    );
    // The watchdog is notified repeatedly.
    assert_eq!(
        (told(), told()),
        ("WATCHDOG=1".to_owned(), "WATCHDOG=1".to_owned())
    );
    let mut status = Command::new(root.path("usr/share/zoarium/bin/zkServer.sh"));
    status
        .arg("--config")
        .arg(root.path("etc/zookeeper/conf"))
        .arg("status")
        .env("ZOARIUM", root.path("usr/bin/zoarium"));
    let printed = run(&mut status, LIMIT).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(printed.contains("Mode: standalone"), "{printed}");
    process.signal(rustix::process::Signal::TERM);
    let status = process.wait(LIMIT).expect("an end");
    assert_eq!(status.code(), Some(0));
    let last = wait_for("the end is told", LIMIT, || {
        let word = told();
        (word != "WATCHDOG=1").then_some(word)
    });
    assert_eq!(last, "STOPPING=1");
}

/// Starts the server as the unit does: as the user of the package, in the directory /.
fn audits_as_its_user(root: &Root, (user, group): (u32, u32), port: u16) {
    let logs = root.path("var/log/zookeeper");
    let run_chown = |path: &Path| {
        let mut command = Command::new("chown");
        command.arg("-R").arg(format!("{user}:{group}")).arg(path);
        run(&mut command, LIMIT).unwrap_or_else(|failure| panic!("{failure}"));
    };
    // The previous start was by root.
    run_chown(&root.path("var/lib/zookeeper"));
    let start = |options: &[String]| {
        let mut command = Command::new(root.path("usr/bin/zoarium"));
        command
            .args(["server", "-Dzookeeper.audit.enable=true"])
            .args(options)
            .arg(root.path("etc/zookeeper/conf/zoo.cfg"))
            .current_dir("/")
            .uid(user)
            .gid(group)
            .stdin(Stdio::null());
        Process::spawn(&mut command, &root.path("log")).expect("start it")
    };
    let mut process = start(&[format!("-Dzookeeper.log.dir={}", logs.display())]);
    wait_for("service", LIMIT, || four_letter_word(port, "srvr").ok());
    assert!(logs.join("zookeeper_audit.log").exists());
    process.signal(rustix::process::Signal::TERM);
    process.wait(LIMIT).expect("an end");
    // Only root may write there.
    let status = start(&[]).wait(LIMIT).expect("an end");
    assert_eq!(status.code(), Some(1));
}

/// Builds a package with the relevant files and scripts of Debian's zookeeper.
fn build_debians(dir: &Path) -> PathBuf {
    let tree = dir.join("zookeeper");
    let write = |name: &str, mode: u32, text: &str| {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, text).expect("write a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("rights");
    };
    write("etc/zookeeper/conf_example/zoo.cfg", 0o644, DEBIANS);
    write("usr/share/zookeeper/bin/zkServer.sh", 0o755, "#!/bin/sh\n");
    let control = "Package: zookeeper\nVersion: 3.8.0\nArchitecture: all\nMaintainer: x <x@localhost>\n\
                   Description: x\n";
    write("DEBIAN/control", 0o644, control);
    write(
        "DEBIAN/conffiles",
        0o644,
        "/etc/zookeeper/conf_example/zoo.cfg\n",
    );
    let conf = "conf=$DPKG_ROOT/etc/zookeeper/conf";
    let script = |line: &str| format!("#!/bin/sh\nset -e\n{conf}\n{line}\n");
    // update-alternatives does not replace or remove a directory.
    let link = script("[ -e $conf ] || ln -s conf_example $conf");
    write("DEBIAN/postinst", 0o755, &link);
    let unlink = script("if [ \"$1\" = remove ] && [ -L $conf ]; then rm $conf; fi");
    write("DEBIAN/prerm", 0o755, &unlink);
    let purge = script("if [ \"$1\" = purge ]; then rm -rf $DPKG_ROOT/var/lib/zookeeper; fi");
    write("DEBIAN/postrm", 0o755, &purge);
    let output = dir.join("zookeeper.deb");
    let mut command = Command::new("dpkg-deb");
    command
        .args(["--root-owner-group", "--build"])
        .args([&tree, &output]);
    run(&mut command, LIMIT).unwrap_or_else(|failure| panic!("no package: {failure}"));
    output
}

/// The settings of Debian's package, as its operator has changed them.
const DEBIANS: &str = "dataDir=/var/lib/zookeeper\nclientPort=2181\n# an operator's\n";

#[test]
fn replacing_debians_package_loses_nothing() {
    if or_skip("the Debian package", tools()).is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (ours, debians) = (build(dir.path(), "0.1.0"), build_debians(dir.path()));
    let (ours, debians) = (path_text(&ours), path_text(&debians));
    let read = |root: &Root, name: &str| fs::read_to_string(root.path(name)).ok();
    let conf = "etc/zookeeper/conf/zoo.cfg";
    let log = "var/lib/zookeeper/version-2/log.1";

    // After Debian's package: its settings and its data are used, and stay when either package is
    // removed.
    let root = Root::new();
    root.dpkg(&["--install", debians]);
    fs::create_dir_all(root.path("var/lib/zookeeper/version-2")).expect("a directory");
    fs::write(root.path(log), "data").expect("write a file");
    root.dpkg(&["--install", ours]);
    assert_eq!(read(&root, conf).as_deref(), Some(DEBIANS));
    root.dpkg(&["--remove", "zoarium"]);
    root.dpkg(&["--purge", "zoarium"]);
    assert_eq!(read(&root, conf).as_deref(), Some(DEBIANS));
    assert!(root.path(log).exists());
    root.dpkg(&["--install", ours]);
    // Debian's package removes its link, and Zoarium's keeps the settings.
    root.dpkg(&["--remove", "zookeeper"]);
    assert_eq!(read(&root, conf).as_deref(), Some(DEBIANS));
    assert!(root.path(log).exists());
    // Its purge deletes the data, as docs/MIGRATION.md warns. The directory is created again.
    root.dpkg(&["--purge", "zookeeper"]);
    assert!(root.path("var/lib/zookeeper").is_dir());
    root.dpkg(&["--purge", "zoarium"]);
    assert_eq!(read(&root, conf).as_deref(), Some(DEBIANS));

    // Before Debian's package: only the files that Zoarium's package created are removed with it.
    let root = Root::new();
    root.dpkg(&["--install", ours]);
    assert_ne!(read(&root, conf).as_deref(), Some(DEBIANS));
    fs::write(root.path("etc/zookeeper/conf/java.env"), "x=1\n").expect("write a file");
    root.dpkg(&["--install", debians]);
    root.dpkg(&["--purge", "zoarium"]);
    assert_eq!(read(&root, conf), None);
    assert!(read(&root, "etc/zookeeper/conf/java.env").is_some());
    let example = "etc/zookeeper/conf_example/zoo.cfg";
    assert_eq!(read(&root, example).as_deref(), Some(DEBIANS));

    // Without either: an operator's own files are used unchanged.
    let root = Root::new();
    fs::create_dir_all(root.path("etc/zookeeper/conf")).expect("a directory");
    fs::write(root.path(conf), DEBIANS).expect("write a file");
    root.dpkg(&["--install", ours]);
    root.dpkg(&["--purge", "zoarium"]);
    assert_eq!(read(&root, conf).as_deref(), Some(DEBIANS));
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Lets systemd verify the unit.
#[test]
fn the_unit_is_valid_for_systemd() {
    let Some(tool) = or_skip("the unit", find_tool("systemd-analyze")) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let unit = workspace_root().join("conf/systemd/zoarium.service");
    let text = fs::read_to_string(unit).expect("a unit");
    let copy = dir.path().join("zoarium.service");
    let binary = zoarium_binary().display().to_string();
    // The program must be at the path in the unit.
    fs::write(&copy, text.replace("/usr/bin/zoarium", &binary)).expect("a file");
    let mut command = Command::new(tool);
    command.args(["verify", "--man=no"]).arg(&copy);
    let output = command.output().expect("run systemd-analyze");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let about_it: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("zoarium"))
        .collect();
    assert!(about_it.is_empty() && output.status.success(), "{said}");
}
