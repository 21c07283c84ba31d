//! Feeds while members fail: every change arrives once and in order from any member.
//!
//! `ZOARIUM_FEED_SECONDS`: how long members are killed, by default 20.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tests::ensemble::{Ensemble, EnsembleBuilder, Known, Load, LoadReport, check};
use tests::{Flavour, Port, or_skip, wait_for, wait_until, zoarium_binary};

use crate::site::{LIMIT, SUPER};

/// Writes of each writer that prove progress.
const PROGRESS: u64 = 20;

/// Time between two disturbances.
const CALM_MS: std::ops::Range<u64> = 300..2500;

/// Follows all members. It is killed at random, and continues after the last change that it has
/// printed.
struct Follower {
    servers: String,
    /// The zxid from which it starts.
    first: String,
    file: PathBuf,
    process: Option<Child>,
}

impl Follower {
    fn start(&mut self) {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.file);
        // A line that the kill truncated does not count.
        let text = std::fs::read(&self.file).unwrap_or_default();
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let file: File = file.expect("open a file");
        file.set_len(whole as u64).expect("truncate a file");
        let position = self.seen().last().map_or(self.first.clone(), |change| {
            change["position"].as_str().expect("a position").to_owned()
        });
        let process = Command::new(zoarium_binary())
            .args(["watch", "/load", "--output", "json", "--auth", SUPER])
            .args(["--after", &position, "--server", &self.servers])
            .stdin(Stdio::null())
            .stdout(file)
            .spawn();
        self.process = Some(process.expect("zoarium runs"));
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("kill a child of ours");
            process.wait().expect("its end");
        }
    }

    fn is_at_work(&mut self) -> bool {
        let process = self.process.as_mut();
        process.is_some_and(|process| process.try_wait().expect("ask a child of ours").is_none())
    }

    /// Returns the changes that it has printed.
    fn seen(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.kill();
    }
}

fn ensemble() -> Option<(Ensemble, Vec<Port>)> {
    let flavour = Flavour::under_test();
    if flavour != Flavour::Zoarium {
        return None;
    }
    let builder = EnsembleBuilder::new(&[flavour; 3])
        .observers(&[flavour])
        .setting("admin.enableServer", "true")
        .setting("history.enabled", "true")
        .setting("history.minFreeMegabytes", "0");
    let mut ensemble = or_skip("an ensemble with a history", builder.prepare())?;
    let ports = ensemble.add_admin_ports(true);
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    Some((ensemble, ports))
}

/// Kills and restarts members and followers for a while.
fn disturb(ensemble: &mut Ensemble, followers: &mut [Follower], rng: &mut Rng, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        match rng.u8(..10) {
            0..2 => {
                for leader in ensemble.leaders() {
                    println!("kill the leader, {leader}");
                    ensemble.member_mut(leader).kill();
                }
            }
            2..5 => {
                if let Some(id) = rng.choice(ensemble.up()) {
                    println!("kill {id}");
                    ensemble.member_mut(id).kill();
                }
            }
            5..7 => {
                let follower = &mut followers[rng.usize(..followers.len())];
                println!("kill a follower of the feed");
                follower.kill();
                follower.start();
            }
            _ => repair(ensemble),
        }
        let calm = Duration::from_millis(rng.u64(CALM_MS));
        wait_until(calm, || {
            let all = followers.iter_mut();
            all.for_each(|follower| assert!(follower.is_at_work(), "a follower gave up"));
            None::<()>
        });
    }
    repair(ensemble);
}

fn repair(ensemble: &mut Ensemble) {
    for id in ensemble.ids() {
        if !ensemble.member(id).is_running() {
            ensemble.start(id);
        }
    }
}

fn text<'a>(change: &'a Value, name: &str) -> &'a str {
    change[name].as_str().expect("text")
}

fn position(change: &Value) -> (i64, u64) {
    let zxid = i64::from_str_radix(&text(change, "zxid")[2..], 16).expect("hex");
    (zxid, change["index"].as_u64().expect("a number"))
}

/// Compares the changes that a follower printed with the results of the writers.
fn judge(seen: &[Value], report: &LoadReport) {
    let in_order = seen
        .windows(2)
        .all(|two| position(&two[0]) < position(&two[1]));
    assert!(in_order, "out of order, or twice");
    let mut by_path: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for change in seen {
        by_path
            .entry(text(change, "path"))
            .or_default()
            .push(change);
    }
    let operations = |path: &str| -> Vec<&str> {
        let changes = by_path.get(path).into_iter().flatten();
        changes.map(|change| text(change, "operation")).collect()
    };
    for writer in &report.writers {
        for (number, known) in &writer.nodes {
            let path = writer.path(*number);
            let found = operations(&path);
            // No write is ever sent twice.
            match known {
                Known::Present => assert_eq!(found, ["create"], "{path}"),
                Known::Absent => assert_eq!(found, ["create", "delete"], "{path}"),
                Known::Unknown => assert!(
                    found.is_empty() || found == ["create"] || found == ["create", "delete"],
                    "{path}: {found:?}"
                ),
            }
        }
        let register = writer.register_path();
        let sets = by_path.get(register.as_str()).into_iter().flatten();
        let sets: Vec<&&Value> = sets
            .filter(|change| text(change, "operation") == "set")
            .collect();
        let versions: Vec<i64> = sets
            .iter()
            .filter_map(|set| set["version"].as_i64())
            .collect();
        let wanted: Vec<i64> = (1..).take(sets.len()).collect();
        assert_eq!(
            versions, wanted,
            "{register}: a set is missing, or there twice"
        );
    }
}

