//! The command line, with real ensembles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fastrand::Rng;
use jepsen::cluster::{Machine, Need};
use jepsen::history::{Event, Kind, Name, Process as Who};
use jepsen::run::{EXIT_CANNOT_RUN, EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, HISTORY, Record};
use jepsen::{nemesis, workload};
use rustix::process::Signal;
use tempfile::TempDir;
use tests::{Process, wait_for, zoarium_binary};

/// Time limit of a command, including the build before it.
const LIMIT: Duration = Duration::from_secs(300);

/// Number of concurrent runs, and the time of each under faults in seconds: five minutes in total.
const RUNS: usize = 10;
const SECONDS: u64 = 30;
/// Minimum number of acknowledged calls of each kind, below which a run proves nothing.
const ACKNOWLEDGED_MIN: u64 = 30;

/// Result of a command.
struct Ended {
    code: Option<i32>,
    printed: String,
    /// Its process id, which is part of the names of its remains.
    id: u32,
}

fn jepsen(dir: &TempDir, words: &str) -> Command {
    // Otherwise it would be built during a run.
    zoarium_binary();
    let mut command = Command::new(env!("CARGO_BIN_EXE_jepsen"));
    command.args(words.split_whitespace());
    command.current_dir(dir.path()).stdin(Stdio::null());
    command
}

fn ended(dir: &TempDir, command: &mut Command) -> Ended {
    let log = dir.path().join("printed");
    end(Process::spawn(command, &log).expect("start jepsen"))
}

fn end(mut process: Process) -> Ended {
    let id = process.id();
    let status = process.wait(LIMIT);
    let printed = process.log();
    let status = status.unwrap_or_else(|| panic!("no end within {LIMIT:?}: {printed}"));
    Ended {
        code: status.code(),
        printed,
        id,
    }
}

fn dir() -> TempDir {
    tempfile::tempdir().expect("make a directory")
}

fn history(dir: &Path) -> Vec<Event> {
    jepsen::run::read_history(&dir.join(HISTORY)).expect("read the history")
}

/// Returns the files of a run with this process id in the temporary directory, and its processes.
fn left_behind(id: u32) -> (Vec<PathBuf>, Vec<String>) {
    let mine = format!("jepsen-{id}-");
    let entries = std::fs::read_dir(std::env::temp_dir())
        .expect("list")
        .flatten();
    let named = |path: &PathBuf| path.to_string_lossy().contains(&mine);
    let files = entries.map(|entry| entry.path()).filter(named).collect();
    let processes = std::fs::read_dir("/proc").expect("list").flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    (files, lines.filter(|line| line.contains(&mine)).collect())
}

/// One of the concurrent runs.
struct Drawn {
    workload: &'static str,
    nemeses: Vec<&'static str>,
    seed: u64,
}

impl Drawn {
    fn words(&self) -> String {
        format!(
            "run --workload {} --nemesis {} --members zzz --seconds {SECONDS} --clients 3 --pace 50 \
             --seed {}",
            self.workload,
            self.nemeses.join(","),
            self.seed,
        )
    }
}

/// Faults that the tables in docs/lab/jepsen-runs.md combine for each workload. Other combinations
/// are for longer runs with an observer.
const TOGETHER: [&[&str]; 4] = [
    &["kill", "partition", "pause"],
    &["power", "clock", "fsync"],
    &["rot", "disk-full", "kill"],
    &["membership"],
];

/// Returns the registers and random other workloads, each under faults that this machine can make.
fn drawn(rng: &mut Rng) -> Vec<Drawn> {
    let machine = Machine::look(&[]);
    let can = |name: &&str| {
        let kind = nemesis::ALL.iter().find(|kind| kind.name == *name);
        kind.expect("a kind of fault").lack(&machine).is_none()
    };
    let together = TOGETHER.map(|names| names.iter().copied().filter(can).collect::<Vec<_>>());
    let together = together.into_iter().filter(|names| !names.is_empty());
    let together: Vec<_> = together.collect();
    let has_network = machine.lack(Need::Network).is_none();
    let others = workload::all()
        .iter()
        .filter(|one| !one.has_registers() && one.name() != "large-feed")
        .filter(|one| has_network || !one.asks_admin());
    let mut workloads = vec!["register"];
    workloads.extend(rng.choose_multiple(others.map(|one| one.name()), RUNS - 1));
    let workloads = workloads.into_iter();
    let draw = |workload| Drawn {
        workload,
        nemeses: together[rng.usize(..together.len())].clone(),
        seed: rng.u64(..),
    };
    workloads.map(draw).collect()
}

