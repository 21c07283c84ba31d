//! `conf/java`: which command lines start Zoarium, and what happens to the others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tests::{
    Flavour, Port, Process, ServerBuilder, four_letter_word, wait_for, workspace_root,
    zoarium_binary,
};

const QUORUM_PEER_MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const ZOOKEEPER_SERVER_MAIN: &str = "org.apache.zookeeper.server.ZooKeeperServerMain";

fn shim() -> PathBuf {
    workspace_root().join("conf/java")
}

/// Writes a program called `name` into `dir` that prints its name and its arguments, one per line.
fn recorder(dir: &Path, name: &str) -> PathBuf {
    fs::create_dir_all(dir).expect("make a directory");
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\nprintf '%s\\n' {name} \"$@\"\n")).expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("make it executable");
    path
}

/// The shim first on `PATH`, a recording java after it, and a recording zoarium.
struct Bench {
    home: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let home = tempfile::tempdir().expect("make a directory");
        recorder(&home.path().join("jdk/bin"), "java");
        recorder(home.path(), "zoarium");
        Bench { home }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let conf = shim()
            .parent()
            .expect("the shim lies in conf")
            .to_path_buf();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut dirs = vec![conf, self.home.path().join("jdk/bin")];
        dirs.extend(std::env::split_paths(&path));
        let mut command = Command::new(shim());
        command
            .env(
                "PATH",
                std::env::join_paths(dirs).expect("directories without colons"),
            )
            .env("ZOARIUM", self.home.path().join("zoarium"))
            .env_remove("ZOARIUM_REAL_JAVA")
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("JDK_JAVA_OPTIONS")
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Vec<String> {
        said(&mut self.command(arguments))
    }
}

fn said(command: &mut Command) -> Vec<String> {
    let output = command.output().expect("run the shim");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn definitions_and_arguments_reach_zoarium() {
    let bench = Bench::new();
    let told = bench.run(&[
        "-Xmx512m",
        "-cp",
        "a.jar:org.apache.Fake",
        "-Dzookeeper.snapCount=7",
        "--add-opens",
        "java.base/java.lang=ALL-UNNAMED",
        "-Dwith=a b",
        QUORUM_PEER_MAIN,
        "/a dir/zoo.cfg",
    ]);
    assert_eq!(
        told,
        [
            "zoarium",
            "server",
            "-Dzookeeper.snapCount=7",
            "-Dwith=a b",
            "/a dir/zoo.cfg"
        ]
    );
    let told = bench.run(&[
        "-classpath",
        "x",
        ZOOKEEPER_SERVER_MAIN,
        "2181",
        "/data",
        "3000",
    ]);
    assert_eq!(told, ["zoarium", "server", "2181", "/data", "3000"]);
    assert_eq!(bench.run(&[QUORUM_PEER_MAIN]), ["zoarium", "server"]);
}

#[test]
fn argument_files_are_read_as_the_launcher_reads_them() {
    let bench = Bench::new();
    let file = bench.home.path().join("arguments");
    let text = "-cp \"a b.jar:c\\\\d\" # the class path\n-Done=1 '-Dtwo=2 #2'\t-Dthree=\\x\n\
                \"-Dfour=4\\\n   4\"\n";
    fs::write(&file, text).expect("write the arguments");
    let told = bench.run(&[&format!("@{}", file.display()), QUORUM_PEER_MAIN, "zoo.cfg"]);
    let wanted = [
        "zoarium",
        "server",
        "-Done=1",
        "-Dtwo=2 #2",
        "-Dthree=\\x",
        "-Dfour=44",
        "zoo.cfg",
    ];
    assert_eq!(told, wanted);
}

#[test]
fn options_in_the_environment_count() {
    let bench = Bench::new();
    let mut command = bench.command(&["-Dlast=3", QUORUM_PEER_MAIN, "zoo.cfg"]);
    command
        .env("JAVA_TOOL_OPTIONS", "-Xss1m -Dfirst=1")
        .env("JDK_JAVA_OPTIONS", "-Dnext=2");
    let wanted = [
        "zoarium",
        "server",
        "-Dfirst=1",
        "-Dnext=2",
        "-Dlast=3",
        "zoo.cfg",
    ];
    assert_eq!(said(&mut command), wanted);
}

#[test]
fn other_commands_run_in_the_real_java() {
    let bench = Bench::new();
    for arguments in [
        &["-version"][..],
        &[],
        &["-cp", "a.jar", "org.example.Main", QUORUM_PEER_MAIN],
        &["-jar", "a.jar", QUORUM_PEER_MAIN],
        &[
            "-cp",
            QUORUM_PEER_MAIN,
            "org.apache.zookeeper.ZooKeeperMain",
            "-server",
            "a b",
        ],
        &["--module", "m/org.example.Main"],
    ] {
        let told = bench.run(arguments);
        assert_eq!(told.first().map(String::as_str), Some("java"));
        assert_eq!(&told[1..], arguments);
    }
}

#[test]
fn the_real_java_may_be_named() {
    let bench = Bench::new();
    let other = recorder(&bench.home.path().join("other"), "java-21");
    let mut command = bench.command(&["-version"]);
    command.env("ZOARIUM_REAL_JAVA", other);
    assert_eq!(said(&mut command), ["java-21", "-version"]);
}

#[test]
fn it_works_as_the_java_of_a_java_home() {
    let bench = Bench::new();
    let link = bench.home.path().join("home/bin/java");
    fs::create_dir_all(link.parent().expect("it lies in a directory")).expect("make bin");
    std::os::unix::fs::symlink(shim(), &link).expect("link the shim");
    let given = bench.command(&["-version"]);
    let environment = given
        .get_envs()
        .filter_map(|(key, value)| Some((key, value?)));
    let mut linked = Command::new(&link);
    linked.envs(environment).arg("-version");
    assert_eq!(
        said(&mut linked),
        ["java", "-version"],
        "a link to itself is no other java"
    );
}

#[test]
fn a_server_comes_up_by_the_name_of_its_java_class() {
    let home = tempfile::tempdir().expect("make a directory");
    let port = Port::take();
    let config = home.path().join("zoo.cfg");
    let builder = ServerBuilder::new(Flavour::Zoarium).setting("4lw.commands.whitelist", "srvr");
    fs::write(
        &config,
        builder.zoo_cfg(port.number(), &home.path().join("data")),
    )
    .expect("write");
    let mut command = Command::new(shim());
    command
        .env("ZOARIUM", zoarium_binary())
        .args([
            "-Xmx1g",
            "-cp",
            "zookeeper.jar",
            "-Dzookeeper.log.dir=logs",
            QUORUM_PEER_MAIN,
        ])
        .arg(&config);
    let log = home.path().join("log");
    let mut process = Process::spawn(&mut command, &log).expect("start the shim");
    let limit = Duration::from_secs(60);
    wait_for("service", limit, || {
        assert!(process.ended().is_none(), "{}", process.log());
        four_letter_word(port.number(), "srvr")
            .ok()
            .filter(|text| text.contains("Mode: standalone"))
    });
    process.signal(Signal::TERM);
    assert_eq!(
        process.wait(limit).and_then(|status| status.code()),
        Some(0),
        "{}",
        process.log()
    );
}
