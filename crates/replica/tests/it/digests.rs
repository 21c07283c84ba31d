//! Digests in committed transactions.

use jute::Encode;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket};
use proto::request::WriteRequest;
use proto::txn::{CreateTxn, SetDataTxn, Txn, TxnDigest, TxnHeader, TxnRecord};
use proto::{Acl, Epoch, SessionId, Zxid};
use tree::Tree;
use zoarium_replica::{DiskOrder, Effect, Input, LeaderEvent, State};

use crate::support::{Server, create, request, zxid};

const SESSION: i64 = 77;

fn record(zxid: Zxid, txn: Txn) -> TxnRecord {
    TxnRecord {
        header: TxnHeader {
            session: SessionId(SESSION),
            cxid: 0,
            zxid,
            time_ms: 1,
            op: txn.op().number(),
        },
        txn,
        digest: None,
    }
}

fn created(path: &str) -> Txn {
    Txn::Create(CreateTxn {
        path: path.into(),
        data: None,
        acl: vec![Acl::open()],
        ephemeral: false,
        parent_cversion: 1,
    })
}

/// Changes the data of a znode without a transaction.
fn damage(server: &Server, path: &str) {
    let mut tree = server.state.tree_mut();
    let txn = Txn::SetData(SetDataTxn {
        path: path.into(),
        data: Some("damaged".into()),
        version: 0,
    });
    let damage = record(tree.last_zxid(), txn);
    let outcome = tree.apply(&damage, &mut Default::default(), &mut Vec::new());
    assert_eq!(outcome.error(), proto::ErrorCode::Ok);
}

/// A leader with its own correct tree.
struct Leader(Tree);

impl Leader {
    /// Commits the next transaction with the tree's digest.
    fn commit(&mut self, zxid: Zxid, txn: Txn) -> [LeaderPacket; 2] {
        let mut record = record(zxid, txn);
        self.0
            .apply(&record, &mut Default::default(), &mut Vec::new());
        record.digest = Some(TxnDigest::new(self.0.digest()));
        let txn = record.to_bytes();
        [
            LeaderPacket::Proposal { zxid, txn },
            LeaderPacket::Commit { zxid },
        ]
    }

    fn commits(&mut self, server: &mut Server, attempt: u64, zxid: Zxid, txn: Txn) {
        for packet in self.commit(zxid, txn) {
            server.leader_sends(attempt, packet);
        }
    }
}

#[test]
fn a_standalone_server_counts_each_digest_mismatch() {
    let mut server = Server::alone();
    let begin = WriteRequest::CreateSession { timeout_ms: 4000 };
    let writes = [begin, create("/a"), create("/b"), create("/c")];
    for (at, write) in (1..).zip(writes) {
        if at == 3 {
            assert!(server.book.mismatches.is_empty());
            damage(&server, "/a");
        }
        server.handle(Input::Requests(vec![request(1, SESSION, at, write)]));
        server.handle(Input::Synced(Zxid(at.into())));
    }
    assert_eq!(server.book.mismatches, [Zxid(3), Zxid(4)]);
}

#[test]
fn a_learner_compares_committed_digests_from_uptodate_on() {
    let mut server = Server::member(1);
    let attempt = server.follow_3(Zxid::ZERO, 1, 0);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    begin(&mut server, attempt, LearnerInfo::PROTOCOL_VERSION);
    let mut leader = Leader(Tree::new(server.state.tree().settings().clone()));
    leader.commits(&mut server, attempt, zxid(1, 1), created("/a"));
    assert!(server.book.mismatches.is_empty());
    damage(&server, "/a");
    leader.commits(&mut server, attempt, zxid(1, 2), created("/b"));
    assert_eq!(server.book.mismatches, [zxid(1, 2)]);
    // Replacing the damaged data makes both trees equal again.
    let healed = Txn::Delete { path: "/a".into() };
    leader.commits(&mut server, attempt, zxid(1, 3), healed);
    leader.commits(&mut server, attempt, zxid(1, 4), created("/c"));
    assert_eq!(server.book.mismatches, [zxid(1, 2)]);
    // Transactions without a digest, or with a digest of another version, are not compared.
    damage(&server, "/b");
    let mut other = record(zxid(1, 5), created("/d"));
    for (counter, digest) in [
        (5, None),
        (
            6,
            Some(TxnDigest {
                version: 1,
                digest: 7,
            }),
        ),
    ] {
        (other.header.zxid, other.digest) = (zxid(1, counter), digest);
        let (zxid, txn) = (other.header.zxid, other.to_bytes());
        server.leader_sends(attempt, LeaderPacket::Proposal { zxid, txn });
        server.leader_sends(attempt, LeaderPacket::Commit { zxid });
    }
    assert_eq!(server.book.mismatches, [zxid(1, 2)]);
}

