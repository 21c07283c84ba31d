//! Reconfigurations and the results of Apache ZooKeeper 3.9.5. The codes were measured with three
//! servers and `skipACL=yes`.

use proptest::prelude::*;
use proto::{ErrorCode, Sid};
use zoarium_config::membership::Membership;
use zoarium_config::reconfig::Rules;

const THREE: &str = "server.1=127.0.0.1:101:201:participant;127.0.0.1:301\n\
                     server.2=127.0.0.1:102:202:participant;127.0.0.1:302\n\
                     server.3=127.0.0.1:103:203:participant;127.0.0.1:303";

const FIRST: &str = "server.1=127.0.0.1:101:201:participant;127.0.0.1:301";

fn rules(standalone_enabled: bool) -> Rules {
    Rules {
        multi_address_enabled: false,
        standalone_enabled,
    }
}

fn list(text: &str) -> Membership {
    Membership::parse(text, false).unwrap()
}

fn replaced(text: &str, standalone_enabled: bool) -> Result<Membership, ErrorCode> {
    Membership::replacement(text, rules(standalone_enabled)).map_err(|fault| fault.code())
}

fn joined(current: &str, joining: &str) -> Result<Membership, ErrorCode> {
    let changed = list(current).changed(Some(joining), None, rules(true));
    changed.map_err(|fault| fault.code())
}

fn left(leaving: &str, standalone_enabled: bool) -> Result<Membership, ErrorCode> {
    let changed = list(THREE).changed(None, Some(leaving), rules(standalone_enabled));
    changed.map_err(|fault| fault.code())
}

fn sids(list: &Membership) -> Vec<i64> {
    list.members.keys().map(|sid| sid.0).collect()
}

#[test]
fn a_whole_list_replaces_the_one_before() {
    let with = |lines: &str| format!("{THREE}\n{lines}");
    for text in [
        THREE.to_owned(),
        THREE.replace('\n', ","),
        THREE.replace(";127.0.0.1:30", ";30"),
        // Only the addresses of servers that join individually are compared with others.
        with("server.8=10.0.0.1:1:2:observer;3\nserver.9=10.0.0.1:1:2:observer;3"),
        with("version=77"),
        with("group.1=1:2:3"),
        with("groupx.1=1:2:3"),
        with("group.1=1:2:3\nweight.44=4"),
        with("server.11=a b:1:2:observer;3"),
    ] {
        let replaced = replaced(&text, true);
        assert!(replaced.is_ok(), "{text}: {replaced:?}");
    }
    let without_clients = "server.1=a:1:2,server.2=b:1:2";
    assert!(replaced(without_clients, true).is_ok());
}

#[test]
fn a_whole_list_that_is_none_is_refused() {
    let with = |lines: &str| format!("{THREE}\n{lines}");
    for (text, code) in [
        (with("foo=1"), ErrorCode::BadArguments),
        ("server.1=a".to_owned(), ErrorCode::BadArguments),
        ("server.1=a:1:b".to_owned(), ErrorCode::BadArguments),
        (with("server.4=a:1:2|b:1:2;5"), ErrorCode::BadArguments),
        (with("group.1=1:2:3\ngroup.2=1"), ErrorCode::BadArguments),
        (with("group.1=1:2"), ErrorCode::BadArguments),
        (with("weight.1=2"), ErrorCode::BadArguments),
        (with("version=zz"), ErrorCode::MarshallingError),
        ("server.x=a:1:2".to_owned(), ErrorCode::MarshallingError),
        ("server.1=a:1:99999".to_owned(), ErrorCode::MarshallingError),
        ("server.1=\\uzzzz".to_owned(), ErrorCode::MarshallingError),
        (with("group.1=1:2:3:7"), ErrorCode::MarshallingError),
        (with("group.1=1:2:3\ngroup.2="), ErrorCode::MarshallingError),
        (with("group=1:2:3"), ErrorCode::MarshallingError),
    ] {
        assert_eq!(replaced(&text, true), Err(code), "{text}");
    }
}

