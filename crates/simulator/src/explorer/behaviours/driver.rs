//! The driver: it performs each step of a behaviour with the messages, disks and crashes of the
//! stage.

use proto::SessionId;
use proto::request::WriteRequest;
use replica::State as _;
use simulation::settings::Features;

use super::compare::Compared;
use super::packets::{self, Item};
use super::value::{NOTHING, Value};
use crate::checks::trace::Trace;
use crate::explorer::Bounds;
use crate::explorer::stage::{SERVERS, Stage};
use crate::explorer::waiting::{Effect, number};
use crate::scenarios::propose_as;

/// Maximum number of completions of a disk, or of packets, for one step.
pub(super) const TRIES: usize = 200;

/// Timeout of all sessions, which is longer than a behaviour.
const SESSION_MS: i32 = 1 << 30;

/// Events do not take from the bounds of the explorer.
const NO_BOUNDS: Bounds = Bounds {
    transactions: 0,
    crashes: 0,
    timeouts: 0,
    elections: 0,
    snapshots: 0,
};

/// An ensemble that follows a behaviour.
pub(super) struct Driver {
    pub(super) stage: Stage,
    /// Round of the last election.
    pub(super) round: i64,
}

/// A step of the model, with the state before it and the state after it.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    before: &'a Value,
    after: &'a Value,
}

impl<'a> Step<'a> {
    pub(super) fn new(before: &'a Value, after: &'a Value) -> Self {
        Self { before, after }
    }

    pub(super) fn action(self) -> &'a str {
        self.after.field("step").of(0).word()
    }

    /// Returns the server that takes the step.
    pub(super) fn at(self) -> usize {
        self.after.field("step").of(1).server().unwrap_or(0)
    }

    /// Returns the other server.
    fn peer(self) -> usize {
        self.after.field("step").of(2).server().unwrap_or(0)
    }

    /// Returns the disk of the server after the step.
    pub(super) fn disk(self) -> &'a Value {
        self.after.field("disk").of(self.at())
    }

    fn value(self) -> &'a Value {
        self.after.field("step").of(3)
    }

    /// Returns whether the code takes the step together with the step before it.
    pub(super) fn is_together(self) -> bool {
        matches!(
            self.action(),
            "SyncFollower"
                | "EstablishEpoch"
                | "HandOver"
                | "FollowAgain"
                | "FollowDesignated"
                | "LeadAsDesignated"
                | "Idle"
        )
    }

    fn stage_before(self) -> &'a str {
        self.before
            .field("learner")
            .of(self.at())
            .field("stage")
            .word()
    }
}

impl Driver {
    /// Starts three new servers.
    pub(super) fn new(trace: Trace) -> Self {
        let features = Features {
            reconfigures: true,
            ..Features::PLAIN
        };
        let stage = Stage::of_new_servers(NO_BOUNDS, features, trace);
        let mut driver = Self { stage, round: 0 };
        for at in 0..usize::from(SERVERS) {
            driver.start(at);
        }
        driver
    }

