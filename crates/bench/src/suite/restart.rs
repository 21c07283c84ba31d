//! How long a server with many znodes takes from its start to the first read that it serves.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::compare::median;
use super::super::error::Result;
use super::super::process::Processes;
use super::super::progress::Progress;
use super::super::snapshots::SNAPSHOT;
use super::SuiteArgs;
use super::events::{Found, Kind, Line};
use super::fleet::{Fleet, Members};

/// A server that has not begun a snapshot by then does not write one because of its start.
const NO_SNAPSHOT_AFTER: Duration = Duration::from_secs(1);
/// Time for the snapshot of a start.
const SNAPSHOT_MAX: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

/// Restarts each server that is alone and was started by the suite, in turns.
pub(super) fn measure(args: &SuiteArgs, fleet: &mut Fleet) -> Result<Found> {
    let count = args.events.restarts;
    let progress = Progress::within(Kind::Restart.name());
    let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); fleet.sides.len()];
    for turn in 1..=count {
        for (side, seconds) in fleet.sides.iter_mut().zip(&mut seconds) {
            if let Some(side) = side.as_mut().filter(|side| side.members.len() == 1) {
                progress.stage(&format!("{}: {turn} of {count}", side.target.name()));
                progress.counting(turn - 1, count);
                seconds.push(restart(side, &fleet.runtime)?.as_secs_f64());
            }
        }
    }
    let each = |figure: &dyn Fn(&[f64]) -> f64| {
        let of_side = |seconds: &Vec<f64>| (!seconds.is_empty()).then(|| figure(seconds));
        seconds.iter().map(of_side).collect()
    };
    let znodes = args.znodes;
    let lines = vec![
        Line {
            what: format!("restart with {znodes} znodes to the first read, median of {count}"),
            key: "median",
            seconds: each(&|all| median(&mut all.to_vec())),
        },
        Line {
            what: "the first of them, with a log to replay".to_owned(),
            key: "first",
            seconds: each(&|all| all.first().copied().unwrap_or(f64::NAN)),
        },
    ];
    let sides = fleet.sides.iter().zip(&seconds);
    let sides = sides.filter_map(|(side, seconds)| {
        let name = side.as_ref()?.target.name();
        (!seconds.is_empty()).then(|| json!({ "server": name, "seconds": seconds }))
    });
    Ok(Found {
        lines,
        sides: sides.collect(),
        complaints: Vec::new(),
    })
}

/// Stops the server and starts it again; the time until it served a read.
fn restart(side: &mut Members, runtime: &tokio::runtime::Runtime) -> Result<Duration> {
    let Members { members, target } = side;
    let mut took = Duration::ZERO;
    for member in members {
        member.stop();
        let began = Instant::now();
        member.start()?;
        took += member.wait_until_it_serves(target, runtime, began)?;
        let pids: Vec<u32> = member.pid().into_iter().collect();
        wait_for_its_snapshot(&Processes::new(&pids)?)?;
    }
    Ok(took)
}

/// Waits for the snapshot that servers write when they have started, so that the next restart has no log to replay.
fn wait_for_its_snapshot(processes: &Processes) -> Result<()> {
    let began = Instant::now();
    let mut is_seen = false;
    while began.elapsed() < SNAPSHOT_MAX {
        let is_open = processes.have_open(SNAPSHOT)?;
        if !is_open && (is_seen || began.elapsed() > NO_SNAPSHOT_AFTER) {
            break;
        }
        is_seen |= is_open;
        thread::sleep(POLL);
    }
    Ok(())
}
