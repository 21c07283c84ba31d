//! Peers without permissions. They send invalid bytes, try to read protected data, act as members,
//! and record the traffic of clients.

mod bytes;
mod impersonators;
mod intruders;
pub(crate) mod log_lines;
mod observers;
pub(crate) mod vault;
mod visits;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use testkit::Random;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::addresses::visitor;

use crate::world::World;

const SECRET_LINE: &str = "no log line contains a secret";
const FEW_LINES: &str = "an attacker causes few log lines";
/// Limit on the lines about one attacker from one place in the code. It exceeds two limits per
/// minute of a log limiter.
const LINES_MAX: usize = 30;
const NOTHING_LEFT: &str = "connections leave nothing behind";

/// Runs attackers until the clients of the ensemble end.
pub(crate) async fn run(world: Arc<World>, mut random: Random) {
    if world.settings.security.is_none() {
        return;
    }
    let mut observers = JoinSet::new();
    let observing = observers::run(world.clone(), Random::new(random.any()));
    observers.spawn(observing);
    let mut tasks = JoinSet::new();
    let victim = vault::Victim::default();
    let keeping = vault::keep(world.clone(), victim.clone(), Random::new(random.any()));
    tasks.spawn(keeping);
    let pause_ms = random.range(1_000, 12_000);
    let mut number = 0_u8;
    while !world.is_over() {
        number = number.wrapping_add(1);
        let pause = random.range(0, pause_ms).unsigned_abs();
        sleep(Duration::from_millis(pause)).await;
        let (world, own) = (world.clone(), Random::new(random.any()));
        match random.below(4) {
            0 => tasks.spawn(intruders::visit(world, victim.clone(), own)),
            1 => tasks.spawn(impersonators::visit(world, own)),
            _ => tasks.spawn(visits::visit(world, visitor(number), own)),
        };
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

/// Returns the number of sockets of this process.
pub(crate) fn sockets() -> usize {
    let entries = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count()
}

/// Checks that no socket is open, apart from the sockets before the run. All servers have stopped.
pub(crate) async fn have_left(world: &World, before: usize) {
    let mut open = sockets();
    for _ in 0..600 {
        if open <= before || world.found().is_some() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
        open = sockets();
    }
    world.report(NOTHING_LEFT, &format!("{open} sockets instead of {before}"));
}

/// Checks the log lines. Without [`crate::LogLines`], there are none.
pub(crate) fn check_lines(world: &World) {
    if let Some(line) = log_lines::take_leak() {
        world.report(SECRET_LINE, &line);
    }
    if let Some((place, count)) = log_lines::take_most().filter(|(_, count)| *count > LINES_MAX) {
        world.report(FEW_LINES, &format!("{count} lines: {place}"));
    }
}
