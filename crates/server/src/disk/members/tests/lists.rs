//! Tests of committed lists, lists last seen, and changes for this server.

use super::*;

#[test]
fn a_list_that_was_seen_stays_until_it_is_installed() {
    let mut keeper = keeper(1, "");
    assert_eq!(
        (keeper.me(), keeper.role()),
        (Sid(1), MemberRole::Participant)
    );
    assert!(keeper.last_seen().is_none());
    keeper.see(three("100000000")).unwrap();
    assert_eq!(keeper.last_seen(), Some(&three("100000000")));
    assert_eq!(keeper.committed(), &three("0"));

    let change = keeper.install(three("100000000")).unwrap();
    assert!(!change.members_differ && !change.loses_leader(Sid(9)));
    assert_eq!(keeper.committed(), &three("100000000"));
    assert!(keeper.last_seen().is_none());
    assert!(keeper.install(three("100000000")).is_none());
    assert!(keeper.install(three("5")).is_none());
}

#[test]
fn a_newer_list_outlives_an_older_one_that_is_installed() {
    let mut keeper = keeper(1, "");
    keeper.see(three("200000000")).unwrap();
    keeper.install(three("100000000")).unwrap();
    assert_eq!(keeper.last_seen(), Some(&three("200000000")));
}

#[test]
fn a_reconfiguration_unknown_to_the_new_leader_is_abandoned() {
    let mut keeper = keeper(1, "");
    keeper.install(three("100000000")).unwrap();
    keeper.see(three("100000007")).unwrap();
    keeper.see(three("100000005")).unwrap();
    assert_eq!(keeper.last_seen(), Some(&three("100000005")));
    keeper.see(three("100000000")).unwrap();
    assert!(keeper.last_seen().is_none());
}

#[test]
fn without_reconfig_lists_of_others_are_ignored() {
    let server = Server::new(1, &format!("{BASE}{THREE}"));
    let mut keeper = server.start();
    keeper.back_up().unwrap();
    keeper.see(three("100000000")).unwrap();
    assert!(keeper.install(three("100000000")).is_none());
    let epoch = keeper.epoch_config(Epoch(1)).unwrap();
    assert_eq!(
        (epoch.text, epoch.version),
        (three("0").node_data().into(), 0)
    );
    assert!(keeper.last_seen().is_none());
    assert!(server.others().is_empty());
}

#[test]
fn a_standalone_server_has_no_lists() {
    let server = Server::new(1, "dataDir=data\nclientPort=2181\n");
    assert!(MembershipKeeper::new(&server.config()).is_none());
}

#[test]
fn a_role_changes_with_the_list() {
    let mut keeper = keeper(3, "");
    let observer = THREE.replace("203:participant", "203:observer");
    let change = keeper
        .install(list(&format!("{observer}version=1")))
        .unwrap();
    assert_eq!(change.role, Some(MemberRole::Observer));
    assert_eq!(keeper.role(), MemberRole::Observer);
    assert!(change.members_differ && !change.quorum_addresses_differ);

    // A removed server follows without a vote.
    let others: String = THREE
        .lines()
        .take(2)
        .map(|line| format!("{line}\n"))
        .collect();
    let change = keeper.install(list(&format!("{others}version=2"))).unwrap();
    assert_eq!(change.role, Some(MemberRole::Participant));
    assert_eq!(
        (change.client, change.quorum_addresses_differ),
        (None, false)
    );
    assert!(!keeper.committed().quorum().is_voter(keeper.me()));

    let change = keeper.install(three("3")).unwrap();
    assert_eq!((change.role, change.client), (None, None));
}

