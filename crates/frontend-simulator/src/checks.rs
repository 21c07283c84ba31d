//! Invariants about the resources of the server.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use admission::limits::{
    HELD_BYTES_MAX, HELD_BYTES_OF_EACH, LARGE_FRAMES_BYTES, LARGE_REPLIES_BYTES,
    LARGE_REQUESTS_BYTES,
};
use admission::{ConnectionLimits, Ledger};
use frontend::limits::{CONNECTION_WITHIN_BYTES, OUTBOX_BYTES_HARD, UNREAD_EVENT_BYTES_MAX};
use testkit::Random;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::world::{Checked, Violation, World, peer_of, violation};

/// Each client that reads receives its replies, whatever other clients do.
pub(crate) const LIVENESS: &str = "clients that read receive their replies";
/// Only requests in the core hold permits.
pub(crate) const PERMITS: &str = "only requests in the core hold permits";
/// No connection holds a turn of a slow read while it waits.
pub(crate) const TURNS: &str = "no connection waits with a turn of a slow read";
/// All bytes that clients have not read are counted.
pub(crate) const COUNTED: &str = "bytes that clients do not read are counted";
/// The server holds a bounded number of bytes for its clients.
pub(crate) const BOUNDS: &str = "bytes for clients are bounded";
/// Nothing remains of clients that have ended.
pub(crate) const END: &str = "nothing remains of clients that have ended";

/// Number of times that other tasks may run before a state counts as permanent.
const YIELDS: usize = 2000;
/// Step in which `admission` counts bytes of a connection.
const COUNTED_STEP: usize = 4 << 10;

/// Checks the invariants again and again.
pub(crate) async fn watch(world: std::sync::Arc<World>, mut random: Random) {
    loop {
        let ms = random.pick(&[1, 7, 50, 900, 20_000]).unwrap_or(1);
        sleep(Duration::from_millis(ms)).await;
        if let Err(found) = check_at_rest(&world).await {
            return world.report(found);
        }
    }
}

/// Checks that a violated condition stays violated while no time passes. Tasks that can run may
/// repair it.
async fn check_at_rest(world: &World) -> Checked {
    let mut last = Ok(());
    for _ in 0..YIELDS {
        last = check(world);
        if last.is_ok() {
            break;
        }
        yield_now().await;
    }
    last
}

fn check(world: &World) -> Checked {
    let ledger = world.frontend.view.ledger();
    let (outstanding, in_core) = (ledger.permits.outstanding(), *world.core.in_progress.lock());
    // The oldest waiting batch may have received a part of its permits.
    let is_waiting = ledger.request_throttle.waiting() > 0;
    if outstanding < in_core || (outstanding > in_core && !is_waiting) {
        let text = format!("{outstanding} permits for {in_core} requests in the core");
        return Err(violation(PERMITS, text));
    }
    let (free, all) = (
        world.frontend.context.free_slow_reads(),
        (frontend::processors() / 2).max(1),
    );
    if free != all {
        return Err(violation(TURNS, format!("{free} of {all} turns are free")));
    }
    let connections = world.frontend.registry.all();
    // A client that stops does not notice that the server has ended its connection.
    let open = connections.iter().filter(|one| !one.is_closed());
    let open: HashSet<SocketAddr> = open.map(|one| one.peer).collect();
    let unread = world.unread.lock();
    let unread: usize = unread
        .iter()
        .filter(|(client, _)| open.contains(&peer_of(**client)))
        .map(|(_, bytes)| bytes)
        .sum();
    let reserved = LARGE_REPLIES_BYTES - ledger.large_replies.free();
    let buffered = HELD_BYTES_MAX - ledger.buffered.free();
    let counted = reserved + buffered + connections.len() * COUNTED_STEP;
    // A reply that is longer than the whole pool reserves the whole pool.
    if unread > counted && reserved < LARGE_REPLIES_BYTES {
        let text =
            format!("{unread} bytes are unread, but {reserved} reserved, {buffered} counted");
        return Err(violation(COUNTED, text));
    }
    let held: usize = connections
        .iter()
        .map(|connection| {
            let state = connection.lock();
            state.client.outbox.len() + state.client.queued_bytes()
        })
        .sum();
    let each = HELD_BYTES_OF_EACH + OUTBOX_BYTES_HARD;
    let max = HELD_BYTES_MAX + LARGE_REPLIES_BYTES + connections.len() * each;
    if held > max.max(longest_reply(world)) {
        return Err(violation(BOUNDS, format!("{held} bytes, at most {max}")));
    }
    let most = connections.iter().map(|connection| {
        let state = connection.lock();
        state.client.outbox.len()
    });
    let max = OUTBOX_BYTES_HARD + UNREAD_EVENT_BYTES_MAX + longest_reply(world);
    if let Some(most) = most.max().filter(|most| *most > max) {
        return Err(violation(BOUNDS, format!("{most} bytes in one outbox")));
    }
    Ok(())
}

