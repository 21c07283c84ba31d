//! Outcome of a reconfiguration, depending on the leader's knowledge of its learners.

use std::collections::BTreeSet;

use bytes::Bytes;
use jute::Encode;
use proto::leader::LeaderPacket;
use proto::request::ReconfigRequest;
use proto::txn::{SetDataTxn, Txn, TxnHeader, TxnRecord};
use proto::{Epoch, ErrorCode, SessionId, Sid, Zxid};
use zoarium_replica::members::{MemberFile, MemberLists, PlanFacts};
use zoarium_replica::{DiskOrder, Effect, Input, LeaderEvent};

use crate::learning::tree_at;
use crate::support::{Server, config, zxid};

fn joining(line: &str) -> ReconfigRequest {
    ReconfigRequest {
        joining: Some(line.into()),
        leaving: None,
        new_members: None,
        config_version: -1,
    }
}

/// The follower still follows, because it does not know its new role. Without the new list it would
/// return as an observer, and the new list needs it.
#[test]
fn a_follower_that_was_made_an_observer_is_not_in_sync_as_a_voter() {
    let lists = "reconfigEnabled=true\nstandaloneEnabled=false\n\
                 server.1=a:2888:3888;2181\nserver.2=b:2888:3888:observer;2181\n";
    let lists = MemberLists::new(&config(1, lists)).unwrap();
    let facts = PlanFacts {
        zxid: Zxid(0x1_0000_0007),
        synced_followers: BTreeSet::from([Sid(2), Sid(3)]),
        oracle_grants: false,
    };
    let plan = |server: &str| {
        let request = joining(&format!("server.{server}:2888:3888:participant;2181"));
        lists.plan(&request, &facts)
    };
    assert_eq!(plan("2=b"), Err(ErrorCode::NewConfigNoQuorum));
    let newcomer = plan("3=c").unwrap();
    assert_eq!(newcomer.participants().count(), 2);
}

const RECONFIGURABLE: &str = "reconfigEnabled=true\nstandaloneEnabled=false\n\
     server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2181\nserver.3=c:2888:3888;2181\n";

/// Returns the text of a list whose only voter is server 3.
fn only_3(version: &str) -> Bytes {
    format!("server.3=c:2888:3888:participant;2181\nversion={version}").into()
}

/// The log may contain a proposal that the leader sends again after its snapshot. As long as the
/// log contains the proposal, the proposed voters must decide after a crash, too: they may commit
/// more transactions alone.
#[test]
fn a_discarded_list_is_in_the_files_until_the_log_is_cut() {
    let mut server = Server::member_of(&config(1, RECONFIGURABLE), 1);
    let attempt = server.follow_3(zxid(1, 5), 1, 1);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    server.leader_sends(attempt, LeaderPacket::leader_info(Epoch(2)));
    server.handle(Input::AcceptedEpochSaved(Epoch(2)));
    let sent = zxid(1, 5);
    server.leader_sends(attempt, LeaderPacket::Snap { zxid: sent });
    let event = LeaderEvent::SnapshotReceived(Box::new(tree_at(sent)));
    server.handle(Input::Leader { attempt, event });
    let proposal = zxid(2, 1);
    let txn = Txn::Reconfig(SetDataTxn {
        path: "/zookeeper/config".into(),
        data: Some(only_3("200000001")),
        version: -1,
    });
    let record = TxnRecord {
        header: TxnHeader {
            session: SessionId(1),
            cxid: 1,
            zxid: proposal,
            time_ms: 1,
            op: txn.op().number(),
        },
        txn,
        digest: None,
    };
    let packet = LeaderPacket::Proposal {
        zxid: proposal,
        txn: record.to_bytes(),
    };
    server.leader_sends(attempt, packet);
    let seen = server.replica.lists().and_then(MemberLists::last_seen);
    assert_eq!(seen.map(|seen| seen.version.0), Some(proposal.0));
    server.effects();
    let packet = LeaderPacket::NewLeader {
        zxid: zxid(2, 0),
        config: Some(only_3("0")),
    };
    server.leader_sends(attempt, packet);
    assert_eq!(server.replica.lists().unwrap().last_seen(), None);
    let effects = server.effects();
    let at = |wanted: fn(&Effect) -> bool| effects.iter().position(wanted).expect("an order");
    let cut = at(|effect| matches!(effect, Effect::Disk(DiskOrder::TakeOver { .. })));
    let discarded = at(|effect| {
        let Effect::Disk(DiskOrder::SaveMembers { file, .. }) = effect else {
            return false;
        };
        *file == MemberFile::LastSeen(None)
    });
    assert!(cut < discarded, "{effects:?}");
}