#[test]
fn a_list_has_enough_participants() {
    let observer = "server.7=127.0.0.1:1:2:observer;3";
    let with_observer = format!("{FIRST},{observer}");
    for (text, standalone_enabled, outcome) in [
        ("", true, Err(ErrorCode::BadArguments)),
        ("", false, Err(ErrorCode::MarshallingError)),
        (observer, true, Err(ErrorCode::MarshallingError)),
        (observer, false, Err(ErrorCode::MarshallingError)),
        (FIRST, true, Err(ErrorCode::BadArguments)),
        (FIRST, false, Ok(vec![1])),
        (&*with_observer, true, Err(ErrorCode::MarshallingError)),
        (&*with_observer, false, Ok(vec![1, 7])),
    ] {
        let replaced = replaced(text, standalone_enabled);
        assert_eq!(replaced.map(|list| sids(&list)), outcome, "{text}");
    }
    for (leaving, standalone_enabled, outcome) in [
        ("1,2", true, Err(ErrorCode::BadArguments)),
        ("1,2", false, Ok(vec![3])),
        ("1,2,3", true, Err(ErrorCode::BadArguments)),
        ("1,2,3", false, Err(ErrorCode::BadArguments)),
    ] {
        let left = left(leaving, standalone_enabled);
        assert_eq!(left.map(|list| sids(&list)), outcome, "{leaving}");
    }
}

#[test]
fn servers_leave_by_their_ids() {
    assert_eq!(left("2", true).map(|list| sids(&list)), Ok(vec![1, 3]));
    for nobody in ["77", " 77 , ,", "", "-1"] {
        assert_eq!(left(nobody, true), Ok(list(THREE)), "{nobody:?}");
    }
    for bad in ["x", "1,x", "0x1", "1 2"] {
        assert_eq!(left(bad, true), Err(ErrorCode::MarshallingError), "{bad:?}");
    }
}

#[test]
fn servers_join_with_all_their_ports() {
    for (joining, sid) in [
        ("server.8=10.0.0.1:1:2:observer;3", 8),
        (" server.8 = 10.0.0.1:1:2:observer;3 , ", 8),
        ("whatever.8=10.0.0.1:1:2:observer;3", 8),
        ("8=10.0.0.1:1:2:observer;3", 8),
        ("a.b.8=10.0.0.1:1:2:observer;3", 8),
        ("server.+8=10.0.0.1:1:2:observer;3", 8),
        ("server.-8=10.0.0.1:1:2:observer;3", -8),
        ("server.8=10.0.0.1:1:2:observer;3;", 8),
        ("server.8=:1:2:observer;3", 8),
    ] {
        let joined = joined(THREE, joining).unwrap();
        assert!(joined.members.contains_key(&Sid(sid)), "{joining}");
        assert_eq!(joined.members.len(), 4);
    }
    for (joining, code) in [
        ("server.9", ErrorCode::BadArguments),
        ("server.9=a:1:2=b", ErrorCode::BadArguments),
        ("server.9=127.0.0.1:1:2", ErrorCode::BadArguments),
        ("server.9=127.0.0.1;3", ErrorCode::BadArguments),
        ("server.9=127.0.0.1:1:1;3", ErrorCode::BadArguments),
        ("server.9=127.0.0.1:1:2:boss;3", ErrorCode::BadArguments),
        ("server.9=[::1:1:2;3", ErrorCode::BadArguments),
        ("server.z=127.0.0.1:1:2;3", ErrorCode::MarshallingError),
        ("server.0x8=127.0.0.1:1:2;3", ErrorCode::MarshallingError),
        ("server.9=127.0.0.1:1:70000;3", ErrorCode::MarshallingError),
        ("server.9=127.0.0.1:1:2;70000", ErrorCode::MarshallingError),
    ] {
        assert_eq!(joined(THREE, joining), Err(code), "{joining}");
    }
}

#[test]
fn a_server_that_joins_again_is_replaced() {
    let observer = "server.3=127.0.0.1:103:203:observer;127.0.0.1:303";
    let joined = joined(THREE, observer).unwrap();
    assert_eq!(sids(&joined), [1, 2, 3]);
    assert_eq!(joined.observers().count(), 1);
}

