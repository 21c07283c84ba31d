//! Contenders of this crate in a separate process. The process runs this test executable with a
//! variable in its environment.

use client::{Client, Create, MultiOp, Options};
use zoarium_recipes::{Layout, LeaderLatch, LeaderSelector, Mutex, Result};

use super::{OURS, RECORDS, RECORDS_OF_A_TURN, SESSION_TIMEOUT, STOP, queue};

/// Environment variable with the servers for a process of contenders.
const SERVERS: &str = "ZOARIUM_MIXED_SERVERS";

/// Returns the command that starts a process of contenders.
pub(super) fn command(servers: &str) -> std::process::Command {
    let executable = std::env::current_exe().expect("the running test has a path");
    let mut command = std::process::Command::new(executable);
    command
        .args(["--exact", "mixed::ours::contend", "--nocapture"])
        .env(SERVERS, servers);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contend() {
    let Ok(servers) = std::env::var(SERVERS) else {
        return;
    };
    let mutex = async |client: &Client, queue: &str, directory: &str, layout| {
        let mutex = Mutex::new(client, directory)?.with_layout(layout);
        let guard = mutex.acquire().await?;
        hold(client, queue, guard.path(), || guard.check()).await;
        guard.release().await.map(drop)
    };
    let selector = async |client: &Client, queue: &str, directory: &str, layout| {
        let selector = LeaderSelector::new(client, directory)?.with_layout(layout);
        let lead = async |leadership: zoarium_recipes::Leadership| {
            hold(client, queue, leadership.path(), || leadership.check()).await;
        };
        selector.lead(lead).await.map(drop)
    };
    let latch = async |client: &Client, queue: &str, directory: &str, _| {
        let latch = LeaderLatch::start(client, directory, OURS)?;
        let leadership = latch.leads().await?;
        hold(client, queue, leadership.path(), || leadership.check()).await;
        latch.close().await;
        Ok(())
    };
    tokio::join!(
        take_turns(&servers, "mutex", Layout::Curator, mutex),
        take_turns(&servers, "selector", Layout::Curator, selector),
        take_turns(&servers, "latch", Layout::Curator, latch),
        take_turns(&servers, "lock", Layout::Kazoo, mutex),
        take_turns(&servers, "election", Layout::Kazoo, selector),
    );
}

/// Takes turns, across sessions, until the znode [`STOP`] exists.
async fn take_turns(
    servers: &str,
    name: &str,
    layout: Layout,
    turn: impl AsyncFn(&Client, &str, &str, Layout) -> Result<()>,
) {
    let options = Options::new(servers)
        .with_session_timeout(SESSION_TIMEOUT)
        .with_renewal();
    let client = Client::connect(options).await.unwrap();
    let directory = queue(name).directory;
    loop {
        connected(&client).await;
        if matches!(client.exists(STOP).await, Ok(Some(_))) {
            break;
        }
        if let Err(error) = turn(&client, name, directory, layout).await {
            eprintln!("{name}: {error}");
        }
    }
    let _ = client.close().await;
}

/// Writes records until a server refuses one because the contender is deleted. A lost connection
/// does not stop the writing. A paused holder still considers itself a holder, and only the check
/// stops it.
async fn hold(client: &Client, queue: &str, own: &str, check: impl Fn() -> MultiOp) {
    let path = format!("{RECORDS}/{queue}/{OURS}/r-");
    let kind = Create::persistent().sequential();
    let mut written = 0;
    while written < RECORDS_OF_A_TURN {
        let record = MultiOp::create(&path, own.to_owned(), &kind);
        match client.multi(&[check(), record]).await {
            Ok(_) => written += 1,
            Err(error) if error.code().is_some() => {
                eprintln!("{own}: {error}");
                return;
            }
            Err(_) => connected(client).await,
        }
    }
}

async fn connected(client: &Client) {
    let mut state = client.state();
    let is_connected = state.wait_for(|state| state.connected_session().is_some());
    drop(is_connected.await.unwrap());
}