    /// Performs a step.
    pub(super) fn follow(&mut self, step: Step<'_>) -> Compared {
        let (at, peer) = (step.at(), step.peer());
        self.stage.ensemble.servers.world.say("step", || {
            format!("{} {} {}", step.action(), at + 1, peer + 1)
        });
        match step.action() {
            "Idle" | "SyncFollower" | "EstablishEpoch" | "FollowAgain" | "FollowDesignated"
            | "LeadAsDesignated" => Ok(()),
            "HandOver" => self.finish_role(at),
            "InstallConfig" => self.install_config(at, peer),
            "DecideLeading" => self.elect(at, at),
            "DecideFollowing" => self.elect(at, peer),
            "StepDown" => self.step_down(at),
            "LeaveLeader" => self.leave_leader(step),
            "DropLearner" => self.drop_learner(at, peer),
            "Crash" => self.crash(step),
            "Restart" => {
                self.start(at);
                Ok(())
            }
            "SendFOLLOWERINFO" => self.dial(at, peer),
            "SendACKEPOCH" | "ReceiveTRUNC" | "RefuseSync" => {
                self.receive(step)?;
                self.finish_log_work(at)
            }
            "ReceiveSNAP" => {
                self.receive(step)?;
                self.receive_tree(at, peer)
            }
            "SendLEADERINFO" => self.complete_order(at, "SaveAcceptedEpoch"),
            "SaveCurrentEpoch" | "SyncLog" | "CutLog" => self.complete_pending(at),
            "WriteSnapshot" => self.write_snapshot(at, step.disk()),
            "SendPROPOSAL" => {
                let request = WriteRequest::CreateSession {
                    timeout_ms: SESSION_MS,
                };
                self.propose(at, step.value().number(), request)
            }
            "ProposeReconfig" => {
                let log = step.disk().field("log").items();
                self.propose_reconfig(at, log.last().unwrap_or(NOTHING))
            }
            "ReceiveCOMMITANDACTIVATE" => {
                self.receive(step)?;
                if step.after.field("role").of(at).word() == "LOOKING" {
                    self.finish_role(at)?;
                }
                Ok(())
            }
            "StartSnapshot" => self.start_snapshot(at),
            "FinishSnapshot" => self.finish_snapshot(at),
            action if action.starts_with("Receive") => self.receive(step),
            action => Err(format!("the driver does not know {action}")),
        }
    }

    /// Receives the first packet of the model that is in flight to a server.
    fn receive(&mut self, step: Step<'_>) -> Compared {
        let (at, peer) = (step.at(), step.peer());
        let expected = step.before.field("msgs").of(peer).of(at).of(0);
        let expected = packets::compared(expected);
        let repeats_ack = packets::repeats_ack(step.before, peer, at);
        let is_introduction = expected.of(0).word() == "FOLLOWERINFO";
        // An older connection contains no other packet of the model.
        let is_next =
            |packet: &Value| !is_introduction || *packet == expected || repeats_ack(packet);
        for _ in 0..TRIES {
            let Some((connection, sender, item)) = self.next_item(peer, at, is_next) else {
                return Err(differs("no packet", &expected));
            };
            let Item::Packet(packet, len) = item else {
                return Err(differs(&format!("{item:?}"), &expected));
            };
            self.deliver(connection, sender, len)?;
            match packet {
                Some(packet) if packet == expected => return Ok(()),
                Some(packet) if !repeats_ack(&packet) => {
                    return Err(differs(&format!("{packet:?}"), &expected));
                }
                _ => {}
            }
        }
        Err("too many packets that the model does not contain".to_owned())
    }

    /// Returns the first item in flight from one server to another that the other one can receive,
    /// with its connection and the end of the sender. A packet must also be one that `is_next`
    /// accepts.
    fn next_item(
        &self,
        from: usize,
        to: usize,
        is_next: impl Fn(&Value) -> bool,
    ) -> Option<(u64, usize, Item)> {
        let network = &self.stage.ensemble.servers.world.network;
        let next = self.ways(from, to).into_iter();
        let mut next = next.filter_map(|(number, sender)| {
            let connection = network.get(number)?;
            let item = packets::in_flight(connection, sender).into_iter().next()?;
            (item != Item::End).then_some((number, sender, item))
        });
        next.find(|(_, _, item)| match item {
            Item::Packet(Some(packet), _) => is_next(packet),
            _ => true,
        })
    }

    /// Delivers this number of bytes.
    fn deliver(&mut self, connection: u64, sender: usize, mut bytes: usize) -> Compared {
        while bytes > 0 {
            let network = &mut self.stage.ensemble.servers.world.network;
            let Some(len) = network.split_first(connection, sender, bytes) else {
                return Err("a packet is not complete".to_owned());
            };
            self.deliver_first(connection, sender)?;
            bytes -= len;
        }
        Ok(())
    }

