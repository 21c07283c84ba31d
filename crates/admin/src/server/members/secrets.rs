//! Comparison of the session secret file with the files of the other members.
//!
//! A member with a different file refuses the sessions that move to it. Members therefore publish a
//! hash of the file at the admin port, and each member compares the hashes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use config::members::HostPort;
use metrics::view::AdminView;
use proto::Sid;
use tokio::time::{sleep, timeout};
use transport::tls::Connector;

use super::super::Admin;
use super::AdminPorts;
use super::query::{self, Running};
use crate::answer::{Answer, Object};
use crate::commands::Command;

/// Name of the command.
const COMMAND: &str = "session_secrets";
/// Pause between two comparisons.
const PAUSE: Duration = Duration::from_secs(10);
/// Time limit for one answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Returns the command that reports the hash of the file. It is not listed among Apache ZooKeeper's
/// commands.
pub(crate) fn command(fingerprint: &str) -> Command {
    let fingerprint = fingerprint.to_owned();
    let mut command = Command::look(COMMAND, &[], move |_: &dyn AdminView, _| {
        Answer::found(Object::new().with("fingerprint", fingerprint.clone()))
    });
    command.is_listed = false;
    command.always()
}

/// Starts the comparison.
pub(crate) fn begin(admin: &Arc<Admin>, connector: Connector) -> Running {
    let admin = Arc::downgrade(admin);
    Running::begin(compare(admin, connector))
}

async fn compare(admin: Weak<Admin>, connector: Connector) {
    // Whether the hash of each member was equal in the last comparison.
    let mut known: BTreeMap<Sid, bool> = BTreeMap::new();
    loop {
        let Some(query) = admin.upgrade().map(|admin| SecretsQuery::new(&admin)) else {
            return;
        };
        known.retain(|sid, _| query.others.contains_key(sid));
        for (sid, port) in &query.others {
            let host = &port.host;
            let found = timeout(ANSWER_LIMIT, ask(port, &query, &connector)).await;
            let Ok(Some(found)) = found else {
                // A server that is down, or a server of Apache ZooKeeper, does not return a hash.
                tracing::debug!(
                    host,
                    "a member did not return the hash of its session secret file"
                );
                continue;
            };
            let is_equal = found == query.own;
            if !is_equal && let Some(admin) = admin.upgrade() {
                admin.metrics.zoarium_session_secrets_differ.inc();
            }
            match (is_equal, known.insert(*sid, is_equal)) {
                (false, None | Some(true)) => tracing::warn!(
                    host,
                    "another member has a different zoarium.sessionSecretFile, so sessions that move between it and this server may be lost; copy one file to all members"
                ),
                (true, Some(false)) => {
                    tracing::info!(
                        host,
                        "the member has the same zoarium.sessionSecretFile again"
                    );
                }
                _ => {}
            }
        }
        sleep(PAUSE).await;
    }
}

/// Members to query, and this member's answer.
struct SecretsQuery {
    others: BTreeMap<Sid, HostPort>,
    path: String,
    own: String,
}

impl SecretsQuery {
    fn new(admin: &Admin) -> Self {
        let served = admin.served.get();
        let role = served.map(|served| served.view.role());
        let members = role.as_ref().and_then(|role| role.members.as_deref());
        let ports = AdminPorts::of(&admin.config);
        Self {
            others: ports.of_others(members),
            path: format!("{}/{COMMAND}", ports.path()),
            own: admin.secrets_hash.clone(),
        }
    }
}

/// Returns the hash that a member reports.
async fn ask(port: &HostPort, query: &SecretsQuery, connector: &Connector) -> Option<String> {
    let answer = query::get(port, &query.path, connector).await.ok()?;
    Some(answer.get("fingerprint")?.as_str()?.to_owned())
}
