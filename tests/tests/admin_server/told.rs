//! Reports of a server about itself in its log: its properties, and its activity at SIGQUIT.

use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::{http_get, run, wait_for, zoarium_binary};

use crate::site::{Site, populate};

const LIMIT: Duration = Duration::from_secs(60);

/// Counts the lines of the log that contain all of these words.
fn lines(log: &str, words: &[&str]) -> usize {
    let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
    log.lines().filter(has_all).count()
}

#[test]
fn the_first_line_and_the_option_name_version_commit_and_build() {
    let printed = run(Command::new(zoarium_binary()).arg("--version"), LIMIT).expect("a version");
    let version = printed.trim().strip_prefix("zoarium ").expect("a name");
    assert!(
        version.contains("(commit ") && version.contains(", built on 20"),
        "{version}"
    );
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let log = site.server.log();
    let first = log.lines().next().unwrap_or_default();
    let id = site.server.process_id().expect("a process");
    assert!(
        first.contains(version) && first.contains(&format!("pid={id}")),
        "{log}"
    );
}

#[test]
fn quit_writes_threads_queues_and_sessions_and_the_server_goes_on() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let session = populate(&site.server.address(), "one");
    let id = site.server.process_id().expect("a process");
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    let own = format!("session={}", session.session().id);
    for round in 1..=2 {
        kill_process(id.expect("an id"), Signal::QUIT).expect("signal our server");
        // Its two watches, its ephemeral and no pending request: the last line of a report.
        let words = [&own, " watches=2 ", " ephemerals=1 ", " unanswered=0 "];
        wait_for("a report", LIMIT, || {
            (lines(&site.server.log(), &words) == round).then_some(())
        });
        let log = site.server.log();
        for thread in ["core", "log", "snapshot"] {
            let name = format!("thread=\"{thread}\"");
            assert_eq!(lines(&log, &[&name, " cpu_ms="]), round, "{log}");
        }
        assert_eq!(
            lines(&log, &[" queues ", " core=0", " outstanding=0"]),
            round,
            "{log}"
        );
        assert_eq!(
            lines(&log, &["state of the server", "mode=\"standalone\""]),
            round,
            "{log}"
        );
    }
    assert_eq!(http_get(site.port, "/commands/ruok").status, 200);
    drop(session);
}
