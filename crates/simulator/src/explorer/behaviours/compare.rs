//! Comparison of the servers with a state of the model.

use replica::{RoleView, State as _};
use simulation::configured::{dirs_of, index_of};
use simulation::network::{Connection, Port};
use storage::{DataDirs, list_snapshots, read_txns_from};

use super::driver::Driver;
use super::packets::{self, Item, LEADER, LEARNER, transaction, zxid_of};
use super::value::Value;
use crate::explorer::stage::SERVERS;
use crate::simulated::Server;

/// Result of a comparison: the difference, if there is one.
pub(super) type Compared = Result<(), String>;

impl Driver {
    /// Compares each server, its disk and the packets in flight with a state of the model.
    pub(super) fn compare(&self, state: &Value) -> Compared {
        if let Some(violation) = self.stage.violation() {
            return Err(format!("{}: {}", violation.invariant, violation.text));
        }
        for at in 0..usize::from(SERVERS) {
            let compared = self.compare_server(at, state);
            compared.map_err(|text| format!("server {}: {text}", at + 1))?;
            for to in (0..usize::from(SERVERS)).filter(|to| *to != at) {
                let compared = self.compare_packets(at, to, state);
                compared
                    .map_err(|text| format!("packets from {} to {}: {text}", at + 1, to + 1))?;
            }
        }
        Ok(())
    }

    fn compare_server(&self, at: usize, state: &Value) -> Compared {
        let modelled = state.field("disk").of(at);
        let server = self.stage.ensemble.process(at);
        let role = state.field("role").of(at).word();
        let unsynced = server.map_or(0, |server| server.host.disk.unsynced());
        self.compare_disk(at, unsynced, modelled)?;
        self.compare_lists(at, modelled)?;
        let Some(server) = server else {
            return equal("role", "DOWN", role);
        };
        compare_role(server, role, state.field("learner").of(at))?;
        let (tree, host) = (server.host.state.tree(), &server.host);
        let end = state.field("end").of(at).number();
        equal("end of the tree", zxid_of(tree.last_zxid()), end)?;
        let sessions: Vec<i64> = tree.sessions().map(|(session, _)| session.0).collect();
        equal(
            "tree",
            sorted(sessions),
            numbers(state.field("tree").of(at)),
        )?;
        let established = state.field("established").of(at).is_true();
        let is_established = host.state.generation().is_established();
        equal("established", is_established, established)?;
        let writing = state.field("writing").of(at).number();
        if writing >= 0 {
            // An abandoned snapshot is noticed at its next piece.
            let found = host.disk.snapshots.writing();
            let found = found.map(|snapshot| zxid_of(snapshot.zxid()));
            equal("snapshot in progress", found, Some(writing))?;
        }
        let is_serving = match role {
            "LEADING" => state.field("leader").of(at).field("phase").word() == "BROADCAST",
            "FOLLOWING" => state.field("learner").of(at).field("stage").word() == "LIVE",
            _ => false,
        };
        equal("service", server.is_serving(), is_serving)
    }

    fn compare_disk(&self, at: usize, unsynced: usize, modelled: &Value) -> Compared {
        let disk = &self.stage.ensemble.servers.machines[at].disk;
        for (name, field) in [("acceptedEpoch", "accepted"), ("currentEpoch", "current")] {
            let text = disk.content(&self.dirs().snap.join(name));
            let text = text.and_then(|text| String::from_utf8(text).ok());
            let epoch = text.and_then(|text| text.trim().parse().ok());
            // A new server has no file.
            let found: i64 = epoch.unwrap_or(0);
            equal(field, found, modelled.field(field).number())?;
        }
        let names = list_snapshots(disk, &self.dirs().snap).unwrap_or_default();
        let newest = names.first().map(|snapshot| zxid_of(snapshot.zxid));
        let snapshot = modelled.field("snapshot").field("zxid").number();
        equal("newest snapshot", newest, Some(snapshot))?;
        let log = modelled.field("log").items();
        let synced = usize::try_from(modelled.field("synced").number()).unwrap_or(0);
        let durable = self.durable(at, modelled.field("base").number());
        equal("synced log", &durable[..], log.get(..synced).unwrap_or(log))?;
        equal("length of the log", durable.len() + unsynced, log.len())
    }

