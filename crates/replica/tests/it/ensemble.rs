//! Elections and synchronisation for the other tests.

use election::links::ConnectionId;
use proto::hello::{Hello, HelloAddresses};
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket};
use proto::notification::{Form, Notification, PeerState};
use proto::{ElectionRound, Epoch, Sid, Zxid};
use zab::leader::LinkId;
use zoarium_replica::elections::ElectionInput;
use zoarium_replica::{DiskOrder, Effect, Input, LeaderEvent, LearnerEvent, Port};

use crate::support::Server;

/// Returns the notification of a voter that is looking for a leader.
fn vote(leader: i64, zxid: Zxid, round: i64, peer_epoch: i64) -> Notification {
    Notification {
        state: PeerState::Looking,
        leader: Sid(leader),
        zxid,
        round: ElectionRound(round),
        peer_epoch: Epoch(peer_epoch),
        form: Form::Versioned {
            version: 1,
            config: None,
        },
    }
}

impl Server {
    fn hear(&mut self, connection: u64, notification: Notification) {
        self.handle(Input::Election(ElectionInput::ReceivedNotification {
            connection: ConnectionId(connection),
            notification,
        }));
    }

    /// Elects server 3 by itself and server 1, which has this last zxid.
    pub(crate) fn elect_3(&mut self, zxid: Zxid, round: i64, epoch: i64) {
        let connection = ConnectionId(100 + round.unsigned_abs());
        let sid = Sid(1);
        self.handle(Input::Election(ElectionInput::Dialled { sid, connection }));
        self.hear(connection.0, vote(3, zxid, round, epoch));
        self.wait_until(self.now_ms + 300);
    }

    /// Elects server 3 by server 1.
    pub(crate) fn follow_3(&mut self, zxid: Zxid, round: i64, epoch: i64) -> u64 {
        let connection = 100 + round.unsigned_abs();
        self.hear_of(3, connection, vote(3, zxid, round, epoch));
        self.join()
    }

    /// Makes server 1, which may not vote, follow server 3, which already leads server 2.
    pub(crate) fn follow_3_without_vote(&mut self, zxid: Zxid, epoch: i64) -> u64 {
        for (sid, state) in [(2, PeerState::Following), (3, PeerState::Leading)] {
            let vote = vote(3, zxid, 1, epoch);
            self.hear_of(sid, 90 + sid.unsigned_abs(), Notification { state, ..vote });
        }
        self.join()
    }

    /// Delivers the notification of a server over a new connection.
    fn hear_of(&mut self, sid: i64, connection: u64, notification: Notification) {
        let hello = Hello {
            sid: Sid(sid),
            addresses: HelloAddresses::One(Vec::new()),
        };
        self.handle(Input::Election(ElectionInput::Hello {
            connection: ConnectionId(connection),
            hello,
        }));
        self.hear(connection, notification);
    }

    /// Waits for the end of an election. Returns the number of the follower's role.
    fn join(&mut self) -> u64 {
        self.wait_until(self.now_ms + 300);
        let effects = self.effects();
        let dialled = effects.iter().find_map(|effect| match effect {
            Effect::Dial { attempt, .. } => Some(*attempt),
            _ => None,
        });
        dialled.unwrap_or_else(|| panic!("it does not follow a leader: {effects:?}"))
    }

    pub(crate) fn learner_sends(&mut self, link: u64, packet: LearnerPacket) {
        let packets = vec![packet];
        let link = LinkId(link);
        self.handle(Input::Learner(
            Port::Learners,
            LearnerEvent::Packets { link, packets },
        ));
    }

    pub(crate) fn leader_sends(&mut self, attempt: u64, packet: LeaderPacket) {
        let event = LeaderEvent::Packets(vec![packet]);
        self.handle(Input::Leader { attempt, event });
    }

    /// Connects a voter with this log. It accepts the epoch once this server has it on disk.
    pub(crate) fn learner_comes(&mut self, link: u64, sid: i64, epoch: Epoch, last: Zxid) {
        let id = LinkId(link);
        let connected = LearnerEvent::Connected { link: id };
        self.handle(Input::Learner(Port::Learners, connected));
        let accepted_epoch = last.epoch();
        let info = Some(LearnerInfo::new(Sid(sid), 0));
        let introduction = LearnerPacket::FollowerInfo {
            accepted_epoch,
            info,
        };
        self.learner_sends(link, introduction);
        self.handle(Input::AcceptedEpochSaved(epoch));
        let ack = LearnerPacket::AckEpoch {
            last_logged: last,
            current_epoch: Some(last.epoch()),
        };
        self.learner_sends(link, ack);
    }