#[test]
fn no_server_joins_at_a_used_address() {
    let with_8 = format!("{THREE}\nserver.8=10.0.0.1:1:2:observer;10.0.0.1:3");
    for joining in [
        "server.9=10.0.0.1:7:2:observer;4",
        "server.9=10.0.0.1:3:9:observer;4",
        "server.9=10.0.0.1:8:9:observer;10.0.0.1:1",
        "server.9=10.0.0.2:1:2;3,server.10=10.0.0.2:1:2;3",
    ] {
        let refused = Err(ErrorCode::BadArguments);
        assert_eq!(joined(&with_8, joining), refused, "{joining}");
    }
    for joining in [
        "server.9=10.0.0.1:4:5:observer;6",
        "server.8=10.0.0.1:1:2:observer;4",
        "server.9=127.0.0.1:101:201;301",
        "server.9=localhost:101:201;301,server.10=localhost:101:201;301",
        "server.9=[::1]:101:201;301,server.10=[::1]:101:201;301",
        // Server 8 leaves its address first.
        "server.8=10.0.0.3:1:2:observer;3,server.9=10.0.0.1:1:2:observer;3",
    ] {
        assert!(joined(&with_8, joining).is_ok(), "{joining}");
    }
    let moved = list(&with_8).changed(Some("server.9=10.0.0.1:1:2;3"), Some("8"), rules(true));
    assert_eq!(moved.map(|list| sids(&list)), Ok(vec![1, 2, 3, 9]));
}

#[test]
fn with_groups_the_whole_list_is_required() {
    let grouped = list(&format!("{THREE}\ngroup.1=1:2:3"));
    let refused = grouped.changed(None, Some("77"), rules(true)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::BadArguments);
}

#[test]
fn a_list_that_would_be_read_as_another_is_refused() {
    for host in ["a\\nserver.9=b", "a\\\\b", "a\\rb"] {
        let text = format!("{THREE}\nserver.4={host}:1:2:observer;3");
        let refused = Membership::replacement(&text, rules(true)).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::BadArguments, "{host}: {refused}");
    }
    let refused = joined(THREE, "server.4=a\nserver.9:1:2:observer;3");
    assert_eq!(refused, Err(ErrorCode::BadArguments));
}

#[test]
fn ten_thousand_servers_join_in_linear_time() {
    let join = |sid: u32| format!("server.{sid}=h{sid}:1:2:observer;h{sid}:3");
    let joining: Vec<String> = (10..10_010).map(join).collect();
    let joined = joined(THREE, &joining.join(",")).unwrap();
    assert_eq!(joined.members.len(), 10_003);
}

/// Generates pieces of lists in random order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("server."),
        Just("group.1"),
        Just("weight.1"),
        Just("version"),
        Just("10.0.0.1"),
        Just("[::1]"),
        Just("observer"),
        Just("participant"),
        Just(THREE),
        Just("\\n"),
        Just("\\u000a"),
        Just("\u{436}"),
        proptest::sample::select(vec![
            "1", "2", "9", "=", ":", ";", ",", "\n", "|", "\\", " ", "#", "-",
        ]),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn accepted_lists_round_trip(
        joining in pieces(),
        leaving in pieces(),
        new_members in pieces(),
        standalone_enabled: bool,
        multi_address_enabled: bool,
    ) {
        let rules = Rules { multi_address_enabled, standalone_enabled };
        let accepted = [
            Membership::replacement(&new_members, rules),
            Membership::replacement(&format!("{THREE}\nserver.4=h:1:2:observer\n{new_members}"), rules),
            list(THREE).changed(Some(&joining), Some(&leaving), rules),
            list(THREE).changed(Some(&format!("server.4={joining}:1:2;3")), None, rules),
        ];
        for accepted in accepted.into_iter().flatten() {
            let read = Membership::parse(&accepted.node_data(), multi_address_enabled);
            prop_assert!(read.as_ref().is_ok_and(|read| read.has_same_members(&accepted)), "{read:?}");
            let file = Membership::parse(&accepted.file_text(true), multi_address_enabled);
            prop_assert!(file.is_ok_and(|file| file.has_same_members(&accepted)));
        }
    }
}