#[test]
#[ignore = "needs minutes of faults"]
fn five_minutes_under_faults_find_nothing() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("make a directory");
    let drawn = drawn(&mut Rng::new());
    let out = |run: &Drawn| dir.path().join(run.workload);
    let start = |run: &Drawn| {
        println!("{}", run.words());
        let mut command = jepsen(&dir, &run.words());
        command.arg("--out").arg(out(run));
        let log = dir.path().join(format!("{}.log", run.workload));
        Process::spawn(&mut command, &log).expect("start jepsen")
    };
    let processes: Vec<_> = drawn.iter().map(start).collect();
    let ended: Vec<_> = processes.into_iter().map(end).collect();
    let runs = || drawn.iter().zip(&ended);
    let failed = runs().filter(|(_, ended)| ended.code != Some(EXIT_VALID));
    let failed: Vec<_> = failed
        .map(|(run, Ended { code, printed, .. })| {
            let words = run.words();
            format!("exit code {code:?} of cargo run -p jepsen -- {words}\n{printed}")
        })
        .collect();
    if !failed.is_empty() {
        let kept = dir.keep();
        panic!("files in {}\n{}", kept.display(), failed.join("\n"));
    }
    let mut seconds = 0;
    for (run, ended) in runs() {
        seconds += looks_whole(run, &out(run));
        assert_eq!(left_behind(ended.id), (vec![], vec![]), "{}", run.words());
    }
    assert!(seconds >= 300, "{seconds} s under faults");
}

/// Checks the output of a valid run. Returns its time under faults, in seconds.
fn looks_whole(run: &Drawn, out: &Path) -> u64 {
    let words = run.words();
    let record = Record::load(out).expect("the record");
    assert_eq!(
        (record.seed, record.error, record.versions.len()),
        (run.seed, None, 3),
        "{words}"
    );
    assert_eq!(record.nemeses, run.nemeses, "{words}");
    assert!(
        record.events["ok"] >= ACKNOWLEDGED_MIN,
        "{words}: {:?}",
        record.events
    );
    assert!(
        record.command.contains(&run.seed.to_string()),
        "{}",
        record.command
    );
    assert!((1..=3).all(|id| out.join(format!("member-{id}.log")).is_file()));
    assert!(out.join("report.html").is_file() && out.join("history.edn").is_file());
    let events = history(out);
    every_fault_ends(&events, &record.faults);
    calls_are_well_formed(&events);
    record.seconds
}

fn every_fault_ends(events: &[Event], counts: &BTreeMap<String, u64>) {
    let mut open = BTreeMap::new();
    let mut begun = BTreeMap::new();
    let by_nemesis = |event: &&Event| event.process == Who::Other(Name::Nemesis);
    for Event { f, value, .. } in events.iter().filter(by_nemesis) {
        match value["event"].as_str() {
            Some("begin") => {
                *begun.entry(f.clone()).or_default() += 1;
                assert_eq!(open.insert(f, &value["fault"]), None, "{f} began twice");
            }
            Some("end") => assert_eq!(open.remove(f), Some(&value["fault"]), "{f}"),
            _ => {}
        }
    }
    assert!(!begun.is_empty() && open.is_empty(), "{begun:?} {open:?}");
    assert_eq!(&begun, counts);
}

/// Checks that a process has at most one open call, and no call after an unknown outcome.
fn calls_are_well_formed(events: &[Event]) {
    let mut open: BTreeMap<Who, Option<&str>> = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| matches!(event.process, Who::Client(_)))
    {
        let before = open.get(&event.process).copied();
        let after = match event.kind {
            Kind::Invoke => {
                assert_ne!(before, Some(None), "it never calls again: {event:?}");
                assert!(
                    before.is_none_or(|f| f == Some("")),
                    "one at a time: {event:?}"
                );
                Some(event.f.as_str())
            }
            Kind::Ok | Kind::Fail => {
                assert_eq!(before, Some(Some(event.f.as_str())), "{event:?}");
                Some("")
            }
            Kind::Info => {
                assert_eq!(before, Some(Some(event.f.as_str())), "{event:?}");
                None
            }
        };
        open.insert(event.process, after);
    }
}

#[test]
fn what_is_not_there_is_answered_with_the_list() {
    for (words, named) in [
        ("run --workload registers", "registers"),
        ("run --workload register --nemesis kill,flood", "flood"),
    ] {
        let dir = dir();
        let Ended { code, printed, .. } = ended(&dir, &mut jepsen(&dir, words));
        assert_eq!(code, Some(EXIT_CANNOT_RUN), "{printed}");
        for text in [named, "workloads:", "nemeses:", "partition"] {
            assert!(printed.contains(text), "no {text} in {printed}");
        }
    }
}

#[test]
fn bad_words_are_refused_before_anything_starts() {
    for (words, why) in [
        ("run --workload register --members zz", "3 to 9 letters"),
        ("run --workload register --members zzq", "3 to 9 letters"),
        ("run --workload register --seconds 0", "seconds"),
        ("run --workload register --setting tickTime", "KEY=VALUE"),
        ("run --workload register --out .", "not empty"),
        ("check nowhere.jsonl", "the workload is unknown"),
        ("check nowhere.jsonl --workload register", "No such file"),
    ] {
        let dir = dir();
        let Ended { code, printed, .. } = ended(&dir, &mut jepsen(&dir, words));
        assert_eq!(code, Some(EXIT_CANNOT_RUN), "{words}: {printed}");
        assert!(printed.contains(why), "{words}: {printed}");
    }
}

