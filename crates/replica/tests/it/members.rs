//! Outcome of a reconfiguration, depending on the leader's knowledge of its learners.

use std::collections::BTreeSet;

use proto::request::ReconfigRequest;
use proto::{ErrorCode, Sid, Zxid};
use zoarium_replica::members::{MemberLists, PlanFacts};

use crate::support::config;

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
