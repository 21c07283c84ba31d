//! Invariants at the end of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Client, Options, Stat};
use proto::Sid;
use testkit::Random;
use testkit::linearizability::znode::Znode;
use testkit::linearizability::{Verdict, check};
use tokio::time::{sleep, timeout};

use crate::clients::registers::path_of;
use crate::clients::servers;
use crate::ensemble::{faults, membership};
use crate::settings::{CLIENT_PORT, address_of};
use crate::world::World;

pub(crate) const LIVENESS: &str = "an ensemble without faults serves";
const LINEARIZABLE: &str = "the answers to all clients are linearizable";
const SAME: &str = "all members have the same znodes";

const VANISH: &str = "ephemerals, containers, TTL znodes and unanswered creations vanish";
const REMAIN: &str = "no other znodes vanish";

/// Time after which an ensemble without faults must serve.
const SERVES_WITHIN: Duration = Duration::from_secs(600);
/// Maximum number of steps of a search for an order.
const STEPS_MAX: usize = 2_000_000;

/// Returns the members at the end of the run.
pub(crate) async fn members(world: &World) -> Option<Vec<Sid>> {
    if !world.settings.is_reconfigurable {
        return Some(world.settings.members().collect());
    }
    let options = Options::new(&servers(world))
        .with_wait(Duration::from_secs(60))
        .with_renewal();
    let reading = async {
        loop {
            if let Ok(client) = Client::connect(options.clone()).await
                && let Ok(list) = client.retry(|| membership::read(&client)).await
            {
                let _ = client.close().await;
                break list;
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    let list = timeout(SERVES_WITHIN, reading).await.ok()?;
    Some(list.members.keys().copied().collect())
}

/// Waits until all members serve.
pub(crate) async fn serves(world: &World, members: &[Sid]) -> bool {
    let serving = async {
        while !world.members.lock().await.are_serving(members) {
            sleep(Duration::from_millis(200)).await;
            faults::end_failed(world, &mut *world.members.lock().await).await;
        }
    };
    timeout(SERVES_WITHIN, serving).await.is_ok()
}

/// Checks the answers to the clients.
pub(crate) fn are_linearizable(world: &World) {
    for (znode, calls) in world.calls.iter().enumerate() {
        let calls = calls.lock();
        if let Verdict::NotLinearizable { longest, stuck_at } = check(&Znode, &calls, STEPS_MAX) {
            let last = longest.iter().rev().take(5).map(|call| &calls[*call]);
            let text = format!(
                "{}: {:?} after {:?} of {} calls",
                path_of(znode),
                calls[stuck_at],
                last.collect::<Vec<_>>(),
                calls.len()
            );
            world.report(LINEARIZABLE, &text);
        }
    }
}

/// Checks that all members have the same znodes.
pub(crate) async fn are_equal(world: &World, members: &[Sid]) {
    let mut first = None;
    for member in members {
        let server = format!("{}:{CLIENT_PORT}", address_of(*member));
        let security = world.settings.security.as_deref();
        let options = match security {
            Some(security) => security.options_of(*member, &mut Random::new(0)),
            None => Options::new(&server),
        };
        let options = options.with_wait(Duration::from_secs(60));
        let read = async {
            let client = Client::connect(options).await?;
            if let Some(security) = security {
                security.identify(&client).await?;
            }
            client.sync("/").await?;
            let found = znodes(world, &client).await;
            let _ = client.close().await;
            found
        };
        match timeout(SERVES_WITHIN, read).await {
            Ok(Ok(found)) => {
                let wanted = first.get_or_insert_with(|| found.clone());
                if *wanted != found {
                    world.report(SAME, &format!("{member}: {found:?} instead of {wanted:?}"));
                }
            }
            Ok(Err(error)) => world.report(LIVENESS, &format!("{member}: {error}")),
            Err(_) => world.report(LIVENESS, &format!("{member} does not answer")),
        }
    }
}

/// Waits until all znodes that must vanish are absent, and checks that others are present.
pub(crate) async fn leftovers(world: &World) {
    let options = Options::new(&servers(world))
        .with_wait(Duration::from_secs(60))
        .with_renewal();
    let looking = async {
        let client = Client::connect(options).await?;
        loop {
            client.retry(|| client.sync("/")).await?;
            let found = find_leftovers(world, &client).await?;
            if found.is_empty() {
                break;
            }
            *world.leftovers.lock() = found;
            sleep(Duration::from_secs(5)).await;
        }
        let present = world.expected.lock().present.clone();
        for path in present {
            if client.retry(|| client.exists(&path)).await?.is_none() {
                world.report(REMAIN, &path);
            }
        }
        client.close().await
    };
    match timeout(SERVES_WITHIN, looking).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => world.report(LIVENESS, &error.to_string()),
        Err(_) => world.report(VANISH, &format!("{:?}", world.leftovers.lock())),
    }
    let clients = std::mem::take(&mut world.expected.lock().clients);
    for client in clients {
        let _ = timeout(SERVES_WITHIN, client.close()).await;
    }
}

async fn find_leftovers(world: &World, client: &Client) -> client::Result<Vec<String>> {
    let (empty, absent) = {
        let expected = world.expected.lock();
        (expected.empty.clone(), expected.absent.clone())
    };
    let mut found = Vec::new();
    for path in absent {
        if client.retry(|| client.exists(&path)).await?.is_some() {
            found.push(path);
        }
    }
    for path in empty {
        match client.retry(|| client.get_children(&path)).await {
            Ok(names) => found.extend(names.iter().map(|name| format!("{path}/{name}"))),
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

type Znodes = BTreeMap<String, (Option<client::Bytes>, Stat)>;

async fn znodes(world: &World, client: &Client) -> client::Result<Znodes> {
    let mut found = BTreeMap::new();
    for znode in 0..world.settings.znodes {
        let path = path_of(znode);
        match client.get_data(&path).await {
            Ok(read) => {
                found.insert(path, read);
            }
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