#[test]
fn a_member_that_does_not_start_shows_the_end_of_its_log() {
    let dir = dir();
    let words = "run --workload register --seconds 5 --setting tickTime=soon --out out";
    let Ended { code, printed, id } = ended(&dir, &mut jepsen(&dir, words));
    assert_eq!(code, Some(EXIT_CANNOT_RUN), "{printed}");
    for text in ["ended (exit status", "end of its log", "tickTime"] {
        assert!(printed.contains(text), "no {text} in {printed}");
    }
    let record = Record::load(&dir.path().join("out")).expect("the record");
    assert!(record.error.is_some_and(|error| error.contains("tickTime")));
    assert_eq!(left_behind(id), (vec![], vec![]));
}

#[test]
fn what_the_machine_cannot_do_is_said_and_the_rest_runs() {
    let (dir, tools) = (dir(), dir());
    std::os::unix::fs::symlink("/bin/sh", tools.path().join("sh")).expect("link");
    let words = "run --workload register --nemesis partition,clock,kill --seconds 6 --out out";
    let mut command = jepsen(&dir, words);
    command
        .env("PATH", tools.path())
        .env("ZOARIUM_BIN", zoarium_binary());
    let Ended { code, printed, id } = ended(&dir, &mut command);
    assert_ne!(code, Some(EXIT_CANNOT_RUN), "{printed}");
    assert_ne!(code, Some(EXIT_INVALID), "{printed}");
    let record = Record::load(&dir.path().join("out")).expect("the record");
    assert_eq!(record.nemeses, ["kill"]);
    for (what, tool) in [("partition", "ip"), ("clock", "cc")] {
        let why = &record.left_out[what];
        assert!(why.contains(&format!("{tool} is not on PATH")), "{why}");
        assert!(printed.contains(&format!("left out: {what}")), "{printed}");
    }
    assert!(record.faults["kill"] > 0);
    assert_eq!(left_behind(id), (vec![], vec![]));
}

#[test]
fn a_signal_ends_the_run_and_its_members() {
    let dir = dir();
    let words = "run --workload register --nemesis kill,pause --seconds 600 --out out";
    let log = dir.path().join("printed");
    let mut process = Process::spawn(&mut jepsen(&dir, words), &log).expect("start jepsen");
    let out = dir.path().join("out");
    wait_for("some of the history", LIMIT, || {
        let length = std::fs::metadata(out.join(HISTORY)).ok()?.len();
        (length > 0).then_some(())
    });
    process.signal(Signal::INT);
    let status = process.wait(Duration::from_secs(60)).expect("an end");
    assert_eq!(status.code(), Some(EXIT_UNKNOWN), "{}", process.log());
    let record = Record::load(&out).expect("the record");
    assert_eq!(record.error.as_deref(), Some("interrupted"));
    assert!(history(&out).len() > 10);
    wait_for(
        "end of all that it started",
        Duration::from_secs(20),
        || (left_behind(process.id()) == (vec![], vec![])).then_some(()),
    );
}

#[test]
fn a_leg_continues_after_the_last_complete_leg() {
    let dir = dir();
    let out = dir.path().join("out");
    let leg = "run --leg --workload register --seconds 2 --clients 2 --pace 20 --out out";
    let Ended { code, printed, .. } = ended(&dir, &mut jepsen(&dir, leg));
    if printed.contains("require a separate network") {
        println!("skipped: {printed}");
        return;
    }
    assert_eq!(code, Some(EXIT_VALID), "{printed}");
    let first = history(&out);
    // As after an interrupted leg: events and files that do not belong to a complete leg.
    let path = out.join(HISTORY);
    let mut text = std::fs::read(&path).expect("the history");
    text.extend_from_slice(b"{half an event");
    std::fs::write(&path, text).expect("write the history");
    std::fs::remove_dir_all(out.join("members/2/data/version-2")).expect("remove files");
    let Ended { code, printed, .. } = ended(&dir, &mut jepsen(&dir, leg));
    assert_eq!(code, Some(EXIT_VALID), "{printed}");
    let both = history(&out);
    assert_eq!(both[..first.len()], first[..]);
    calls_are_well_formed(&both);
    let legs = Record::load(&out).expect("the record").legs.expect("legs");
    assert_eq!(legs.len(), 2);
    assert_eq!(legs[0].network, legs[1].network);
    assert!(legs.iter().all(|leg| leg.acknowledged > 10), "{legs:?}");
    let Ended { printed, .. } = ended(&dir, &mut jepsen(&dir, "legs out"));
    assert!(printed.contains("| out | 2 | "), "{printed}");
    assert!(printed.contains("2 legs, 0:00 h"), "{printed}");
    let other = leg.replace("register", "set");
    let Ended { code, printed, .. } = ended(&dir, &mut jepsen(&dir, &other));
    assert_eq!(code, Some(EXIT_CANNOT_RUN), "{printed}");
    assert!(printed.contains("another workload"), "{printed}");
}
