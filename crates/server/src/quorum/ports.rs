//! The ways of a member to the others: elections, learners, its leader, the oracle of two.

use std::sync::Arc;
use std::time::Duration;

use replica::{Effect, Input, LeaderEvent, LearnerEvent, Port};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::mesh::{InputPermit, Mesh, MeshEvent, OracleFile};
use super::peer::{
    Dialer, LeaderConnection, LearnerLinks, LearnerPort, ListenSettings, PeerEvent, ReadAheadPermit,
};
use crate::failure::Failure;
use crate::inbox::InputSink;

/// Exit code of what nobody has foreseen. Source: ExitCode.UNEXPECTED_ERROR.
const EXIT_UNEXPECTED: u8 = 1;

/// The ways of a member to the others.
pub(crate) struct MemberPorts {
    pub(crate) mesh: Mesh,
    /// Where learners find this server while it leads.
    pub(crate) learners: LearnerPort,
    /// Where observers find this server while it follows (`observerMasterPort`).
    pub(crate) observers: Option<LearnerPort>,
    pub(crate) dialer: Dialer,
    pub(crate) leader: Option<LeaderConnection>,
    /// What packets take of their connections' read-ahead that the replica has not handled yet.
    pub(crate) read_ahead: Vec<ReadAheadPermit>,
    /// Inputs of elections that the replica handles.
    pub(crate) elections_ahead: Vec<InputPermit>,
    /// The oracle of an ensemble of two (`oraclePath`).
    pub(crate) oracle: Option<OracleWatch>,
    /// `quorumListenOnAllIPs`.
    pub(crate) listen_on_all_ips: bool,
    pub(crate) failure: Failure,
}

impl MemberPorts {
    /// Who may be connected to this server, for operators.
    pub(crate) fn links(&self) -> Vec<LearnerLinks> {
        let observers = self.observers.iter().map(LearnerPort::links);
        observers.chain([self.learners.links()]).collect()
    }

    pub(crate) fn flush(&mut self) {
        self.learners.flush();
        if let Some(port) = &self.observers {
            port.flush();
        }
        if let Some(leader) = &mut self.leader {
            leader.flush();
        }
    }