/// A tree from a snapshot may contain transactions after its zxid until everything before UPTODATE
/// is applied, even if both arrived together.
#[test]
fn a_learner_compares_no_digests_before_uptodate() {
    let mut server = Server::member(1);
    let attempt = server.follow_3(Zxid::ZERO, 1, 0);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    begin_without_uptodate(&mut server, attempt, LearnerInfo::PROTOCOL_VERSION);
    let mut leader = Leader(Tree::new(server.state.tree().settings().clone()));
    let ahead = record(Zxid::ZERO, created("/ahead"));
    server
        .state
        .tree_mut()
        .apply(&ahead, &mut Default::default(), &mut Vec::new());
    let mut packets = leader.commit(zxid(1, 1), created("/a")).to_vec();
    packets.push(LeaderPacket::UpToDate);
    let event = LeaderEvent::Packets(packets);
    server.handle(Input::Leader { attempt, event });
    assert!(server.book.mismatches.is_empty());
    leader.commits(&mut server, attempt, zxid(1, 2), created("/b"));
    assert_eq!(server.book.mismatches, [zxid(1, 2)]);
}

/// Creates a follower of this mode with a damaged tree. It has reported this to its leader, which
/// requested its digest at this transaction.
fn asked(mode: &str) -> (Server, u64, u64) {
    let mut server = Server::member_with(1, &format!("zoarium.onDigestMismatch={mode}\n"));
    let attempt = server.follow_3(Zxid::ZERO, 1, 0);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    begin(&mut server, attempt, LearnerInfo::REPORTS_DIGESTS);
    let mut leader = Leader(Tree::new(server.state.tree().settings().clone()));
    leader.commits(&mut server, attempt, zxid(1, 1), created("/a"));
    damage(&server, "/a");
    server.effects();
    leader.commits(&mut server, attempt, zxid(1, 2), created("/b"));
    let own = server.state.tree().digest();
    let sent = sent(&mut server);
    let differs = LearnerPacket::DigestDiffers {
        zxid: zxid(1, 2),
        digest: own,
    };
    assert!(sent.contains(&differs), "{sent:?}");
    let zxid = zxid(1, 2);
    server.leader_sends(attempt, LeaderPacket::DigestAsked { zxid });
    let digest = LearnerPacket::Digest { zxid, digest: own };
    assert_eq!(self::sent(&mut server), [digest]);
    (server, attempt, own)
}

/// Synchronises the server with the leader of epoch 1.
fn begin(server: &mut Server, attempt: u64, protocol_version: i32) {
    begin_without_uptodate(server, attempt, protocol_version);
    server.leader_sends(attempt, LeaderPacket::UpToDate);
}

fn begin_without_uptodate(server: &mut Server, attempt: u64, protocol_version: i32) {
    let info = LeaderPacket::LeaderInfo {
        epoch: Epoch(1),
        protocol_version,
    };
    server.leader_sends(attempt, info);
    server.handle(Input::AcceptedEpochSaved(Epoch(1)));
    server.leader_sends(attempt, LeaderPacket::Diff { zxid: Zxid::ZERO });
    let new_leader = LeaderPacket::NewLeader {
        zxid: zxid(1, 0),
        config: None,
    };
    server.leader_sends(attempt, new_leader);
    server.handle(Input::CurrentEpochSaved(Epoch(1)));
}

fn sent(server: &mut Server) -> Vec<LearnerPacket> {
    let effects = server.effects().into_iter();
    let sent = effects.filter_map(|effect| match effect {
        Effect::SendToLeader(packet) => Some(packet),
        _ => None,
    });
    sent.collect()
}

fn judged(server: &mut Server, attempt: u64, agreed: Option<u64>) -> Vec<Effect> {
    let zxid = zxid(1, 2);
    server.leader_sends(attempt, LeaderPacket::DigestJudged { zxid, agreed });
    server.effects()
}

