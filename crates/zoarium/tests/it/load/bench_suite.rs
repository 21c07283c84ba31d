//! `zoarium bench suite` with servers that it starts itself.

use std::fmt::Write;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{RunningServer, stderr, stdout, zoarium};

/// Returns different unused ports, below the range that the kernel assigns to outgoing connections,
/// so that no client takes a port while its server is down.
fn free_ports(count: usize) -> Vec<u16> {
    const FIRST: u16 = 30_100;
    const COUNT: u16 = 2600;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Each process starts at a different port.
    let start = u16::try_from(std::process::id() * 97 % u32::from(COUNT)).unwrap();
    let next = || FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports = (0..COUNT).map(|_| next()).filter(is_free);
    ports.take(count).collect()
}

/// Configuration of some servers that are not started yet.
struct Prepared {
    /// Client address of each server.
    addresses: Vec<String>,
    commands: Vec<String>,
}

impl Prepared {
    /// Creates a standalone server with few transactions between snapshots.
    fn server(home: &Path) -> Self {
        Self::ensemble(home, 1, "snapCount=2000\n")
    }

    fn ensemble(home: &Path, size: usize, settings: &str) -> Self {
        let ports = free_ports(size * 3);
        let mut members = String::new();
        for (index, ports) in ports.chunks(3).enumerate().filter(|_| size > 1) {
            let id = index + 1;
            writeln!(members, "server.{id}=127.0.0.1:{}:{}", ports[1], ports[2]).unwrap();
        }
        let (mut addresses, mut commands) = (Vec::new(), Vec::new());
        for (index, ports) in ports.chunks(3).enumerate() {
            let id = index + 1;
            let data = home.join(id.to_string());
            fs::create_dir_all(&data).unwrap();
            fs::write(data.join("myid"), id.to_string()).unwrap();
            let text = format!(
                "tickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir={}\nclientPort={}\nmaxClientCnxns=0\n\
                 admin.enableServer=false\n{members}{settings}",
                data.display(),
                ports[0]
            );
            let file = data.join("zoo.cfg");
            fs::write(&file, text).unwrap();
            addresses.push(format!("127.0.0.1:{}", ports[0]));
            let executable = env!("CARGO_BIN_EXE_zoarium");
            commands.push(format!("{executable} server {}", file.display()));
        }
        Self {
            addresses,
            commands,
        }
    }

    /// Returns the arguments that name the servers and start them.
    fn arguments(&self, servers: &str, start: &str) -> Vec<String> {
        let named = [servers.to_owned(), self.addresses.join(",")];
        let commands = self.commands.iter();
        let started = commands.flat_map(|command| [start.to_owned(), command.clone()]);
        named.into_iter().chain(started).collect()
    }

    fn expect_stopped(&self) {
        for address in &self.addresses {
            assert!(TcpStream::connect(address).is_err(), "{address} serves yet");
        }
    }
}

/// Runs a suite with these arguments. `rest` contains several words.
fn suite(servers: Vec<String>, only: &str, rest: &str) -> Output {
    let words = [
        "bench", "suite", "--only", only, "--rounds", "1", "--warmup", "0",
    ];
    let words = words.into_iter().chain(rest.split_ascii_whitespace());
    zoarium(words.map(str::to_owned).chain(servers))
}

/// Returns the cells of the row whose first cell begins with `name`.
fn row<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("| {name}")));
    let line = line.unwrap_or_else(|| panic!("{name} is missing in {text}"));
    line.trim_matches('|').split('|').map(str::trim).collect()
}

