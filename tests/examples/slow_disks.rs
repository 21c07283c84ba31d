//! Measures reads on a server whose disk is stalled or slow, and compares them with earlier reads
//! on the same server.
//!
//! `cargo run --profile dist -p tests --example slow_disks` builds the server with the same
//! profile; `ZOARIUM_BIN` names another executable. The machine must be idle. The exit code is 1 if
//! a figure misses its goal.
//!
//! | table | goal |
//! |---|---|
//! | pauses: the longest read while a sync is held | at most 100 ms longer |
//! | reads at a follower while each of its syncs takes 20 ms more and one client writes | p50 at most 1.2 times as long; p99 at most 1.2 times or 0.2 ms longer |

use std::process::ExitCode;
use std::time::{Duration, Instant};

use proto::request::Request;
use tests::ensemble::{Ensemble, EnsembleBuilder, Load, LoadSettings};
use tests::requests::get_data;
use tests::{Faults, Flavour, Missing, RawSession, ServerBuilder, wait_for};

/// Part of the path of every transaction log.
const LOGS: &str = "/log.";
/// Id of the observer.
const OBSERVER: u64 = 4;
/// Id of a standalone server in the fault library.
const ALONE: u64 = 9;
/// Time limit for each request to a member.
const LIMIT: Duration = Duration::from_secs(60);
/// Duration of the reads before a stall, and during it.
const HOLD: Duration = Duration::from_secs(3);
/// Number of stalls of each disk. The table contains the median of their longest reads.
const HOLDS: usize = 5;
const PAUSE_GOAL_MS: f64 = 100.0;
/// Number of turns with a fast disk and with a slow one.
const TURNS: usize = 7;
const TURN: Duration = Duration::from_secs(2);
const SYNC_MS: u64 = 20;
/// Writes of each writer before a turn, so that the server learns the number of writers.
const WRITES_BEFORE: u64 = 12;
const SESSION_TIMEOUT_MS: i32 = 60_000;

/// Durations of reads, sorted.
struct Reads(Vec<Duration>);

impl Reads {
    /// Reads sequentially for the given time.
    fn measure(session: &mut RawSession, time: Duration) -> Self {
        let read: Request = get_data("/");
        let begin = Instant::now();
        let mut took = Vec::new();
        while begin.elapsed() < time {
            let sent = Instant::now();
            let answer = session.call(&read).expect("an answer to a read");
            assert_eq!(answer.err, 0, "a read is refused");
            took.push(sent.elapsed());
        }
        took.sort_unstable();
        Self(took)
    }

