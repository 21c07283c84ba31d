//! Tests of a client's reconfig. The error codes of lists are tested in `config::reconfig`; these
//! tests cover the other errors and their order.

use proto::ErrorCode;
use proto::request::ReconfigRequest;

use super::*;

fn joining(text: &str) -> ReconfigRequest {
    ReconfigRequest {
        joining: Some(text.into()),
        leaving: None,
        new_members: None,
        config_version: -1,
    }
}

fn leaving(text: &str) -> ReconfigRequest {
    ReconfigRequest {
        joining: None,
        leaving: Some(text.into()),
        new_members: None,
        config_version: -1,
    }
}

fn replacing(text: &str) -> ReconfigRequest {
    ReconfigRequest {
        joining: None,
        leaving: None,
        new_members: Some(text.into()),
        config_version: -1,
    }
}

fn facts(synced: &[i64]) -> PlanFacts {
    PlanFacts {
        zxid: Zxid(0x1_0000_000b),
        synced_followers: synced.iter().copied().map(Sid).collect(),
        oracle_grants: false,
    }
}

/// Returns server 3 as leader, with a list of version 100000000.
fn leader(lines: &str) -> MembershipKeeper {
    let mut keeper = keeper(3, lines);
    keeper.install(three("100000000")).unwrap();
    keeper
}

#[test]
fn servers_join_and_leave() {
    let keeper = leader("");
    let planned = keeper.plan(&leaving("1"), &facts(&[1, 2])).unwrap();
    assert_eq!(
        planned.node_data(),
        "server.2=127.0.0.1:102:202:participant;127.0.0.1:302\n\
         server.3=127.0.0.1:103:203:participant;127.0.0.1:303\n\
         version=10000000b"
    );
    let request = joining("server.1=127.0.0.1:101:201:observer;127.0.0.1:301");
    let planned = keeper.plan(&request, &facts(&[1, 2])).unwrap();
    assert_eq!(planned.observers().count(), 1);
    // Planning does not change the lists.
    assert_eq!(keeper.committed(), &three("100000000"));
    assert!(keeper.last_seen().is_none());
}

#[test]
fn a_complete_list_takes_precedence_over_joining_servers() {
    let request = ReconfigRequest {
        joining: Some("server.x=1".into()),
        leaving: Some("x".into()),
        ..replacing(&THREE.replace('\n', ","))
    };
    let planned = leader("").plan(&request, &facts(&[1, 2])).unwrap();
    assert_eq!(planned, three("10000000b"));
    // Its version is the version of the transaction, regardless of the version in the text.
    let planned = leader("").plan(&replacing(&format!("{THREE}version=7")), &facts(&[1]));
    assert_eq!(planned.unwrap().version, ConfigVersion(0x1_0000_000b));
}

#[test]
fn refusals_come_in_the_order_of_apache_zookeeper() {
    let mut keeper = leader("");
    let code = |keeper: &MembershipKeeper, request: &ReconfigRequest, synced: &[i64]| {
        keeper.plan(request, &facts(synced)).err()
    };
    let wrong = ReconfigRequest {
        config_version: 5,
        ..leaving("x")
    };
    assert_eq!(code(&keeper, &wrong, &[]), Some(ErrorCode::BadVersion));
    let conditional = ReconfigRequest {
        config_version: 1 << 32,
        ..leaving("x")
    };
    let number = Some(ErrorCode::MarshallingError);
    assert_eq!(code(&keeper, &conditional, &[]), number);
    assert_eq!(
        code(&keeper, &leaving("1,2"), &[]),
        Some(ErrorCode::BadArguments)
    );
    assert_eq!(
        code(&keeper, &leaving("1"), &[]),
        Some(ErrorCode::NewConfigNoQuorum)
    );
    assert_eq!(code(&keeper, &leaving("1"), &[2]), None);

    keeper.see(three("100000005")).unwrap();
    assert_eq!(
        code(&keeper, &wrong, &[]),
        Some(ErrorCode::ReconfigInProgress)
    );
    keeper.install(three("100000005")).unwrap();
    assert_eq!(code(&keeper, &wrong, &[]), Some(ErrorCode::BadVersion));
}

