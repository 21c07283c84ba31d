//! Assignment of effects to the parts of a host.

use config::members::HostPort;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{SessionId, Zxid};
use replica::elections::ElectionEffect;
use replica::{DiskOrder, Effect, LargeBytes, Port, Renewal, Service, View};
use zab::Record;
use zab::leader::{LinkFault, LinkId};

use crate::{Connected, Registry, answer_handshake};

/// The parts of a host. These functions do not block.
pub trait CarryingOut {
    /// A client's connection.
    type Connection: Connected;
    /// Connections to other members.
    type Links: MemberLinks;

    /// Returns all clients' connections.
    fn registry(&self) -> &Registry<Self::Connection>;

    /// Returns the connections to other members; `None` without an ensemble.
    fn links(&mut self) -> Option<&mut Self::Links>;

    /// Appends a record for the log. The next flush passes it to the disk, if that has not happened
    /// earlier.
    fn append(&mut self, record: Record);

    /// Passes all appended records to the disk.
    fn flush_log(&mut self);

    /// Passes an order to the disk, after all appended records.
    fn order(&mut self, order: DiskOrder);

    /// Stops the server, because its data differs from the data of other members.
    fn stop(&mut self);

    /// Sets the service for clients.
    fn serve(&mut self, service: Service) {
        self.registry().serve(service);
    }

    /// Stops serving clients and ends all their connections.
    fn stop_serving(&mut self) {
        self.registry().stop_serving();
    }

    /// Reports the leader's answer to the client of a connection: its session with the timeout in
    /// ms, or a refusal.
    fn renewed(&self, _: &Self::Connection, _: &Renewal, _session: Option<(SessionId, i32)>) {}

    /// Frees the slots of requests and their share in the bounds on large ones.
    fn release(&mut self, _requests: usize, _large_bytes: LargeBytes) {}

    /// Updates the view for operators.
    fn show(&mut self, _view: View) {}
}

/// Connections of a member to other members. [`Effect`] describes each operation.
pub trait MemberLinks {
    /// Executes [`Effect::Listen`].
    fn listen(&mut self, port: Port, attempt: u64, addresses: Vec<HostPort>);
    /// Executes [`Effect::StopListening`].
    fn stop_listening(&mut self, port: Port, hands_over: bool);
    /// Executes [`Effect::Send`]. Packets may wait for the next flush.
    fn send(&mut self, port: Port, to: LinkId, packet: LeaderPacket);
    /// Executes [`Effect::SendSnapshot`].
    fn send_snapshot(&mut self, port: Port, to: LinkId, zxid: Zxid);
    /// Executes [`Effect::ReadLog`].
    fn read_log(&mut self, to: LinkId, from: Zxid, upto: Zxid);
    /// Executes [`Effect::CloseLink`].
    fn close_link(&mut self, port: Port, link: LinkId, fault: &LinkFault);
    /// Executes [`Effect::Dial`].
    fn dial(&mut self, attempt: u64, addresses: Vec<HostPort>, pause_ms: u64);
    /// Executes [`Effect::SendToLeader`]. Packets may wait for the next flush.
    fn send_to_leader(&mut self, packet: LearnerPacket);
    /// Executes [`Effect::ReceiveSnapshot`].
    fn receive_snapshot(&mut self);
    /// Executes [`Effect::HangUp`].
    fn hang_up(&mut self);
    /// Executes [`Effect::Election`].
    fn elect(&mut self, effect: ElectionEffect);
    /// Executes [`Effect::SetMemberHosts`].
    fn set_member_hosts(&mut self, _hosts: Vec<String>) {}
    /// Executes [`Effect::AskOracle`].
    fn ask_oracle(&mut self);
    /// Sends waiting packets. Called before every effect that must not overtake them.
    fn flush(&mut self) {}
}

/// Passes an effect to the responsible part of the host.
pub fn carry_out_effect<H: CarryingOut>(host: &mut H, effect: Effect) {
    match effect {
        Effect::Append(record) => host.append(record),
        Effect::Flush => {
            if let Some(links) = host.links() {
                links.flush();
            }
            host.flush_log();
        }
        Effect::Disk(order) => host.order(order),
        Effect::Serve(service) => host.serve(service),
        Effect::StopServing => host.stop_serving(),
        Effect::CloseClient(ticket) => {
            if let Some(connection) = host.registry().of(ticket) {
                connection.close();
            }
        }
        Effect::CloseSession(session) => host.registry().close_session(session),
        Effect::Release {
            requests,
            large_bytes,
        } => host.release(requests, large_bytes),
        Effect::Renewed { renewal, is_valid } => renewed(host, &renewal, is_valid),
        Effect::Show(view) => host.show(view),
        Effect::Stop => host.stop(),
        other => {
            if let Some(links) = host.links() {
                carry_out_on_links(links, other);
            }
        }
    }
}

/// Handles the leader's answer about the session of a returning client.
fn renewed<H: CarryingOut>(host: &H, renewal: &Renewal, is_valid: bool) {
    if let Some(connection) = host.registry().of(renewal.ticket) {
        let session = is_valid.then_some((renewal.session, renewal.timeout_ms));
        answer_handshake(host.registry(), &*connection, session, renewal.new_style);
        host.renewed(&connection, renewal, session);
        connection.wake();
    }
}

fn carry_out_on_links(links: &mut impl MemberLinks, effect: Effect) {
    let follows_packets = matches!(
        effect,
        Effect::StopListening { .. }
            | Effect::SendSnapshot { .. }
            | Effect::ReadLog { .. }
            | Effect::CloseLink { .. }
    );
    if follows_packets {
        links.flush();
    }
    match effect {
        Effect::Send { port, to, packet } => links.send(port, to, packet),
        Effect::SendToLeader(packet) => links.send_to_leader(packet),
        Effect::Listen {
            port,
            attempt,
            addresses,
        } => links.listen(port, attempt, addresses),
        Effect::StopListening { port, hands_over } => links.stop_listening(port, hands_over),
        Effect::SendSnapshot { port, to, zxid } => links.send_snapshot(port, to, zxid),
        Effect::ReadLog { to, from, upto } => links.read_log(to, from, upto),
        Effect::CloseLink { port, link, fault } => links.close_link(port, link, &fault),
        Effect::Dial {
            attempt,
            addresses,
            pause_ms,
        } => links.dial(attempt, addresses, pause_ms),
        Effect::ReceiveSnapshot => links.receive_snapshot(),
        Effect::HangUp => links.hang_up(),
        Effect::Election(effect) => links.elect(effect),
        Effect::SetMemberHosts(hosts) => links.set_member_hosts(hosts),
        Effect::AskOracle => links.ask_oracle(),
        // The caller has already executed effects that concern only this server.
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
