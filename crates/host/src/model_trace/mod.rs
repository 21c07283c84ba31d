//! Traces for the formal model in `jepsen/model`, written by real servers (`zoarium.trace.model`).
//!
//! A line contains the id of the server and a [`Fact`]. All servers of one machine append to the
//! same file, so the order of its lines is the order of their steps. A fact is in the file before
//! anything that follows from it leaves the process: a packet, or work for the disk. The file
//! therefore remains complete if the process is killed. The file is never synced.

mod fact;
mod traced;
mod translate;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use config::Config;
use config::members::HostPort;
use jute::Encode as _;
use parking_lot::Mutex;
use proto::txn::TxnRecord;
use proto::{Sid, Zxid};
use replica::elections::{ElectionEffect, ElectionInput};
use replica::members::MemberLists;
use replica::{Effect, Epochs, Input, Note};
use storage::{Disk, StorageError, io_error, list_snapshots};

use crate::Started;
pub use fact::Fact;
pub use traced::Traced;
pub use translate::content_of;

/// File with the facts about the members of an ensemble.
#[derive(Debug)]
pub struct ModelTrace {
    sid: Sid,
    output: Mutex<Output>,
}

#[derive(Debug)]
struct Output {
    file: File,
    /// Lines that are not in the file yet.
    lines: String,
    /// Whether a write has failed. Only the first failure is logged.
    is_incomplete: bool,
}

impl ModelTrace {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn open(path: &Path, sid: Sid) -> Result<Self, StorageError> {
        let mut options = blocking::files::options();
        let file = options.append(true).create(true).open(path);
        let file = file.map_err(io_error("open", path))?;
        Ok(Self {
            sid,
            output: Mutex::new(Output {
                file,
                lines: String::new(),
                is_incomplete: false,
            }),
        })
    }

    /// Adds a fact. [`ModelTrace::write`] writes it.
    pub fn add(&self, fact: Fact) {
        // Writing to a string does not fail.
        let _ = writeln!(self.output.lock().lines, "{} {fact}", self.sid.0);
    }

    /// Writes all facts. After a failed write, the file states that facts are missing.
    pub fn write(&self) {
        let Output {
            file,
            lines,
            is_incomplete,
        } = &mut *self.output.lock();
        if lines.is_empty() {
            return;
        }
        // One call appends all lines, so the lines of other servers do not interrupt them.
        let written = file.write_all(lines.as_bytes());
        lines.clear();
        if let Err(error) = written {
            if !std::mem::replace(is_incomplete, true) {
                tracing::error!(err = %error, "cannot write the trace for the formal model");
            }
            let _ = writeln!(lines, "\n{} {}", self.sid.0, Fact::Lost {});
        }
    }

    /// Writes the begin of a process and the state of its files.
    fn start(&self, end: Zxid, epochs: Epochs, snapshots: impl Iterator<Item = Zxid>) {
        snapshots.for_each(|zxid| self.add(Fact::FoundSnapshot { zxid }));
        self.add(Fact::Started {
            end,
            accepted: epochs.accepted,
            current: epochs.current,
        });
        self.write();
    }
}

/// Observer of a replica that writes a trace.
#[derive(Debug)]
pub struct ReplicaTrace {
    trace: Arc<ModelTrace>,
    /// Addresses of the members.
    members: Vec<(HostPort, Sid)>,
    /// Servers at the other ends of election connections.
    connections: BTreeMap<u64, Sid>,
    /// Last transaction of the tree.
    end: Zxid,
}

