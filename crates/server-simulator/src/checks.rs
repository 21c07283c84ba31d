//! Invariants at the end of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Client, Options, Stat};
use testkit::linearizability::znode::Znode;
use testkit::linearizability::{Verdict, check};
use tokio::time::{sleep, timeout};

use crate::clients::path_of;
use crate::settings::{CLIENT_PORT, address_of};
use crate::world::World;

pub(crate) const LIVENESS: &str = "an ensemble without faults serves";
const LINEARIZABLE: &str = "the answers to all clients are linearizable";
const SAME: &str = "all members have the same znodes";

/// Time after which an ensemble without faults must serve.
const SERVES_WITHIN: Duration = Duration::from_secs(600);
/// Maximum number of steps of a search for an order.
const STEPS_MAX: usize = 2_000_000;

/// Waits until all members serve.
pub(crate) async fn serves(world: &World) -> bool {
    let serving = async {
        while !world.members.lock().await.are_serving() {
            sleep(Duration::from_millis(200)).await;
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
pub(crate) async fn are_equal(world: &World) {
    let mut first = None;
    for member in world.settings.members() {
        let server = format!("{}:{CLIENT_PORT}", address_of(member));
        let options = Options::new(&server).with_wait(Duration::from_secs(60));
        let read = async {
            let client = Client::connect(options).await?;
            client.sync("/").await?;
            let found = znodes(world, &client).await;
            client.close().await?;
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
