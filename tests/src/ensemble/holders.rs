//! Sessions that stay open, each with an ephemeral and a watch, while servers stop and start.

use std::time::Duration;

use client::{Client, Create, Options, State, WatchEvent};
use tokio::runtime::Runtime;
use tokio::sync::broadcast::Receiver;

use super::SETTLE_LIMIT;

/// Parent of their ephemerals and of the watched znodes.
const TOP: &str = "/held";
/// Time limit for one call, including reconnects.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// The sessions. Dropping them lets the sessions expire.
#[derive(Debug)]
pub struct Holders {
    runtime: Runtime,
    holders: Vec<Holder>,
    changes: u64,
}

#[derive(Debug)]
struct Holder {
    client: Client,
    events: Receiver<WatchEvent>,
    ephemeral: String,
    watched: String,
}

impl Holders {
    /// Opens one session with each of these servers. A session that loses its connection reconnects
    /// to the next server.
    pub fn open(addresses: &[String], timeout: Duration) -> Holders {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime for sessions");
        let holders = runtime.block_on(async {
            let mut holders = Vec::new();
            for number in 0..addresses.len() {
                let mut servers = addresses.to_vec();
                servers.rotate_left(number);
                let options = Options::new(&servers.join(",")).in_order();
                let options = options.with_session_timeout(timeout);
                let client = Client::connect(options).await.expect("a session");
                holders.push(Holder::new(client, number).await);
            }
            holders
        });
        Holders {
            runtime,
            holders,
            changes: 0,
        }
    }

    /// Panics unless every session is still the same, its ephemeral exists and belongs to it, and
    /// every watch reports one change once.
    pub fn check(&mut self) {
        self.changes += 1;
        let changes = self.changes;
        let Holders {
            runtime, holders, ..
        } = self;
        runtime.block_on(async {
            // One session's change is another session's event.
            for number in 0..holders.len() {
                let other = holders[(number + 1) % holders.len()].client.clone();
                let holder = &mut holders[number];
                holder.check_ephemeral().await;
                let watched = holder.watched.clone();
                let data = format!("change {changes}");
                let change = || other.set_data(&watched, data.clone(), -1);
                insist(&watched, change).await;
                holder.take_event().await;
                holder.watch().await;
            }
        });
    }

    /// Ends all sessions.
    pub fn close(self) {
        self.runtime.block_on(async {
            for holder in &self.holders {
                let closed = tokio::time::timeout(CALL_LIMIT, holder.client.close()).await;
                closed
                    .expect("an end of the session in time")
                    .expect("an end of the session");
            }
        });
    }
}

impl Holder {
    async fn new(client: Client, number: usize) -> Holder {
        let holder = Holder {
            events: client.events(),
            ephemeral: format!("{TOP}/e{number}"),
            watched: format!("{TOP}/watched{number}"),
            client,
        };
        let Holder { client, .. } = &holder;
        for path in [TOP, &holder.watched] {
            make(client, path, &Create::persistent()).await;
        }
        // The owner is checked later.
        make(client, &holder.ephemeral, &Create::ephemeral()).await;
        holder.watch().await;
        holder
    }

    async fn watch(&self) {
        let watch = || self.client.get_data_and_watch(&self.watched);
        insist(&self.watched, watch).await;
    }

    async fn check_ephemeral(&self) {
        let path = &self.ephemeral;
        let sync = || self.client.sync(path);
        insist(path, sync).await;
        let look = || self.client.exists(path);
        let stat = insist(path, look).await;
        let stat = stat.unwrap_or_else(|| panic!("{path} is gone while its session lives"));
        let session = self.client.session_id().0;
        assert_eq!(stat.ephemeral_owner, session, "{path}");
        let state = self.client.state().borrow().clone();
        assert!(
            !matches!(state, State::Expired | State::Closed),
            "{path}: {state:?}"
        );
    }

    /// Receives one event of the watch, and checks that there is no second one.
    async fn take_event(&mut self) {
        let event = tokio::time::timeout(SETTLE_LIMIT, self.events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("the watch on {} is lost", self.watched));
        let event = event.expect("the session goes on");
        assert_eq!(*event.path, *self.watched, "{event:?}");
        let more = self.events.try_recv();
        assert!(more.is_err(), "a watch told twice: {more:?}");
    }
}

/// Creates a znode, unless it exists: an earlier reply may have been lost.
async fn make(client: &Client, path: &str, kind: &Create) {
    let create = async || match client.create(path, "", kind).await {
        Err(error) if error.code() == Some(proto::ErrorCode::NodeExists) => Ok(()),
        created => created.map(drop),
    };
    insist(path, create).await;
}

/// Repeats a call until there is an answer. Connections may be lost, but not sessions.
async fn insist<T, F>(path: &str, call: impl Fn() -> F) -> T
where
    F: Future<Output = client::Result<T>>,
{
    let answered = async {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(client::Error::ConnectionLost { .. } | client::Error::Unreachable { .. }) => {}
                Err(error) => panic!("{path}: {error}"),
            }
        }
    };
    let answer = tokio::time::timeout(CALL_LIMIT, answered).await;
    answer.unwrap_or_else(|_| panic!("no answer about {path} within {CALL_LIMIT:?}"))
}
