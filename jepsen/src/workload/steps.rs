//! The common part of all workloads: znodes are created, clients take one step after the other, and
//! one of them makes the final reads.

use client::{Client, Create, MultiOp, Result};

use super::caller::Caller;
use super::{Context, Work, Workload};
use crate::history::Event;
use crate::verdict::Verdict;

/// The specific part of a workload.
pub(super) trait Definition: Send + Sync {
    /// Its clients.
    type Client: Steps + 'static;

    /// See [`Workload::name`].
    fn name(&self) -> &'static str;

    /// See [`Workload::promise`].
    fn promise(&self) -> &'static str;

    /// See [`Workload::settings`].
    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// See [`Workload::properties`].
    fn properties(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// See [`Workload::asks_admin`].
    fn asks_admin(&self) -> bool {
        false
    }

    /// See [`Workload::has_registers`].
    fn has_registers(&self) -> bool {
        false
    }

    /// Returns the parent of all its znodes.
    fn top(&self) -> &'static str;

    /// Returns the persistent znodes that exist before any client, path and data.
    fn znodes(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// See [`Workload::check`].
    fn check(&self, events: &[Event], steps_max: u64) -> Verdict;
}

/// A client that takes one step after the other.
pub(super) trait Steps: Send + Sized {
    /// Creates a client without a session.
    fn new(context: Context) -> Self;

    /// Returns its caller.
    fn caller(&mut self) -> &mut Caller;

    /// Takes one step.
    fn step(&mut self) -> impl Future<Output = ()> + Send;

    /// Makes the final reads after all members serve again.
    fn last(&mut self) -> impl Future<Output = ()> + Send;
}

impl<D: Definition> Workload for D {
    fn name(&self) -> &'static str {
        Definition::name(self)
    }

    fn promise(&self) -> &'static str {
        Definition::promise(self)
    }

    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        Definition::settings(self)
    }

    fn properties(&self) -> &'static [(&'static str, &'static str)] {
        Definition::properties(self)
    }

    fn asks_admin(&self) -> bool {
        Definition::asks_admin(self)
    }

    fn has_registers(&self) -> bool {
        Definition::has_registers(self)
    }

    fn prepare(&self, context: Context) -> Work<'_> {
        Box::pin(async move { make(context, self.top(), &self.znodes()).await })
    }

    fn run(&self, context: Context) -> Work<'_> {
        Box::pin(async move {
            let mut client = D::Client::new(context);
            while client.caller().is_running() {
                client.step().await;
                let pace = client.caller().context().pace;
                tokio::time::sleep(pace).await;
            }
            client.caller().close().await;
        })
    }

    fn finish(&self, context: Context) -> Work<'_> {
        Box::pin(async move {
            let mut client = D::Client::new(context);
            client.last().await;
            client.caller().close().await;
        })
    }

    fn check(&self, events: &[Event], steps_max: u64) -> Verdict {
        Definition::check(self, events, steps_max)
    }
}

/// Creates the persistent znodes with their data, and one for each client's [`fresh`] reads.
async fn make(context: Context, top: &str, znodes: &[(String, String)]) {
    let clients = context.lowest..context.lowest + context.processes;
    let mut caller = Caller::new(context);
    let Some(session) = caller.session().await else {
        return;
    };
    let persistent = Create::persistent();
    session.create(top, "", &persistent).await.ok();
    for (path, data) in znodes {
        session.create(path, data.clone(), &persistent).await.ok();
    }
    for client in clients {
        let path = scratch(top, client);
        session.create(&path, "", &persistent).await.ok();
    }
    caller.close().await;
}

/// Prefix of the names of the clients' own znodes.
pub(super) const SCRATCH: &str = "scratch-";

/// Returns the path of a client's own znode.
pub(super) fn scratch(top: &str, client: u64) -> String {
    format!("{top}/{SCRATCH}{client}")
}

/// Returns a session's id as histories contain it.
pub(super) fn session_name(session: &Client) -> String {
    session.session_id().to_string()
}

/// Makes the session's server apply all committed transactions, by a write of the client. A `sync`
/// alone does not prove that the leader still has its quorum.
pub(super) async fn fresh(session: &Client, top: &str, client: u64) -> Result<()> {
    let write = MultiOp::set_data(&scratch(top, client), "", -1);
    session.multi(std::slice::from_ref(&write)).await.map(drop)
}

/// Parses data as a whole number.
pub(super) fn number(data: Option<&[u8]>) -> Option<i64> {
    std::str::from_utf8(data?).ok()?.parse().ok()
}