/// Returns the length of the longest possible reply, in bytes.
fn longest_reply(world: &World) -> usize {
    40 * (world
        .settings
        .frame_bytes_max
        .max(3 * world.settings.long_bytes)
        + 1000)
}

/// Waits until all sessions have ended, and checks that nothing remains.
pub(crate) async fn at_end(world: &World) {
    let mut found = None;
    // The longest session timeout passes meanwhile.
    for _ in 0..1200 {
        sleep(Duration::from_secs(30)).await;
        found = leftovers(world);
        if found.is_none() {
            break;
        }
    }
    if let Some(text) = found {
        world.report(violation(END, text));
    }
}

fn leftovers(world: &World) -> Option<String> {
    let ledger = world.frontend.view.ledger();
    let sessions = world.state.tree.read().sessions().len();
    let registered = world.frontend.registry.len();
    let watches = world.state.watches.lock().count();
    let numbers = [
        ("sessions", sessions),
        ("registered connections", registered),
        (
            "counted connections",
            usize::from(!has_no_connections(ledger)),
        ),
        ("watches", watches),
        ("permits", ledger.permits.outstanding()),
        ("requests in the core", *world.core.in_progress.lock()),
        ("waiting batches", ledger.request_throttle.waiting()),
        (
            "bytes of large frames",
            LARGE_FRAMES_BYTES - ledger.large_frames.free(),
        ),
        (
            "bytes of large replies",
            LARGE_REPLIES_BYTES - ledger.large_replies.free(),
        ),
        (
            "bytes of large requests",
            LARGE_REQUESTS_BYTES - ledger.large_requests.room.free(),
        ),
        ("buffered bytes", HELD_BYTES_MAX - ledger.buffered.free()),
        (
            "connections within pipes",
            world.active.load(Ordering::Relaxed),
        ),
    ];
    let found = numbers.into_iter().find(|(_, number)| *number > 0);
    let found = found.map(|(name, number)| format!("{number} {name}"));
    let kept = || {
        world
            .core
            .with_server(|server| server.leftovers().map(str::to_owned))
    };
    found.or_else(kept)
}

/// Returns whether the limits on connections count no connection.
fn has_no_connections(ledger: &Ledger) -> bool {
    let address = IpAddr::from([127, 0, 0, 1]);
    let alone = ConnectionLimits {
        per_address: None,
        total: Some(1),
    };
    let entered = ledger.connections.enter(address, alone).is_ok();
    if entered {
        ledger.connections.leave(address);
    }
    entered
}

/// Returns the number of bytes of a frame that must be in the server, because the pipe between
/// server and client holds at most [`CONNECTION_WITHIN_BYTES`].
pub(crate) fn bytes_in_server(unread: usize) -> usize {
    unread.saturating_sub(CONNECTION_WITHIN_BYTES)
}

/// Returns a violation of [`LIVENESS`].
pub(crate) fn stalled(text: impl Into<String>) -> Violation {
    violation(LIVENESS, text)
}
