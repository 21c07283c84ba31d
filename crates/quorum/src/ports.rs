//! Connections of a member to the others: for elections, with learners, with its leader, and with
//! the oracle of a two-voter ensemble.

use std::sync::Arc;
use std::time::Duration;

use config::members::HostPort;
use proto::Zxid;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use replica::{Effect, Input, LeaderEvent, Port};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use transport::tls::MemberCheck;
use zab::leader::{LinkFault, LinkId};

use crate::limits;
use crate::mesh::{BindError, InputPermit, Mesh, MeshEvent, OracleFile};
use crate::peer::{
    Dialer, LeaderConnection, LearnerLinks, LearnerPort, ListenSettings, PeerError, PeerEvent,
    PeerSink, ReadAheadPermit,
};

/// Connections of a member to the others.
pub struct MemberPorts {
    pub(crate) mesh: Mesh,
    /// Port for learners while this server leads.
    pub(crate) learners: LearnerPort,
    /// Port for observers while this server follows (`observerMasterPort`).
    pub(crate) observers: Option<LearnerPort>,
    pub(crate) dialer: Dialer,
    pub(crate) leader: Option<LeaderConnection>,
    /// Read-ahead permits of packets that the replica has not handled yet.
    pub(crate) read_ahead: Vec<ReadAheadPermit>,
    /// Read-ahead permits of a follower's observers. They are kept while many bytes wait for the
    /// leader.
    pub(crate) observers_ahead: Vec<ReadAheadPermit>,
    /// Permits for election inputs that the replica has not handled yet.
    pub(crate) elections_ahead: Vec<InputPermit>,
    /// Oracle of a two-voter ensemble (`oraclePath`).
    pub(crate) oracle: Option<OracleWatch>,
    /// Whether ports are bound on all addresses (`quorumListenOnAllIPs`).
    pub(crate) listen_on_all_ips: bool,
    /// Check that distinguishes members from other peers with a trusted certificate. `None` without
    /// TLS.
    pub(crate) member_check: Option<Arc<MemberCheck>>,
}

impl MemberPorts {
    /// Returns the connected learners of each port, for operators.
    pub fn links(&self) -> Vec<LearnerLinks> {
        let observers = self.observers.iter().map(LearnerPort::links);
        observers.chain([self.learners.links()]).collect()
    }

    /// Releases the permits of handled election inputs.
    pub fn release_elections(&mut self) {
        self.elections_ahead.clear();
    }

    /// Releases the permits of handled packets. Keeps the permits of observers while many bytes
    /// wait for the leader.
    pub fn release_read_ahead(&mut self) {
        self.read_ahead.clear();
        let leader = self.leader.as_ref();
        let waiting = leader.map_or(0, LeaderConnection::waiting_bytes);
        if waiting < limits::RELAYED_BYTES_MAX {
            self.observers_ahead.clear();
        }
    }

    fn port(&self, port: Port) -> Option<&LearnerPort> {
        match port {
            Port::Learners => Some(&self.learners),
            Port::Observers => self.observers.as_ref(),
        }
    }

    /// Converts an event of an election connection to an input.
    ///
    /// # Errors
    /// If this member cannot take part in elections, in which case the server must end.
    pub fn translate_election(&mut self, event: MeshEvent) -> Result<Input, BindError> {
        match event {
            MeshEvent::Input { input, permit } => {
                self.elections_ahead.push(permit);
                Ok(Input::Election(input))
            }
            MeshEvent::Failed { error } => Err(error),
        }
    }

    /// Converts an event of a connection between members to an input. Returns `None` for an event
    /// of an earlier attempt to reach a leader.
    pub fn translate(&mut self, event: PeerEvent) -> Option<Input> {
        let PeerEvent {
            input,
            permit,
            reason,
        } = event;
        match &input {
            Input::Learner(Port::Observers, _) => self.observers_ahead.extend(permit),
            Input::Leader { attempt, .. } if !self.is_current(*attempt) => {
                // Events from an earlier role are ignored.
                return None;
            }
            Input::Leader { event, .. } => {
                if let Some(reason) = reason {
                    log_leader_end(event, &reason);
                }
                self.read_ahead.extend(permit);
            }
            _ => self.read_ahead.extend(permit),
        }
        Some(input)
    }

    fn is_current(&self, attempt: u64) -> bool {
        let leader = self.leader.as_ref();
        leader.is_some_and(|leader| leader.attempt() == attempt)
    }

