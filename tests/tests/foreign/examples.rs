//! Curator's own examples, unchanged, against a Zoarium server.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use tests::{
    apache_class_path, curator_examples, java_tool, or_skip, path_with_zoarium, run, source_dir,
};

const LIMIT: Duration = Duration::from_secs(300);

/// Runs an example and returns its output.
fn printed_by(example: &str) -> Option<String> {
    let jars = apache_class_path().and_then(|apache| Ok((apache, curator_examples()?)));
    let tools = jars.and_then(|jars| Ok((jars, java_tool("javac")?, java_tool("java")?)));
    let ((apache, sources), compiler, java) = or_skip("Curator's examples", tools)?;
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path();
    let class_path = format!("{}:{apache}", place.display());
    let ours =
        ["TestingServer.java", "CuratorExamples.java"].map(|file| source_dir("java").join(file));
    let mut compile = Command::new(compiler);
    compile
        .args(["-nowarn", "-cp", &class_path, "-sourcepath", &sources, "-d"])
        .arg(place)
        .args(ours);
    run(&mut compile, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let logging = source_dir("java").join("logback.xml");
    let mut command = Command::new(java);
    command
        .env("PATH", path_with_zoarium())
        .arg(format!("-Dlogback.configurationFile={}", logging.display()))
        .args(["-cp", &class_path, "CuratorExamples", example]);
    let printed = run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert!(printed.contains("done"), "{printed}");
    // The example closes its clients while the last leader, which it interrupts, gives up the lock.
    // Curator logs this exception of the deletion if the client is closed first.
    let is_fault =
        |line: &str| line.contains("Exception") && !line.contains("CuratorClosedException");
    let fault = printed.lines().find(|line| is_fault(line));
    assert_eq!(fault, None, "{printed}");
    Some(printed)
}

#[test]
#[ignore = "runs other people's programs"]
fn each_client_of_the_leader_selector_leads_in_its_turn() {
    let Some(printed) = printed_by("leader") else {
        return;
    };
    let (mut leader, mut leaders) = (None, BTreeSet::new());
    for line in printed.lines() {
        if let Some((name, _)) = line.split_once(" is now the leader") {
            assert_eq!(leader, None, "two at a time:\n{printed}");
            leader = Some(name);
            leaders.insert(name);
        }
        if let Some((name, _)) = line.split_once(" relinquishing leadership") {
            assert_eq!(leader, Some(name), "{printed}");
            leader = None;
        }
    }
    assert_eq!(leaders.len(), 10, "{printed}");
}

#[test]
#[ignore = "runs other people's programs"]
fn clients_of_the_lock_exclude_each_other() {
    let Some(printed) = printed_by("locking") else {
        return;
    };
    assert_eq!(
        printed.matches(" has the lock").count(),
        5 * 50,
        "{printed}"
    );
}