    /// Carries out what concerns other members.
    pub(crate) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Listen {
                port,
                attempt,
                addresses,
            } => {
                let on_all_ips = self.listen_on_all_ips;
                if let Some(port) = self.port(port) {
                    let listen = ListenSettings {
                        addresses,
                        on_all_ips,
                    };
                    port.open(attempt, listen);
                }
            }
            Effect::StopListening { port, hands_over } => match self.port(port) {
                Some(port) if hands_over => port.hand_over(),
                Some(port) => port.close_all(),
                None => {}
            },
            Effect::Send { port, to, packet } => {
                if let Some(port) = self.port(port) {
                    port.send(to, packet);
                }
            }
            Effect::SendSnapshot { port, to, zxid } => {
                if let Some(port) = self.port(port) {
                    port.send_snapshot(to, zxid);
                }
            }
            Effect::ReadLog { to, from, upto } => self.learners.read_log(to, from, upto),
            Effect::CloseLink { port, link, fault } => {
                if let Some(port) = self.port(port) {
                    port.close(link, &fault);
                }
            }
            Effect::Dial {
                attempt,
                addresses,
                pause_ms,
            } => {
                let pause = Duration::from_millis(pause_ms);
                self.leader = Some(self.dialer.dial(attempt, addresses, pause));
            }
            Effect::SendToLeader(packet) => {
                if let Some(leader) = &mut self.leader {
                    leader.send(packet);
                }
            }
            Effect::ReceiveSnapshot => {
                if let Some(leader) = &self.leader {
                    leader.receive_snapshot();
                }
            }
            Effect::HangUp => self.leader = None,
            Effect::Election(effect) => self.mesh.carry_out(effect),
            Effect::AskOracle => {
                if let Some(oracle) = &self.oracle {
                    oracle.ask();
                }
            }
            // What concerns this server alone is carried out before it comes here.
            _ => {}
        }
    }

    fn port(&self, port: Port) -> Option<&LearnerPort> {
        match port {
            Port::Learners => Some(&self.learners),
            Port::Observers => self.observers.as_ref(),
        }
    }

    /// What a connection of elections says.
    pub(crate) fn translate_election(&mut self, event: MeshEvent) -> Option<Input> {
        match event {
            MeshEvent::Input { input, permit } => {
                self.elections_ahead.push(permit);
                Some(Input::Election(input))
            }
            MeshEvent::Failed { error } => {
                tracing::error!(err = %error, "elections cannot go on, stopping");
                self.failure.report(EXIT_UNEXPECTED);
                None
            }
        }
    }

    /// What a connection of the quorum port says.
    pub(crate) fn translate(&mut self, event: PeerEvent) -> Option<Input> {
        match event {
            PeerEvent::LeaderConnected { attempt } => {
                self.of_leader(attempt, LeaderEvent::Connected)
            }
            PeerEvent::LeaderPackets {
                attempt,
                packets,
                permit,
            } => {
                self.read_ahead.push(permit);
                self.of_leader(attempt, LeaderEvent::Packets(packets))
            }
            PeerEvent::LeaderUnreachable { attempt, error } => {
                if self.is_current(attempt) {
                    tracing::warn!(err = %error, "the leader cannot be reached");
                }
                self.of_leader(attempt, LeaderEvent::Closed)
            }
            PeerEvent::LeaderClosed { attempt, reason } => {
                if self.is_current(attempt) {
                    tracing::warn!(%reason, "the connection to the leader is gone");
                }
                self.of_leader(attempt, LeaderEvent::Closed)
            }
            PeerEvent::SnapshotProgress { attempt } => {
                self.of_leader(attempt, LeaderEvent::SnapshotProgress)
            }
            PeerEvent::SnapshotReceived { attempt, tree } => {
                self.of_leader(attempt, LeaderEvent::SnapshotReceived(tree))
            }
            PeerEvent::SnapshotDamaged { attempt, error } => {
                if self.is_current(attempt) {
                    tracing::error!(err = %error, "the leader's snapshot is no good");
                }
                self.of_leader(attempt, LeaderEvent::SnapshotDamaged)
            }
            other => self.of_learner(Port::Learners, other),
        }
    }

    /// What a connection of the observers' port says.
    pub(crate) fn translate_observer(&mut self, event: PeerEvent) -> Option<Input> {
        if let PeerEvent::LearnerClosed { link, reason } = &event {
            tracing::info!(link = link.0, %reason, "an observer's connection is gone");
        }
        self.of_learner(Port::Observers, event)
    }

    fn of_learner(&mut self, port: Port, event: PeerEvent) -> Option<Input> {
        let event = match event {
            PeerEvent::LearnerConnected { link, peer } => {
                tracing::debug!(link = link.0, %peer, "a learner connects");
                LearnerEvent::Connected { link }
            }
            PeerEvent::LearnerPackets {
                link,
                packets,
                permit,
            } => {
                self.read_ahead.push(permit);
                LearnerEvent::Packets { link, packets }
            }
            PeerEvent::LearnerClosed { link, .. } => LearnerEvent::Closed { link },
            PeerEvent::SnapshotSent { link } => LearnerEvent::SnapshotSent { link },
            PeerEvent::LogRecords { link, records } => LearnerEvent::LogRecords { link, records },
            PeerEvent::LogUnusable { link } => LearnerEvent::LogUnusable { link },
            PeerEvent::ListenFailed { attempt } => {
                return Some(Input::ListenFailed { port, attempt });
            }
            _ => return None,
        };
        Some(Input::Learner(port, event))
    }

    fn of_leader(&self, attempt: u64, event: LeaderEvent) -> Option<Input> {
        // What belongs to an earlier role says nothing any more.
        let is_current = self.is_current(attempt);
        is_current.then_some(Input::Leader { attempt, event })
    }

    fn is_current(&self, attempt: u64) -> bool {
        let leader = self.leader.as_ref();
        leader.is_some_and(|leader| leader.attempt() == attempt)
    }
}

/// The oracle of an ensemble of two.
///
/// The file is read by a task of its own, so that a disk that hangs holds up nothing but the
/// oracle's word, which then counts as a no.
pub(crate) struct OracleWatch {
    pub(crate) runtime: Handle,
    pub(crate) file: Arc<Mutex<OracleFile>>,
    pub(crate) core: InputSink,
}

impl OracleWatch {
    /// The answer comes as [`Input::Oracle`].
    fn ask(&self) {
        let (file, core) = (self.file.clone(), self.core.clone());
        self.runtime.spawn(async move {
            let grants = file.lock().await.ask().await;
            core(Input::Oracle { grants });
        });
    }
}