    fn quantile_ms(&self, per_mille: usize) -> f64 {
        let last = self.0.len() - 1;
        ms(self.0[last * per_mille / 1000])
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn load(name: &str, writers: usize, addresses: &[String]) -> Load {
    let settings = LoadSettings {
        prefix: name.replace(' ', "-"),
        writers,
        depth: 1,
        pace: Duration::from_millis(10),
        patience: LIMIT,
    };
    Load::with(addresses, &settings)
}

/// Prints the longest reads before and during a stall. Returns whether the goal is met.
fn report_pauses(name: &str, id: u64, address: &str, faults: &Faults, load: &Load) -> bool {
    let mut session = RawSession::open(address, None, SESSION_TIMEOUT_MS).expect("a session");
    let (mut before, mut held) = (Vec::new(), Vec::new());
    for _ in 0..HOLDS {
        load.wait_for_progress(WRITES_BEFORE);
        before.push(Reads::measure(&mut session, HOLD).quantile_ms(1000));
        faults.hold_syncs(id, LOGS);
        wait_for("a held sync", LIMIT, || faults.has_held(id).then_some(()));
        held.push(Reads::measure(&mut session, HOLD).quantile_ms(1000));
        faults.release(id);
    }
    let (before, held) = (median(before), median(held));
    let is_met = held - before < PAUSE_GOAL_MS;
    println!("| {name} | {before:.1} | {held:.1} | {} |", word(is_met));
    is_met
}

fn word(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

/// Starts three voters, one of which serves the observer.
fn ensemble(faults: &Faults) -> Result<Ensemble, Missing> {
    let mut ensemble = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .observers(&[Flavour::Zoarium])
        // No member is dropped while its disk is stalled.
        .setting("syncLimit", "100")
        .setting("observerMasterPort", "2191")
        .in_network(4)
        .prepare()?;
    for id in ensemble.ids() {
        ensemble.start_after(id, &faults.commands(id));
    }
    ensemble.wait_until_all_serve();
    Ok(ensemble)
}

fn report_all_pauses(faults: &Faults, ensemble: &Ensemble) -> bool {
    println!("| disk held | longest read before, ms | while held, ms | goal |");
    println!("|---|---|---|---|");
    let roles = ensemble.roles_with_observer(OBSERVER);
    let leader = ensemble.wait_for_leader();
    let mut all_met = true;
    for (kind, writers) in [("one writer", 1), ("four writers", 4)] {
        for &(id, role) in &roles {
            // A write through the member with the stalled disk would wait.
            let at = if id == leader { OBSERVER } else { leader };
            let load = load(
                &format!("{role} {kind}"),
                writers,
                &ensemble.addresses(&[at]),
            );
            let address = ensemble.member(id).client_address().to_string();
            let name = format!("{role}, {kind}");
            all_met &= report_pauses(&name, id, &address, faults, &load);
            load.finish();
        }
    }
    let builder = ServerBuilder::new(Flavour::Zoarium).after(&faults.commands(ALONE));
    let server = builder.start().expect("a server of ours needs nothing");
    for (kind, writers) in [("one writer", 1), ("four writers", 4)] {
        let load = load(&format!("alone {kind}"), writers, &[server.address()]);
        let name = format!("standalone, {kind}");
        all_met &= report_pauses(&name, ALONE, &server.address(), faults, &load);
        load.finish();
    }
    all_met
}

fn report_slow_follower(faults: &Faults, ensemble: &Ensemble) -> bool {
    let leader = ensemble.wait_for_leader();
    let roles = ensemble.roles_with_observer(OBSERVER);
    let of_follower = roles.iter().find(|(_, role)| *role == "follower");
    let (follower, _) = *of_follower.expect("a follower");
    let load = load("slow", 1, &ensemble.addresses(&[leader]));
    let address = ensemble.member(follower).client_address().to_string();
    let mut session = RawSession::open(&address, None, SESSION_TIMEOUT_MS).expect("a session");
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        load.wait_for_progress(WRITES_BEFORE);
        fast.push(Reads::measure(&mut session, TURN));
        faults.delay_syncs(follower, LOGS, SYNC_MS);
        load.wait_for_progress(WRITES_BEFORE);
        slow.push(Reads::measure(&mut session, TURN));
        faults.end_sync_faults(follower);
    }
    load.finish();
    println!();
    println!(
        "| reads at a follower, one client writes | fast disk, ms | {SYNC_MS} ms for each sync, ms | ratio | goal |"
    );
    println!("|---|---|---|---|---|");
    let mut all_met = true;
    for (name, per_mille, slack_ms) in [("p50", 500, 0.0), ("p99", 990, 0.2)] {
        let of = |reads: &[Reads]| median(reads.iter().map(|r| r.quantile_ms(per_mille)).collect());
        let (fast, slow) = (of(&fast), of(&slow));
        let is_met = slow <= f64::max(fast * 1.2, fast + slack_ms);
        let ratio = slow / fast;
        println!(
            "| {name} | {fast:.3} | {slow:.3} | {ratio:.2} | {} |",
            word(is_met)
        );
        all_met &= is_met;
    }
    all_met
}

fn main() -> Result<ExitCode, Missing> {
    let faults = Faults::new()?;
    let ensemble = ensemble(&faults)?;
    let pauses = report_all_pauses(&faults, &ensemble);
    let slow = report_slow_follower(&faults, &ensemble);
    Ok(if pauses && slow {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