    fn deliver_first(&mut self, connection: u64, sender: usize) -> Compared {
        let network = &self.stage.ensemble.servers.world.network;
        let ends = network.get(connection).map(|it| it.ends[sender].server());
        let from = ends.flatten().map(number);
        let is_done = self.stage.step(i64::MAX, |effect| {
            matches!(effect, Effect::Message { connection: of, from: by, .. } if of == connection && Some(by) == from)
        });
        self.settle();
        done(is_done, "a message does not arrive")
    }

    /// Receives the rest of a tree.
    fn receive_tree(&mut self, at: usize, leader: usize) -> Compared {
        let of_tree = |driver: &Self| {
            let ways = driver.ways(leader, at);
            let network = &driver.stage.ensemble.servers.world.network;
            ways.into_iter().find_map(|(number, sender)| {
                let items = packets::in_flight(network.get(number)?, sender);
                (items.first() == Some(&Item::Tree)).then_some((number, sender))
            })
        };
        for _ in 0..TRIES {
            let Some((connection, sender)) = of_tree(self) else {
                return Ok(());
            };
            self.deliver_first(connection, sender)?;
        }
        Err("the tree does not end".to_owned())
    }

    /// Does everything that follows immediately. Elections take place only in [`Driver::elect`].
    pub(super) fn settle(&mut self) {
        self.stage.settle();
        self.drop_election_events();
    }

    /// Proposes the write of a session, which has the number of the transaction.
    pub(super) fn propose(&mut self, at: usize, number: i64, request: WriteRequest) -> Compared {
        let process = self
            .stage
            .ensemble
            .process(at)
            .map(|server| server.host.process);
        if let Some(process) = process {
            self.stage.ensemble.with(process, |server| {
                let session = SessionId(number);
                if matches!(request, WriteRequest::Reconfig(_)) {
                    // Only an open session can reconfigure.
                    server.host.state.sessions().add(session, SESSION_MS, 0);
                }
                propose_as(session, server, request);
            });
        }
        self.settle();
        Ok(())
    }

    /// Ends a process. Records that the disk keeps were synced, but no other server knows.
    fn crash(&mut self, step: Step<'_>) -> Compared {
        let (at, kept) = (step.at(), step.value().number());
        let disk = step.before.field("disk").of(at);
        let saved = step.disk().field("saved");
        let loses_power = kept == disk.field("synced").number();
        if !loses_power {
            self.stage.disconnect(number(at));
            self.complete_pending(at)?;
        } else if saved != disk.field("saved") {
            self.stage.disconnect(number(at));
            self.write_lists(at)?;
        }
        self.stage.end_process(number(at), loses_power);
        self.drop_dials(at);
        self.settle();
        self.drop_introductions(at);
        Ok(())
    }

    fn leave_leader(&mut self, step: Step<'_>) -> Compared {
        let (at, leader) = (step.at(), step.peer());
        let first = step.before.field("msgs").of(leader).of(at).of(0);
        let accepted = step.before.field("disk").of(at).field("accepted").number();
        if step.stage_before() == "NONE" {
            self.fail_dial(at, leader);
        } else if first.of(0).word() == "LEADERINFO" && first.of(1).number() < accepted {
            self.receive(step)?;
        } else {
            self.break_as_learner(at, leader)?;
        }
        self.finish_log_work(at)?;
        self.drop_introductions(at);
        Ok(())
    }
}

fn differs(found: &str, expected: &Value) -> String {
    let expected = format!("{expected:?}");
    format!("{found} is first in flight, but {expected} in the model")
}

/// Returns an error with this text if something was not possible.
pub(super) fn done(is_done: bool, text: &str) -> Compared {
    if is_done {
        Ok(())
    } else {
        Err(format!("not possible: {text}"))
    }
}
