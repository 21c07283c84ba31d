//! Time without acknowledged writes after the leader of an ensemble has been killed.

use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::figures::{EventFigure, EventFigures, EventKind};
use super::writers::Writers;
use crate::error::{BenchError, Result};
use crate::rounds::compare::median;
use crate::suite::args::SuiteArgs;
use crate::suite::fleet::{Fleet, Members};
use crate::suite::limits::ENSEMBLE;
use crate::target::{self, Target};

/// Time limit for each step of a trial.
const TRIAL_MAX: Duration = Duration::from_secs(120);
/// Time for which each session must continue to write after the election. Otherwise, a trial could
/// end before a session that loses its connection late has written under the new leader.
const GO_ON: Duration = Duration::from_secs(1);
/// Time limit for the answer to a four-letter word.
const WORD_MAX: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// Kills the leader of each ensemble that the suite started, in turns.
pub(super) fn measure(args: &SuiteArgs, fleet: &mut Fleet) -> Result<EventFigures> {
    let count = args.events.trials;
    let root = target::new_root();
    let trial = |side: &mut Members, runtime: &Runtime| {
        runtime.block_on(side.target.make(&root))?;
        let gap = gap(side, runtime, &root)?;
        runtime.block_on(side.target.clean(&root))?;
        Ok(gap)
    };
    let is_meant = |members| members >= ENSEMBLE;
    let seconds = fleet.in_turns(EventKind::LeaderKilled, count, is_meant, trial)?;
    let figures = [
        EventFigure {
            what: format!("leader killed: no write acknowledged, median of {count}"),
            key: "median",
            of: |all| median(&mut all.to_vec()),
        },
        EventFigure {
            what: "leader killed: the longest of these times".to_owned(),
            key: "longest",
            of: |all| all.iter().copied().fold(0.0, f64::max),
        },
    ];
    Ok(EventFigures::of_turns(fleet, &seconds, figures))
}

/// Kills the leader, waits until writes succeed under another leader, and restarts the killed
/// server. Returns the longest time without an acknowledged write around the kill.
fn gap(side: &mut Members, runtime: &Runtime, root: &str) -> Result<Duration> {
    let writers = Writers::start(&side.target, root)?;
    poll_until("a write through each session", || {
        Ok(writers.all_wrote().then_some(()))
    })?;
    let leader = poll_until("a leader", || leader(side, runtime))?;
    let killed = Instant::now();
    if let Some(leader) = side.members.get_mut(leader) {
        leader.kill();
    }
    poll_until("another leader", || self::leader(side, runtime))?;
    let elected = Instant::now();
    poll_until("writes under another leader", || {
        Ok(writers.all_wrote_after(elected + GO_ON).then_some(()))
    })?;
    let gap = writers.stop().longest_gap(killed);
    for member in side
        .members
        .iter_mut()
        .filter(|member| member.pid().is_none())
    {
        member.start()?;
    }
    side.wait_until_all_serve(runtime)?;
    Ok(gap)
}

/// Waits until `poll` returns a value.
fn poll_until<T>(what: &str, mut poll: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = poll()? {
            return Ok(found);
        }
        if began.elapsed() > TRIAL_MAX {
            let limit = TRIAL_MAX.as_secs();
            return Err(BenchError::Argument(format!(
                "{what}: did not occur within {limit} s"
            )));
        }
        thread::sleep(POLL);
    }
}

/// Returns the index of the running member that leads, if there is one.
fn leader(side: &Members, runtime: &Runtime) -> Result<Option<usize>> {
    for (index, member) in side.members.iter().enumerate() {
        if member.pid().is_none() {
            continue;
        }
        // A member that does not answer does not lead, or at least not yet.
        let answer = runtime.block_on(word(&side.target, &member.address));
        let answer = answer.unwrap_or_default();
        if answer.contains("not in the whitelist") {
            return Err(BenchError::Argument(format!(
                "{} does not answer `srvr`; allow it in 4lw.commands.whitelist",
                member.address
            )));
        }
        if answer.contains("Mode: leader") {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Returns a server's answer to `srvr`.
async fn word(target: &Target, address: &str) -> std::io::Result<String> {
    let ask = async {
        let stream = TcpStream::connect(address).await?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let handshake = target.handshake();
        let mut stream = handshake.connector().establish(stream, &[host]).await?;
        stream.write_all(b"srvr").await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        // Some servers reset the connection after their answer.
        let _ = stream.read_to_end(&mut answer).await;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    tokio::time::timeout(WORD_MAX, ask).await?
}