    /// Returns the transactions of the log after this zxid that survive a power failure.
    pub(super) fn durable(&self, at: usize, base: i64) -> Vec<Value> {
        let disk = self.stage.ensemble.servers.machines[at].disk.synced_only();
        // A snapshot from a leader may leave a gap before it.
        let first = packets::zxid_in_code(base).next();
        let txns = read_txns_from(&disk, &self.dirs(), first, testkit::LIMITS);
        let txns = txns.into_iter().flatten().filter_map(Result::ok);
        let txns = txns.filter(|txn| zxid_of(txn.record.header.zxid) > base);
        txns.map(|txn| transaction(&txn.record)).collect()
    }

    fn dirs(&self) -> DataDirs {
        let [data, log] = dirs_of(&self.stage.ensemble.servers.world.settings);
        DataDirs::unlocked(data, log)
    }

    /// Returns the newest snapshot on the disk of a server.
    pub(super) fn newest_snapshot(&self, at: usize) -> Option<i64> {
        let disk = &self.stage.ensemble.servers.machines[at].disk;
        let names = list_snapshots(disk, &self.dirs().snap).ok()?;
        names.first().map(|snapshot| zxid_of(snapshot.zxid))
    }

    /// Returns the connections on which packets from one server to another are in flight, oldest
    /// first, each with the end of the sender.
    pub(super) fn ways(&self, from: usize, to: usize) -> Vec<(u64, usize)> {
        let connections = self.stage.ensemble.servers.world.network.connections();
        let way = |connection: &Connection| {
            let ends = connection.ends.map(|end| end.server());
            let is_member = matches!(connection.port, Port::Members(_));
            let sender = match ends {
                [Some(learner), Some(leader)] if (learner, leader) == (from, to) => LEARNER,
                [Some(learner), Some(leader)] if (leader, learner) == (from, to) => LEADER,
                _ => return None,
            };
            (is_member && connection.is_open[1 - sender]).then_some(sender)
        };
        connections
            .filter_map(|(number, connection)| Some((number, way(connection)?)))
            .collect()
    }

    fn compare_packets(&self, from: usize, to: usize, state: &Value) -> Compared {
        let network = &self.stage.ensemble.servers.world.network;
        let repeats_ack = packets::repeats_ack(state, from, to);
        let mut found = Vec::new();
        for (number, sender) in self.ways(from, to) {
            let Some(connection) = network.get(number) else {
                continue;
            };
            for item in packets::in_flight(connection, sender) {
                if let Item::Packet(Some(packet), _) = item
                    && (connection.is_open[sender] || packet.of(0).word() != "FOLLOWERINFO")
                    && !repeats_ack(&packet)
                {
                    found.push(packet);
                }
            }
        }
        let expected = state.field("msgs").of(from).of(to).items().iter();
        equal(
            "in flight",
            found,
            expected.map(packets::compared).collect(),
        )
    }
}

fn compare_role(server: &Server, role: &str, learner: &Value) -> Compared {
    let view = server.replica.view();
    let found = view.as_ref().map_or("", |view| match view.role {
        RoleView::Looking | RoleView::ReadOnly => "LOOKING",
        RoleView::Following { .. } | RoleView::Observing { .. } => "FOLLOWING",
        RoleView::Leading { .. } => "LEADING",
    });
    equal("role", found, role)?;
    if role == "FOLLOWING" {
        let leader = view.and_then(|view| view.leader).map(index_of);
        equal("leader", leader, learner.field("leader").server())?;
    }
    Ok(())
}

pub(super) fn equal<T: std::fmt::Debug + PartialEq>(what: &str, found: T, modelled: T) -> Compared {
    if found == modelled {
        return Ok(());
    }
    let (found, modelled) = (format!("{found:?}"), format!("{modelled:?}"));
    Err(format!("{what} is {found}, but {modelled} in the model"))
}

fn sorted(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort_unstable();
    numbers
}

/// Returns the numbers of the transactions that create sessions, in ascending order.
fn numbers(transactions: &Value) -> Vec<i64> {
    let sessions = transactions.items().iter();
    let sessions = sessions.filter(|txn| txn.of(2).items().is_empty());
    let mut numbers = sorted(sessions.map(|txn| txn.of(1).number()).collect());
    numbers.dedup();
    numbers
}
