//! Configurations: reconfigurations, and the configurations of a server in memory and in its files.

use std::path::Path;

use config::membership::Membership;
use proto::notification::{Form, Notification, PeerState};
use proto::request::{ReconfigRequest, WriteRequest};
use proto::{ConfigVersion, ElectionRound, Epoch, Zxid};
use simulation::configured::member_lists::{self, Role};
use simulation::configured::{member_files, sid_of};
use testkit::SimDisk;

use super::compare::{Compared, equal};
use super::driver::{Driver, Step, done};
use super::packets::configuration_of;
use super::value::Value;

/// Work of the log thread that writes a configuration.
const WORK: &str = "SaveMembers";

/// Suffix of the file to which zoo.cfg refers, before the version.
const DYNAMIC: &str = ".dynamic.";

impl Driver {
    /// Requests a reconfiguration. `txn` is the transaction in the model.
    pub(super) fn propose_reconfig(&mut self, at: usize, txn: &Value) -> Compared {
        let features = self.stage.ensemble.servers.world.settings.features;
        let voters = txn.of(2).items().iter().filter_map(Value::server);
        let lines = voters.map(|server| member_lists::line(server, Role::Participant, features));
        let lines: Vec<String> = lines.collect();
        let request = WriteRequest::Reconfig(ReconfigRequest {
            joining: None,
            leaving: None,
            new_members: Some(lines.join("\n").into()),
            config_version: -1,
        });
        self.propose(at, txn.of(1).number(), request)
    }

    /// Makes a server that looks for a leader receive the committed configuration of another one.
    pub(super) fn install_config(&mut self, at: usize, from: usize) -> Compared {
        let sender = self.stage.ensemble.process(from);
        let list = sender.and_then(|server| Some(server.replica.lists()?.committed()));
        let config = list.map(|list| list.node_data().into());
        let receiver = self.stage.ensemble.process(at);
        if let Some(process) = receiver.map(|server| server.host.process) {
            self.stage.ensemble.with(process, |server| {
                // A vote of an earlier round does not count.
                let notification = Notification {
                    state: PeerState::Looking,
                    leader: sid_of(from),
                    zxid: Zxid::ZERO,
                    round: ElectionRound(0),
                    peer_epoch: Epoch(0),
                    form: Form::Versioned {
                        version: Notification::VERSION,
                        config,
                    },
                };
                server.host.hear_vote(from, notification);
            });
        }
        self.settle();
        Ok(())
    }

    /// Writes configurations in memory until the files contain the configurations that they contain
    /// in the model after a step. The log thread also completes earlier work.
    pub(super) fn save_lists(&mut self, step: Step<'_>) -> Compared {
        let (at, modelled) = (step.at(), step.disk());
        while self.is_pending(at, WORK) && self.saved(at) != *modelled.field("saved") {
            done(self.complete(at, false), "a member list is not written")?;
        }
        Ok(())
    }

    /// Writes all configurations in memory to the files.
    pub(super) fn write_lists(&mut self, at: usize) -> Compared {
        while self.is_pending(at, WORK) {
            done(self.complete(at, false), "a member list is not written")?;
        }
        Ok(())
    }

    /// Compares the configurations in memory and in the files with the disk of a server in the
    /// model.
    pub(super) fn compare_lists(&self, at: usize, modelled: &Value) -> Compared {
        let server = self.stage.ensemble.process(at);
        if let Some(lists) = server.and_then(|server| server.replica.lists()) {
            let found = value_of(lists.committed(), lists.last_seen());
            equal("configurations", &found, modelled.field("lists"))?;
        }
        let found = self.saved(at);
        equal("saved configurations", &found, modelled.field("saved"))
    }

    /// Returns the configurations in the files of a server.
    fn saved(&self, at: usize) -> Value {
        let disk = &self.stage.ensemble.servers.machines[at].disk;
        read(disk).unwrap_or(Value::Set(Vec::new()))
    }
}

fn value_of(committed: &Membership, seen: Option<&Membership>) -> Value {
    let config = configuration_of(committed);
    let seen = seen.map_or(config.clone(), configuration_of);
    Value::record([("config", config), ("seen", seen)])
}

/// Reads the configurations in the files.
fn read(disk: &SimDisk) -> Option<Value> {
    let read_list = |path: &Path| {
        let text = String::from_utf8(disk.content(path)?).ok()?;
        Membership::parse(&text, false).ok()
    };
    let path = member_files::named_list(disk).ok()??;
    let mut committed = read_list(&path)?;
    let name = path.to_str()?;
    let version = name.split_once(DYNAMIC).map(|(_, version)| version);
    let version = version.map_or(Ok(0), |version| i64::from_str_radix(version, 16));
    committed.version = ConfigVersion(version.ok()?);
    let seen = read_list(&member_files::proposed_list());
    let seen = seen.filter(|seen| seen.version > committed.version);
    Some(value_of(&committed, seen.as_ref()))
}