impl ReplicaTrace {
    /// Opens the trace of a member that has started (`zoarium.trace.model`), and writes the found
    /// files to it. Returns `None` without a trace.
    ///
    /// # Errors
    /// If the trace cannot be opened, or the snapshots cannot be listed.
    pub fn of_member<D: Disk>(
        config: &Config,
        started: &mut Started<D>,
    ) -> Result<Option<Box<Self>>, StorageError> {
        let (Some(path), Some(ensemble), Some(member)) =
            (&config.model_trace, &config.ensemble, &started.member)
        else {
            return Ok(None);
        };
        let trace = Arc::new(ModelTrace::open(path, ensemble.my_id)?);
        let (log, end) = (&started.history, started.history.appended());
        let found = list_snapshots(&**log.disk(), &log.dirs().snap)?;
        if let Some(lists) = MemberLists::new(config).filter(|_| config.features.reconfig_enabled) {
            let lists = [lists.committed(), lists.newest()];
            let [config, seen] = lists.map(|list| Zxid(list.version.0));
            trace.add(Fact::FoundLists { config, seen });
        }
        trace.start(end, member.epochs, found.iter().map(|file| file.zxid));
        started.snapshots.trace_to(Some(trace.clone()));
        let members = ensemble.membership.members.values().flat_map(|member| {
            let addresses = member.addresses.iter().map(|address| HostPort {
                host: address.host.clone(),
                port: address.quorum_port,
            });
            addresses.map(move |address| (address, member.sid))
        });
        Ok(Some(Box::new(Self {
            trace,
            members: members.collect(),
            connections: BTreeMap::new(),
            end,
        })))
    }

    /// Adds the facts about an input before the replica handles it. `end` is the last transaction of
    /// the tree.
    pub fn input(&mut self, input: &Input, end: Zxid) {
        self.end = end;
        if let Input::Election(ElectionInput::Closed { connection }) = input {
            self.connections.remove(&connection.0);
        }
        let sender = |connection| self.connections.get(&connection).copied();
        Fact::of_input(input, sender, |fact| self.trace.add(fact));
    }

    /// Adds the fact about an effect before the host executes it.
    pub fn effect(&mut self, effect: &Effect) {
        if let Effect::Election(ElectionEffect::Keep { connection, sid }) = effect {
            self.connections.insert(connection.0, *sid);
        }
        let server = |address: &HostPort| {
            let found = self.members.iter().find(|(at, _)| at == address);
            found.map(|(_, sid)| *sid)
        };
        if let Some(fact) = Fact::of_effect(effect, server) {
            self.trace.add(fact);
        }
        // Records do not leave the process before the next effect.
        if !matches!(effect, Effect::Append(_)) {
            self.trace.write();
        }
    }

    /// Adds the fact about a record that is passed to the log.
    pub fn append(&mut self, zxid: Zxid, txn: &[u8]) {
        let content = content_of(txn);
        self.trace.add(Fact::Appended { zxid, content });
    }

    /// Adds the fact about an event that the replica reports.
    pub fn note(&mut self, note: &Note<'_>) {
        if let Some(fact) = Fact::of_note(note) {
            self.trace.add(fact);
        }
        if let Note::LeadingBegins = note {
            self.trace.write();
        }
    }

    /// Adds the fact about an applied transaction.
    pub fn applied(&mut self, record: &TxnRecord, is_committed: bool) {
        let zxid = record.header.zxid;
        let last = std::mem::replace(&mut self.end, zxid);
        if is_committed {
            let content = content_of(&record.to_bytes());
            self.trace.add(Fact::Applied {
                last,
                zxid,
                content,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::Epoch;

    use super::*;

    #[test]
    fn servers_append_their_facts_to_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let open = |sid| ModelTrace::open(&path, Sid(sid)).unwrap();
        let (one, two) = (open(1), open(2));
        one.add(Fact::Leads {});
        one.add(Fact::Established {});
        let epochs = Epochs {
            accepted: Epoch(2),
            current: Epoch(1),
        };
        two.start(Zxid(5), epochs, [Zxid(0), Zxid(5)].into_iter());
        one.write();
        one.write();
        let text = std::fs::read_to_string(&path).unwrap();
        let wanted =
            "2 FoundSnapshot 0\n2 FoundSnapshot 5\n2 Started 5 2 1\n1 Leads\n1 Established\n";
        assert_eq!(text, wanted);
    }
}
