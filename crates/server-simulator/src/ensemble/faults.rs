//! Faults of the members and of the connections of clients.

use std::sync::Arc;
use std::time::Duration;

use proto::Sid;
use testkit::Random;
use tokio::time::sleep;

use super::Members;
use crate::world::World;

const STARTS: &str = "a member starts with its own files";
const CONTINUES: &str = "a server whose disk works does not fail";

/// Error of a server that its own member list does not contain.
const NOT_LISTED: &str = "not in the peer list";

/// Maximum number of changes of a disk before an injected fault.
const CHANGES_MAX: i64 = 200;

/// Draws faults and repairs until the clients end.
pub(crate) async fn disturb(world: Arc<World>, mut random: Random) {
    let members: Vec<Sid> = world.settings.servers().collect();
    while !world.is_over() {
        let pause_ms = random.range(50, world.settings.fault_pause_ms);
        sleep(Duration::from_millis(pause_ms.unsigned_abs())).await;
        let Some(member) = random.pick(&members) else {
            return;
        };
        if let Some(security) = &world.settings.security
            && random.percent(20)
        {
            blocking::permit(|| security.replace(&mut random));
        }
        let mut all = world.members.lock().await;
        end_failed(&world, &mut all).await;
        draw(&world, &mut all, &members, member, &mut random).await;
    }
}

/// Breaks and stalls connections of clients until the clients end.
pub(crate) async fn disturb_lines(world: Arc<World>, mut random: Random) {
    let pause_max_ms = 2 * world.settings.fault_pause_ms;
    while !world.is_over() {
        let pause_ms = random.range(20, pause_max_ms).unsigned_abs();
        sleep(Duration::from_millis(pause_ms)).await;
        world.lines.disturb(&mut random);
    }
    world.lines.repair();
}

async fn draw(world: &World, all: &mut Members, members: &[Sid], member: Sid, random: &mut Random) {
    let changes = random.range(0, CHANGES_MAX).unsigned_abs();
    match random.below(12) {
        0 | 1 if all.is_running(member) => all.stop(member, random.percent(70)).await,
        2 => {
            let apart = members.iter().copied();
            let apart = apart.filter(|_| random.percent(40)).collect();
            all.separate(apart);
        }
        3 | 4 => all.separate(Vec::new()),
        5 => {
            let delay_ms = random.range(0, 20).unsigned_abs();
            all.slow_down(member, Duration::from_millis(delay_ms));
        }
        6 if all.is_running(member) => all.fail_disk(member, changes, random.percent(50)),
        6 => all.start_and_kill(member, changes / 4).await,
        7 if random.percent(20) => restart_all(world, all, members, random).await,
        _ => start(world, all, member).await,
    }
}

async fn restart_all(world: &World, all: &mut Members, members: &[Sid], random: &mut Random) {
    for member in members {
        all.stop(*member, random.percent(70)).await;
    }
    for member in members {
        if random.percent(80) {
            start(world, all, *member).await;
        }
    }
}

pub(super) async fn start(world: &World, all: &mut Members, member: Sid) {
    if all.is_running(member) {
        return;
    }
    let mut started = all.start(member).await;
    if let Err(error) = &started
        && error.contains(NOT_LISTED)
        && world.settings.is_reconfigurable
    {
        // The member list was changed while the server was a member, and it left.
        let known = world.list.lock().clone();
        started = all.list_again(member, &known);
        if started.is_ok() {
            started = all.start(member).await;
        }
    }
    if let Err(error) = started {
        world.report(STARTS, &error);
    }
}

/// Ends the members that cannot continue.
pub(crate) async fn end_failed(world: &World, all: &mut Members) {
    for (member, code) in all.end_failed().await {
        world.report(
            CONTINUES,
            &format!("{member} ends with the exit code {code}"),
        );
    }
}

/// Ends all faults, and starts all members. Returns whether all of them have started.
pub(crate) async fn repair(world: &World) -> bool {
    world.lines.repair();
    let mut all = world.members.lock().await;
    all.separate(Vec::new());
    end_failed(world, &mut all).await;
    for server in world.settings.servers() {
        all.slow_down(server, Duration::ZERO);
        // A fault that is still due would happen during the checks.
        all.fail_disk(server, u64::MAX - 1, false);
        start(world, &mut all, server).await;
    }
    world.found().is_none()
}
