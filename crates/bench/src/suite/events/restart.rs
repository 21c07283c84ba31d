//! Time from the start of a server with many znodes to its first served read.

use std::thread;
use std::time::{Duration, Instant};

use super::figures::{EventFigure, EventFigures, EventKind};
use crate::error::Result;
use crate::rounds::compare::median;
use crate::rounds::process::Processes;
use crate::rounds::snapshots::SNAPSHOT;
use crate::suite::args::SuiteArgs;
use crate::suite::fleet::{Fleet, Members};

/// Time after a start within which a server begins a snapshot, if the start causes a snapshot.
const NO_SNAPSHOT_AFTER: Duration = Duration::from_secs(1);
/// Time limit for the snapshot that follows a start.
const SNAPSHOT_MAX: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

/// Restarts each standalone server that the suite started, in turns.
pub(super) fn measure(args: &SuiteArgs, fleet: &mut Fleet) -> Result<EventFigures> {
    let count = args.events.restarts;
    let seconds = fleet.in_turns(EventKind::Restart, count, |members| members == 1, restart)?;
    let znodes = args.znodes;
    let figures = [
        EventFigure {
            what: format!("restart with {znodes} znodes to the first read, median of {count}"),
            key: "median",
            of: |all| median(&mut all.to_vec()),
        },
        EventFigure {
            what: "the first restart, with a log to replay".to_owned(),
            key: "first",
            of: |all| all.first().copied().unwrap_or(f64::NAN),
        },
    ];
    Ok(EventFigures::of_turns(fleet, &seconds, figures))
}

/// Restarts the server. Returns the time until it served a read.
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

/// Waits for the snapshot that a server may write after its start, so that the next restart does
/// not have to replay a log.
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