fn report(dir: &TempDir) -> Value {
    let text = fs::read_to_string(dir.path().join("report/report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn servers_are_started_filled_and_restarted_and_stopped_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let one = Prepared::server(&dir.path().join("one"));
    let two = Prepared::server(&dir.path().join("two"));
    let mut servers = one.arguments("--server", "--start");
    servers.extend(two.arguments("--versus", "--versus-start"));
    let home = dir.path().display();
    let output = suite(
        servers,
        "restart,during a snapshot,get 1 x 1,digest comparison",
        &format!("--znodes 3000 --restarts 2 --duration 100ms --dir {home} --report {home}/report"),
    );
    let text = stdout(&output);
    assert!(output.status.success(), "{text} {}", stderr(&output));
    for name in [
        "p99 of set 16 x 16 while no snapshot is written",
        "p99 of set 16 x 16 during a snapshot",
        "restart with 3000 znodes to the first read, median of 2",
        "the first restart, with a log to replay",
    ] {
        let cells = row(&text, name);
        assert!(cells.len() == 4 && !cells.contains(&"-"), "{cells:?}");
    }
    let compared = row(&text, "digest comparison");
    assert!(compared[1].parse::<f64>().is_ok(), "{compared:?}");
    // The processes are known without --pid.
    assert!(!row(&text, &one.addresses[0]).contains(&"-"), "{text}");
    let json = report(&dir);
    let [snapshot, restart] = &json["events"].as_array().unwrap()[..] else {
        panic!("{json}");
    };
    for side in snapshot["servers"].as_array().unwrap() {
        for phase in ["without", "during"] {
            assert!(side[phase]["ops"].as_u64() > Some(0), "{side}");
            assert!(side[phase]["seconds"].as_f64() > Some(0.0), "{side}");
        }
    }
    assert!(snapshot["ratios"]["p99_during"].as_f64() > Some(0.0));
    let restarts = restart["servers"][1]["seconds"].as_array().unwrap();
    assert_eq!(restarts.len(), 2);
    assert_eq!(restart["seconds"]["first"][1], restarts[0]);
    one.expect_stopped();
    two.expect_stopped();
    // Starts for the load, for the znodes, and two restarts.
    for log in ["start-1.log", "versus-start-1.log"] {
        let printed = fs::read_to_string(dir.path().join(log)).unwrap();
        assert!(
            printed.matches("serving clients on").count() >= 4,
            "{printed}"
        );
    }
}

#[test]
fn the_leader_of_an_ensemble_is_killed_and_a_majority_is_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let three = Prepared::ensemble(&dir.path().join("three"), 3, "");
    let home = dir.path().display();
    let output = suite(
        three.arguments("--server", "--start"),
        "leader killed,set 1 x 1,mixed",
        &format!("--trials 2 --duration 100ms --dir {home} --report {home}/report"),
    );
    let text = stdout(&output);
    assert!(output.status.success(), "{text} {}", stderr(&output));
    for name in [
        "leader killed: no write acknowledged, median of 2",
        "leader killed: the longest of these times",
    ] {
        assert_ne!(row(&text, name)[1], "-", "{text}");
    }
    let json = report(&dir);
    let killed = &json["events"][0];
    let gaps = killed["servers"][0]["seconds"].as_array().unwrap();
    assert!(
        gaps.len() == 2 && gaps.iter().all(|gap| gap.as_f64() > Some(0.0)),
        "{killed}"
    );
    // The figures include all processes.
    assert!(!row(&text, "set 1 x 1").contains(&"-"), "{text}");
    let does = "leader and 2 followers that only sync";
    assert_eq!(text.matches(does).count(), 2, "{text}");
    assert_eq!(json["limits"]["members"], 3);
    three.expect_stopped();
}

#[test]
fn an_impossible_start_is_refused_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = Prepared::server(dir.path());
    let refused = |arguments: Vec<String>, reason: &str| {
        let rest = format!("--dir {}", dir.path().display());
        let output = suite(arguments, "get", &rest);
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains(reason), "{text}");
    };
    let mut twice = server.arguments("--server", "--start");
    twice.extend(["--start".to_owned(), "true".to_owned()]);
    refused(
        twice,
        "the number of --start options (2) differs from the number of servers (1)",
    );

    let mut ends = server.arguments("--server", "--start");
    *ends.last_mut().unwrap() = "sh -c 'echo hopeless; exit 3'".to_owned();
    refused(ends, "ended with exit status: 3; see ");
    let log = fs::read_to_string(dir.path().join("start-1.log")).unwrap();
    assert_eq!(log, "hopeless\n");

    let mut taken = server.arguments("--server", "--start");
    let other = RunningServer::start();
    taken[1].clone_from(&other.address);
    refused(taken, "is in use");
}

#[test]
fn omitted_content_names_the_option_that_includes_it() {
    let server = RunningServer::start();
    let servers = vec!["--server".to_owned(), server.address.clone()];
    let output = suite(servers, "leader,restart,get 1 x 1", "--duration 50ms");
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    for line in [
        "- restart: --znodes, and --start for a standalone server",
        "- leader killed: --start for each of three servers or more",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{text}");
    }
    assert!(!text.contains("p99 during a snapshot"), "{text}");
}

#[test]
fn a_missing_snapshot_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let server = Prepared::ensemble(dir.path(), 1, "snapCount=100000000\n");
    let servers = server.arguments("--server", "--start");
    let output = suite(servers, "p99 during", "--znodes 100 --snapshot-time 300ms");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("the server wrote no snapshot within 0.3 s; reduce its snapCount"),
        "{text}"
    );
    assert_eq!(row(&text, "p99 of set 16 x 16 during a snapshot")[1], "-");
}