#[test]
fn a_quorum_of_the_new_list_is_in_sync() {
    let keeper = leader("");
    let plan = |request: &ReconfigRequest, synced: &[i64]| {
        keeper.plan(request, &facts(synced)).map(|_| ())
    };
    let refused = Err(ErrorCode::NewConfigNoQuorum);
    let four = joining("server.4=a:1:2;3");
    assert_eq!(plan(&four, &[1, 2]), Ok(()));
    assert_eq!(plan(&four, &[1]), refused);
    // Synced followers that are not in the current list count if the new list makes them voters.
    assert_eq!(plan(&four, &[1, 4]), Ok(()));
    let more = joining("server.4=a:1:2;3,server.5=b:1:2;3,server.6=c:1:2;3");
    assert_eq!(plan(&more, &[1, 2]), refused);
    assert_eq!(plan(&more, &[1, 2, 5]), Ok(()));
    // Observers of the new list do not count. A leader that is not in the new list does not count
    // either.
    let observer = joining("server.1=127.0.0.1:101:201:observer;127.0.0.1:301");
    assert_eq!(plan(&observer, &[1]), refused);
    assert_eq!(plan(&leaving("3"), &[1]), refused);
    assert_eq!(plan(&leaving("3"), &[1, 2]), Ok(()));
}

#[test]
fn groups_decide_whether_a_new_list_has_a_quorum() {
    let keeper = leader("");
    let plan = |lines: &str, synced: &[i64]| {
        let request = replacing(&format!("{THREE}{lines}"));
        keeper.plan(&request, &facts(synced)).map(|_| ())
    };
    let refused = Err(ErrorCode::NewConfigNoQuorum);
    assert_eq!(plan("group.1=1:2:3\nweight.3=5", &[]), Ok(()));
    assert_eq!(plan("group.1=1:2:3", &[]), refused);
    let none = "group.1=1:2:3\nweight.1=0\nweight.2=0\nweight.3=0";
    assert_eq!(plan(none, &[1, 2]), refused);
    assert_eq!(plan("group.1=1:2\ngroup.2=3", &[1]), refused);
    assert_eq!(plan("group.1=1:2\ngroup.2=3", &[1, 2]), Ok(()));

    let mut grouped = leader("");
    let list = list(&format!("{THREE}group.1=1:2:3\nversion=100000002"));
    grouped.install(list).unwrap();
    let refused = grouped.plan(&leaving("77"), &facts(&[1, 2])).unwrap_err();
    assert_eq!(refused, ErrorCode::BadArguments);
    assert!(grouped.plan(&replacing(THREE), &facts(&[1, 2])).is_ok());
}

#[test]
fn standalone_enabled_permits_a_single_server() {
    for (lines, outcome) in [
        ("", Err(ErrorCode::BadArguments)),
        ("standaloneEnabled=false\n", Ok(vec![Sid(3)])),
    ] {
        let planned = leader(lines).plan(&leaving("1,2"), &facts(&[]));
        let sids = planned.map(|list| list.members.into_keys().collect::<Vec<_>>());
        assert_eq!(sids, outcome);
    }
}

#[test]
fn several_addresses_need_to_be_enabled() {
    let two = joining("server.4=a:1:2|b:1:2;3");
    let facts = facts(&[1, 2]);
    let refused = leader("").plan(&two, &facts);
    assert_eq!(refused, Err(ErrorCode::BadArguments));
    let planned = leader("multiAddress.enabled=true\n").plan(&two, &facts);
    assert_eq!(planned.unwrap().members[&Sid(4)].addresses.len(), 2);
}

#[test]
fn an_oracle_helps_up_to_two_voters() {
    let keeper = leader("");
    let with_oracle = PlanFacts {
        oracle_grants: true,
        ..facts(&[])
    };
    assert!(keeper.plan(&leaving("1"), &with_oracle).is_ok());
    let refused = keeper.plan(&leaving("77"), &with_oracle);
    assert_eq!(refused, Err(ErrorCode::NewConfigNoQuorum));
}

#[test]
fn a_list_fits_into_a_notification() {
    let keeper = leader("");
    let join = |sid: usize| format!("server.{sid}={}:1:2:observer;3", "h".repeat(200));
    let many: Vec<String> = (10..2_500).map(join).collect();
    let request = replacing(&format!("{THREE}{}", many.join("\n")));
    let refused = keeper.plan(&request, &facts(&[1, 2]));
    assert_eq!(refused, Err(ErrorCode::BadArguments));
    let request = replacing(&format!("{THREE}{}", many[..2_000].join("\n")));
    assert!(keeper.plan(&request, &facts(&[1, 2])).is_ok());
}