    /// Elects server 1 by itself and server 2. It leads `epoch` with server 3 as follower.
    pub(crate) fn lead_as_1(&mut self, last: Zxid, epoch: i64) {
        self.lead_as_1_in(2, last, epoch);
    }

    /// Does the same in this round of elections.
    pub(crate) fn lead_as_1_in(&mut self, round: i64, last: Zxid, epoch: i64) {
        let connection = ConnectionId(200);
        let hello = Hello {
            sid: Sid(2),
            addresses: HelloAddresses::One(Vec::new()),
        };
        self.handle(Input::Election(ElectionInput::Hello { connection, hello }));
        self.hear(connection.0, vote(1, last, round, last.epoch().0));
        self.wait_until(self.now_ms + 300);
        self.lead_with(3, epoch, last);
    }

    /// Makes server 3 lead `epoch` with server 1 as follower.
    pub(crate) fn lead(&mut self, epoch: i64, last: Zxid) {
        self.lead_with(1, epoch, last);
    }

    /// Makes an elected server lead `epoch`. The other server follows over link 1 with an equal
    /// log.
    fn lead_with(&mut self, sid: i64, epoch: i64, last: Zxid) {
        let epoch = Epoch(epoch);
        self.learner_comes(1, sid, epoch, last);
        self.handle(Input::CurrentEpochSaved(epoch));
        let zxid = Zxid::new(epoch, 0);
        self.learner_sends(1, LearnerPacket::Ack { zxid });
        let view = self.replica.view().unwrap();
        assert!(view.is_serving, "{view:?}");
    }
}

#[test]
fn an_elected_voter_saves_the_epoch_before_it_announces_it() {
    let mut server = Server::member(3);
    server.elect_3(Zxid::ZERO, 1, 0);
    let effects = server.effects();
    let listens = |effect: &Effect| {
        matches!(
            effect,
            Effect::Listen {
                port: Port::Learners,
                ..
            }
        )
    };
    assert!(effects.iter().any(listens), "{effects:?}");
    let link = LinkId(1);
    let connected = LearnerEvent::Connected { link };
    server.handle(Input::Learner(Port::Learners, connected));
    let info = Some(LearnerInfo::new(Sid(1), 0));
    server.learner_sends(
        1,
        LearnerPacket::FollowerInfo {
            accepted_epoch: Epoch(0),
            info,
        },
    );
    let is_told = |effects: &[Effect]| {
        let tells = |effect: &Effect| {
            let info = LeaderPacket::LeaderInfo {
                epoch: Epoch(1),
                protocol_version: LearnerInfo::REPORTS_DIGESTS,
            };
            matches!(effect, Effect::Send { packet, .. } if *packet == info)
        };
        effects.iter().any(tells)
    };
    let effects = server.effects();
    let saves =
        |effect: &Effect| matches!(effect, Effect::Disk(DiskOrder::SaveAcceptedEpoch(Epoch(1))));
    assert!(
        effects.iter().any(saves) && !is_told(&effects),
        "{effects:?}"
    );
    server.handle(Input::AcceptedEpochSaved(Epoch(1)));
    assert!(is_told(&server.effects()));
}

#[test]
fn a_role_ends_only_after_its_disk_orders() {
    let mut server = Server::member(3);
    server.elect_3(Zxid::ZERO, 1, 0);
    let link = LinkId(1);
    server.handle(Input::Learner(
        Port::Learners,
        LearnerEvent::Connected { link },
    ));
    let info = Some(LearnerInfo::new(Sid(1), 0));
    let accepted_epoch = Epoch(0);
    server.learner_sends(
        1,
        LearnerPacket::FollowerInfo {
            accepted_epoch,
            info,
        },
    );
    server.handle(Input::ListenFailed {
        port: Port::Learners,
        attempt: 1,
    });
    server.effects();
    // The epoch may or may not be on disk. Until that is known, there must not be a candidate.
    server.wait_until(60_000);
    let looks = |effect: &Effect| matches!(effect, Effect::Election(_));
    assert!(!server.effects().iter().any(looks));
    server.handle(Input::AcceptedEpochSaved(Epoch(1)));
    server.wait_until(62_000);
    assert!(server.effects().iter().any(looks));
}

#[test]
fn a_stopping_voter_takes_no_role() {
    let mut server = Server::member(3);
    server.handle(Input::Shutdown);
    assert!(server.replica.is_over());
    server.effects();
    // The host may have created this input in the same turn, and still passes it.
    server.elect_3(Zxid::ZERO, 1, 0);
    let effects = server.effects();
    assert!(
        server.replica.is_over() && effects.is_empty(),
        "{effects:?}"
    );
}