#[test]
fn own_addresses_move_with_the_list() {
    let mut keeper = keeper(1, "");
    let moved = |from: &str, to: &str, version: &str| {
        list(&format!("{}version={version}", THREE.replace(from, to)))
    };
    let change = keeper.install(moved(":101:", ":111:", "1")).unwrap();
    assert!(change.quorum_addresses_differ && !change.election_addresses_differ);
    let change = keeper
        .install(moved(":101:201:", ":111:211:", "2"))
        .unwrap();
    assert!(!change.quorum_addresses_differ && change.election_addresses_differ);
    assert_eq!(change.client, None);
    let change = keeper.install(moved(":301", ":311", "3")).unwrap();
    assert_eq!(change.client, Some(HostPort::new("127.0.0.1", 311)));
    // A list without client addresses does not change them.
    let change = keeper.install(moved(";127.0.0.1:301", "", "4")).unwrap();
    assert_eq!((change.client, change.members_differ), (None, true));
    let change = keeper.install(moved(":301", ":311", "5")).unwrap();
    assert_eq!(change.client, None);
}

#[test]
fn a_leader_without_a_vote_or_at_another_address_is_lost() {
    let loses = |text: &str, leader| {
        let change = keeper(1, "")
            .install(list(&format!("{text}version=1")))
            .unwrap();
        change.loses_leader(Sid(leader))
    };
    let without_3: String = THREE
        .lines()
        .take(2)
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(loses(&without_3, 3) && !loses(&without_3, 2));
    assert!(loses(&THREE.replace("203:participant", "203:observer"), 3));
    assert!(loses(&THREE.replace(":103:", ":113:"), 3));
    assert!(!loses(&THREE.replace(":203:", ":213:"), 3));
    assert!(loses(&format!("{THREE}server.4=a:1:2;3\n"), 4));
}

#[test]
fn a_list_without_a_version_takes_the_epoch_as_version() {
    let server = Server::of_three(1, "");
    let mut keeper = server.start();
    let epoch = keeper.epoch_config(Epoch(1)).unwrap();
    assert_eq!(epoch.version, 1 << 32);
    assert_eq!(epoch.text, three("100000000").node_data());
    assert_eq!(keeper.last_seen(), Some(&three("100000000")));
    assert_eq!(server.others(), ["dynamic.next"]);
    // The list was proposed once, and remains proposed in a later epoch.
    assert_eq!(keeper.epoch_config(Epoch(2)).unwrap().version, 1 << 32);

    keeper.install(three("100000000")).unwrap();
    let epoch = keeper.epoch_config(Epoch(3)).unwrap();
    assert_eq!(epoch.text, three("100000000").node_data());
    keeper.see(three("100000008")).unwrap();
    assert_eq!(
        keeper.epoch_config(Epoch(3)).unwrap().version,
        0x1_0000_0008
    );
}

#[test]
fn a_leader_stays_where_it_votes_at_the_same_address() {
    let keeper = keeper(3, "");
    let stays = |text: &str| keeper.next_config(&list(text)).leader_stays;
    assert!(stays(THREE));
    assert!(stays(
        &THREE.replace(":203:", ":213:").replace(":303", ":313")
    ));
    assert!(!stays(&THREE.replace(":103:", ":113:")));
    assert!(!stays(&THREE.replace("203:participant", "203:observer")));
    assert!(!stays("server.1=a:1:2\nserver.2=b:1:2"));

    let next = keeper.next_config(&three("7"));
    assert_eq!(next.text, three("7").node_data());
    assert_eq!(next.quorum.voters().len(), 3);
}

#[test]
fn lists_of_other_servers_are_parsed() {
    let keeper = keeper(1, "");
    let text = three("10000000b").node_data();
    assert_eq!(keeper.parse(text.as_bytes()), Ok(three("10000000b")));
    let grouped = keeper
        .parse(format!("{THREE}group.1=1:2:3").as_bytes())
        .unwrap();
    assert!(grouped.quorum().is_quorum(&|sid| sid != Sid(2)));
    let wrong: [&[u8]; 6] = [
        b"",
        b"version=1",
        b"server.1=a:1:2:observer",
        b"server.1=a:1:2\nclientPort=1",
        b"server.1=a:1:2\nversion=-1",
        b"server.1=\xff",
    ];
    for text in wrong {
        assert!(keeper.parse(text).is_err(), "{}", text.escape_ascii());
    }
}
