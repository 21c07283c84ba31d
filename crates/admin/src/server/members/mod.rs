//! Admin ports of the other members, and queries to them.
//!
//! The ports come from `zoarium.admin.N` or are derived from the member list.

mod observed;
mod query;
pub(super) mod report;
pub(super) mod secrets;
mod timeline;
mod watcher;

use std::collections::BTreeMap;

use config::Config;
use config::members::HostPort;
use config::membership::Membership;
use hyper::StatusCode;
use metrics::view::AdminView;
use proto::Sid;
use serde_json::{Value, json};

pub(super) use self::observed::Own;
pub(super) use self::query::{QueryError, Running};
pub(super) use self::watcher::{OwnReport, Watcher};
use crate::answer::{set, written};
use crate::commands::Command;

/// Name of the command.
const COMMAND: &str = "members";

/// Returns the command that reports the client ports of this member and the admin ports of the
/// other members. It is not listed among Apache ZooKeeper's commands.
pub(super) fn command(ports: AdminPorts) -> Command {
    let mut command = Command::look(COMMAND, &[], move |view: &dyn AdminView, _| {
        let configuration = view.configuration();
        let port = |port: i32| (port > 0).then_some(port);
        let mut answer = json!({
            "client_port": port(configuration.client_port),
            "secure_client_port": port(configuration.secure_client_port),
        });
        ports.describe(view.role().members.as_deref(), &mut answer);
        written(StatusCode::OK, COMMAND, answer)
    });
    command.is_listed = false;
    command.always()
}

/// Settings that determine the admin ports of the other members.
#[derive(Debug, Clone, Default)]
pub(super) struct AdminPorts {
    my_id: Option<Sid>,
    named: BTreeMap<Sid, HostPort>,
    /// Admin port of each member without a key `zoarium.admin.N`.
    port: u16,
    path: String,
}

impl AdminPorts {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            my_id: config.ensemble.as_ref().map(|ensemble| ensemble.my_id),
            named: config.admin.member_ports.clone(),
            port: config.admin.port,
            path: config.admin.command_url.trim_end_matches('/').to_owned(),
        }
    }

    /// Returns the admin port of each other member.
    pub(super) fn of_others(&self, members: Option<&Membership>) -> BTreeMap<Sid, HostPort> {
        let members = members.into_iter().flat_map(|list| list.members.values());
        let others = members.filter(|member| Some(member.sid) != self.my_id);
        let ports = others.filter_map(|member| {
            let derived = || {
                let address = member.addresses.first()?;
                Some(HostPort::new(&address.host, self.port))
            };
            let port = self.named.get(&member.sid).cloned().or_else(derived)?;
            Some((member.sid, port))
        });
        ports.collect()
    }

    /// Returns the id of this member. `None` for a standalone server.
    pub(super) fn my_id(&self) -> Option<Sid> {
        self.my_id
    }

    /// Returns the path prefix of the commands, without a slash at the end.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Adds the id of this member, and the admin ports of the other members, to an answer.
    pub(super) fn describe(&self, members: Option<&Membership>, answer: &mut Value) {
        let path = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        let others = self.of_others(members);
        let others = others
            .iter()
            .map(|(sid, port)| json!({ "member": sid.0, "admin": format!("{port}{path}") }));
        set(answer, "member", json!(self.my_id.map(|sid| sid.0)));
        set(answer, "others", others.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership() -> Membership {
        let list = "server.1=zk1:2888:3888\nserver.2=zk2:2888:3888\nserver.3=[::1]:2888:3888\n";
        Membership::parse(list, false).unwrap()
    }

    #[test]
    fn a_key_overrides_the_derived_port() {
        let ports = AdminPorts {
            my_id: Some(Sid(1)),
            named: [(Sid(2), HostPort::new("admin2", 9))].into(),
            port: 8080,
            path: "/commands".to_owned(),
        };
        let mut answer = json!({});
        ports.describe(Some(&membership()), &mut answer);
        let others = json!([
            { "member": 2, "admin": "admin2:9/commands" },
            { "member": 3, "admin": "[0:0:0:0:0:0:0:1]:8080/commands" },
        ]);
        assert_eq!(answer, json!({ "member": 1, "others": others }));
        ports.describe(None, &mut answer);
        assert_eq!(answer["others"], json!([]));
    }
}