    /// Executes an effect on the connections to other members. Packets may wait for
    /// [`Self::flush`].
    pub fn carry_out(&mut self, effect: Effect) {
        if effect.follows_packets() {
            self.flush();
        }
        match effect {
            Effect::Send { port, to, packet } => self.send(port, to, packet),
            Effect::SendToLeader(packet) => self.send_to_leader(packet),
            Effect::Listen {
                port,
                attempt,
                addresses,
            } => self.listen(port, attempt, addresses),
            Effect::StopListening { port, hands_over } => self.stop_listening(port, hands_over),
            Effect::SendSnapshot { port, to, zxid } => self.send_snapshot(port, to, zxid),
            Effect::ReadLog { to, from, upto } => self.learners.read_log(to, from, upto),
            Effect::CloseLink { port, link, fault } => self.close_link(port, link, &fault),
            Effect::Dial {
                attempt,
                addresses,
                pause_ms,
            } => self.dial(attempt, addresses, pause_ms),
            Effect::ReceiveSnapshot => self.receive_snapshot(),
            Effect::HangUp => self.leader = None,
            Effect::Election(effect) => self.mesh.carry_out(effect),
            Effect::SetMemberHosts(hosts) => self.set_member_hosts(hosts),
            Effect::QueryOracle => self.query_oracle(),
            // The server executes these effects itself.
            Effect::Append(_)
            | Effect::Flush
            | Effect::Disk(_)
            | Effect::Serve(_)
            | Effect::StopServing
            | Effect::CloseClient(_)
            | Effect::CloseSession(_)
            | Effect::Release { .. }
            | Effect::Renewed { .. }
            | Effect::Stop
            | Effect::Show(_) => {}
        }
    }

    /// Sends the packets that wait.
    pub fn flush(&mut self) {
        self.learners.flush();
        if let Some(port) = &self.observers {
            port.flush();
        }
        if let Some(leader) = &mut self.leader {
            leader.flush();
        }
    }

    fn listen(&self, port: Port, attempt: u64, addresses: Vec<HostPort>) {
        let on_all_ips = self.listen_on_all_ips;
        if let Some(port) = self.port(port) {
            let listen = ListenSettings {
                addresses,
                on_all_ips,
            };
            port.open(attempt, listen);
        }
    }

    fn stop_listening(&self, port: Port, hands_over: bool) {
        match self.port(port) {
            Some(port) if hands_over => port.hand_over(),
            Some(port) => port.close_all(),
            None => {}
        }
    }

    fn send(&self, port: Port, to: LinkId, packet: LeaderPacket) {
        if let Some(port) = self.port(port) {
            port.send(to, packet);
        }
    }

    fn send_snapshot(&self, port: Port, to: LinkId, zxid: Zxid) {
        if let Some(port) = self.port(port) {
            port.send_snapshot(to, zxid);
        }
    }

    fn close_link(&self, port: Port, link: LinkId, fault: &LinkFault) {
        if let Some(port) = self.port(port) {
            port.close(link, fault);
        }
    }

    fn dial(&mut self, attempt: u64, addresses: Vec<HostPort>, pause_ms: u64) {
        let pause = Duration::from_millis(pause_ms);
        self.leader = Some(self.dialer.dial(attempt, addresses, pause));
    }

    fn send_to_leader(&mut self, packet: LearnerPacket) {
        if let Some(leader) = &mut self.leader {
            leader.send(packet);
        }
    }

    fn receive_snapshot(&self) {
        if let Some(leader) = &self.leader {
            leader.receive_snapshot();
        }
    }

    fn set_member_hosts(&self, hosts: Vec<String>) {
        if let Some(check) = &self.member_check {
            check.set_hosts(hosts);
        }
    }

    fn query_oracle(&self) {
        if let Some(oracle) = &self.oracle {
            oracle.query();
        }
    }
}

/// Logs why the connection to the leader has ended.
fn log_leader_end(event: &LeaderEvent, reason: &PeerError) {
    match (event, reason) {
        (LeaderEvent::SnapshotDamaged, _) => {
            tracing::error!(err = %reason, "cannot load the leader's snapshot");
        }
        (_, PeerError::Unreachable { .. } | PeerError::Auth(_)) => {
            tracing::warn!(err = %reason, "cannot connect to the leader");
        }
        _ => tracing::warn!(%reason, "lost the connection to the leader"),
    }
}

/// Oracle of a two-voter ensemble (`oraclePath`).
///
/// A separate task reads the file, so a disk that hangs delays only the oracle's answer, which is
/// then treated as a refusal.
pub(crate) struct OracleWatch {
    pub(crate) runtime: Handle,
    pub(crate) file: Arc<Mutex<OracleFile>>,
    pub(crate) core: PeerSink,
}

impl OracleWatch {
    /// Queries the oracle. [`Input::Oracle`] returns the answer.
    fn query(&self) {
        let (file, core) = (self.file.clone(), self.core.clone());
        self.runtime.spawn(async move {
            let grants = file.lock().await.query().await;
            core(Input::Oracle { grants }.into());
        });
    }
}