/// Returns the znodes below the top after all changes.
fn folded(seen: &[Value]) -> BTreeMap<String, String> {
    let mut tree = BTreeMap::new();
    for change in seen {
        let path = text(change, "path").to_owned();
        match text(change, "operation") {
            "create" | "set" => {
                let data = change["data"]["base64"].as_str().unwrap_or("null");
                tree.insert(path, data.to_owned());
            }
            "delete" | "closeSession" => {
                tree.remove(&path);
            }
            _ => {}
        }
    }
    tree
}

#[test]
#[ignore = "needs minutes of faults"]
fn feeds_resumed_across_members_see_every_change_once_and_in_order() {
    let Some((mut ensemble, ports)) = ensemble() else {
        return;
    };
    let seconds = std::env::var("ZOARIUM_FEED_SECONDS");
    let seconds = seconds
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20);
    let seed = fastrand::u64(..);
    println!("seed {seed}, {seconds} s");
    let mut rng = Rng::with_seed(seed);
    let first = ensemble.member(1).zxid().expect("a zxid");
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(PROGRESS);
    let place = tempfile::tempdir().expect("a directory");
    let mut followers = followers(&ports, first, place.path());
    disturb(
        &mut ensemble,
        &mut followers,
        &mut rng,
        Duration::from_secs(seconds),
    );
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    // The members were killed, and nothing else was wrong with their histories.
    for id in ensemble.ids() {
        let log = ensemble.member(id).log();
        let mut lines = log.lines();
        let failed = lines.find(|line| {
            line.contains("the change history failed")
                || line.contains("the change history is unusable")
        });
        assert_eq!(failed, None, "member {id}");
    }
    println!("{}", report.summary());
    check::nothing_is_lost(&ensemble, &report);
    let mut session = ensemble.super_session(1).expect("a session");
    let mark = tests::requests::set_data("/load", "end", -1);
    let answer = session
        .call(&proto::request::Request::Write(mark))
        .expect("an answer");
    assert_eq!(answer.err, 0);
    for follower in &followers {
        wait_for("the last change in the feed", LIMIT, || {
            let seen = follower.seen();
            let last = seen.last().map(position);
            last.is_some_and(|last| last.0 >= answer.zxid.0)
                .then_some(())
        });
    }
    let seen: Vec<Vec<Value>> = followers.iter().map(Follower::seen).collect();
    for seen in &seen {
        judge(seen, &report);
    }
    agree(&seen[0], &seen[1]);
    // The tree also agrees.
    let mut found = folded(&seen[0]);
    found.retain(|path, _| path != "/load");
    assert_eq!(found, below_load(&mut session));
    let epochs: BTreeSet<i64> = seen[0]
        .iter()
        .map(|change| position(change).0 >> 32)
        .collect();
    println!("{} changes of {} epochs", seen[0].len(), epochs.len());
}

/// Starts two followers of all members from now on. Each begins with another member.
fn followers(ports: &[Port], first: u64, place: &Path) -> Vec<Follower> {
    let make = |number: usize| {
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.rotate_left(number * 2);
        let servers = numbers.iter().map(|port| format!("127.0.0.1:{port}"));
        let mut follower = Follower {
            servers: servers.collect::<Vec<_>>().join(","),
            first: format!("{first:#x}"),
            file: place.join(format!("feed.{number}")),
            process: None,
        };
        follower.start();
        follower
    };
    (0..2).map(make).collect()
}

/// Checks that two members agree, except about clients: a member may not answer, and a rebuilt history
/// does not contain them.
fn agree(one: &[Value], other: &[Value]) {
    let shared = |change: &Value| {
        let mut change = change.clone();
        change["client"].take();
        change["identities"].take();
        change["client_missing"].take();
        change["members_missing"].take();
        change
    };
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other) {
        assert_eq!(shared(one), shared(other));
    }
}

/// Returns the znodes below `/load`, with base64 data.
fn below_load(session: &mut tests::RawSession) -> BTreeMap<String, String> {
    use base64::Engine;
    let dump = tests::Dump::read(session).expect("the tree");
    let below = dump
        .znodes
        .into_iter()
        .filter(|(path, _)| path.starts_with("/load/"));
    below
        .map(|(path, znode)| {
            let encode =
                |data: bytes::Bytes| base64::engine::general_purpose::STANDARD.encode(data);
            (path, znode.data.map_or("null".to_owned(), encode))
        })
        .collect()
}