fn stops(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Stop))
}

fn keeps(effects: &[Effect]) -> bool {
    let keeps = |effect: &Effect| matches!(effect, Effect::Disk(DiskOrder::KeepTree));
    effects.iter().any(keeps)
}

#[test]
fn a_learner_with_a_wrong_tree_logs_stops_or_repairs() {
    for (mode, by_quorum, by_none) in [
        ("log", (false, false), (false, false)),
        ("stop", (true, false), (true, false)),
        ("repair", (false, true), (true, false)),
    ] {
        for (agreed, expected) in [(Some(1), by_quorum), (None, by_none)] {
            let (mut server, attempt, _) = asked(mode);
            server.handle(Input::Synced(zxid(1, 2)));
            let effects = judged(&mut server, attempt, agreed);
            let done = (stops(&effects), keeps(&effects));
            assert_eq!(done, expected, "{mode}, {agreed:?}");
            assert_eq!(server.replica.is_over(), done.0);
        }
    }
}

#[test]
fn a_judgement_of_another_digest_is_ignored() {
    let (mut server, attempt, own) = asked("repair");
    server.handle(Input::Synced(zxid(1, 2)));
    // The server has that digest.
    let effects = judged(&mut server, attempt, Some(own));
    assert!(!stops(&effects) && !keeps(&effects), "{effects:?}");
    // The server has not reported a digest since.
    let effects = judged(&mut server, attempt, None);
    assert!(!stops(&effects) && !keeps(&effects), "{effects:?}");
}

#[test]
fn a_leader_without_the_packets_gets_no_digest() {
    let mut server = Server::member_with(1, "zoarium.onDigestMismatch=stop\n");
    let attempt = server.follow_3(Zxid::ZERO, 1, 0);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    begin(&mut server, attempt, LearnerInfo::PROTOCOL_VERSION);
    let mut leader = Leader(Tree::new(server.state.tree().settings().clone()));
    leader.commits(&mut server, attempt, zxid(1, 1), created("/a"));
    damage(&server, "/a");
    leader.commits(&mut server, attempt, zxid(1, 2), created("/b"));
    assert_eq!(server.book.mismatches, [zxid(1, 2)]);
    let differs = |packet: &LearnerPacket| matches!(packet, LearnerPacket::DigestDiffers { .. });
    assert!(!sent(&mut server).iter().any(differs));
}

#[test]
fn a_repair_saves_the_tree_and_accepts_only_a_snapshot() {
    let (mut server, attempt, _) = asked("repair");
    // Records that are not on disk yet come first.
    assert!(!keeps(&judged(&mut server, attempt, Some(1))));
    server.handle(Input::Synced(zxid(1, 2)));
    let effects = server.effects();
    assert!(keeps(&effects), "{effects:?}");
    let dials = |effect: &Effect| matches!(effect, Effect::Dial { .. });
    assert!(!effects.iter().any(dials), "{effects:?}");
    assert!(!server.replica.is_trusted());
    server.handle(Input::TreeKept { is_kept: true });
    let effects = server.effects();
    let dialled = effects.iter().find_map(|effect| match effect {
        Effect::Dial { attempt, .. } => Some(*attempt),
        _ => None,
    });
    let attempt = dialled.expect("it goes back to its leader");
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    server.leader_sends(attempt, LeaderPacket::leader_info(Epoch(1)));
    let names_nothing = |packet: &LearnerPacket| matches!(packet, LearnerPacket::AckEpoch { last_logged, .. } if *last_logged == Zxid(-1));
    let sent = sent(&mut server);
    assert!(sent.iter().any(names_nothing), "{sent:?}");
    server.leader_sends(attempt, LeaderPacket::Diff { zxid: zxid(1, 2) });
    let effects = server.effects();
    let hangs_up = |effect: &Effect| matches!(effect, Effect::HangUp);
    assert!(effects.iter().any(hangs_up), "{effects:?}");
}

#[test]
fn a_tree_that_cannot_be_saved_is_not_replaced() {
    let (mut server, attempt, _) = asked("repair");
    server.handle(Input::Synced(zxid(1, 2)));
    assert!(keeps(&judged(&mut server, attempt, Some(1))));
    server.handle(Input::TreeKept { is_kept: false });
    assert!(stops(&server.effects()) && server.replica.is_over());
}
