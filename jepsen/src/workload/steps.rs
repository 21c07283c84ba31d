//! What the clients of several workloads have in common.

use client::{Client, Create, MultiOp, Result};

use super::caller::Caller;
use super::{Context, Work};

/// A client that does one thing after the other.
pub(super) trait Steps: Send {
    /// What it calls with.
    fn caller(&mut self) -> &mut Caller;

    /// One thing.
    fn step(&mut self) -> impl Future<Output = ()> + Send;
}

/// Steps as long as faults are made.
pub(super) fn drive<'a>(mut client: impl Steps + 'a) -> Work<'a> {
    Box::pin(async move {
        while client.caller().is_running() {
            client.step().await;
            let pace = client.caller().context().pace;
            tokio::time::sleep(pace).await;
        }
        client.caller().close().await;
    })
}

/// Makes the persistent znodes with their data, and one for each client's [`fresh`] reads.
pub(super) async fn make(context: Context, top: &str, znodes: &[(String, String)]) {
    let clients = context.processes;
    let mut caller = Caller::new(context);
    let Some(session) = caller.session().await else {
        return;
    };
    let persistent = Create::persistent();
    session.create(top, "", &persistent).await.ok();
    for (path, data) in znodes {
        session.create(path, data.clone(), &persistent).await.ok();
    }
    for client in 0..clients {
        let path = scratch(top, client);
        session.create(&path, "", &persistent).await.ok();
    }
    caller.close().await;
}

/// Name of a client's own znode begins with this.
pub(super) const SCRATCH: &str = "scratch-";

/// The path of a client's own znode.
pub(super) fn scratch(top: &str, client: u64) -> String {
    format!("{top}/{SCRATCH}{client}")
}

/// A session's id as histories have it.
pub(super) fn session_name(session: &Client) -> String {
    session.session_id().to_string()
}

/// Has the session's server apply all that is committed so far, by a write of the client's own: a
/// `sync` alone does not show that the leader still has its quorum.
pub(super) async fn fresh(session: &Client, top: &str, client: u64) -> Result<()> {
    let write = MultiOp::set_data(&scratch(top, client), "", -1);
    session.multi(std::slice::from_ref(&write)).await.map(drop)
}

/// A whole number as data.
pub(super) fn number(data: Option<&[u8]>) -> Option<i64> {
    std::str::from_utf8(data?).ok()?.parse().ok()
}
