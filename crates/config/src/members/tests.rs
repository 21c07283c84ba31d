use proptest::prelude::*;

use super::*;

fn parse(value: &str) -> Result<Member, MemberError> {
    Member::parse(Sid(7), value, false)
}

fn canonical(value: &str) -> String {
    Member::parse(Sid(7), value, true).unwrap().to_string()
}

fn refusal(value: &str) -> String {
    parse(value).unwrap_err().to_string()
}

#[test]
fn a_complete_member_line_is_parsed() {
    let member = parse("zoo1:2888:3888:observer;10.0.0.1:2181").unwrap();
    let address = MemberAddress {
        host: "zoo1".to_owned(),
        quorum_port: 2888,
        election_port: 3888,
    };
    assert_eq!(member.addresses, [address]);
    assert_eq!(member.role, MemberRole::Observer);
    assert_eq!(
        member.client,
        Some(HostPort {
            host: "10.0.0.1".to_owned(),
            port: 2181
        })
    );
}

#[test]
fn role_and_client_part_have_defaults() {
    assert_eq!(canonical("zoo1:2888:3888"), "zoo1:2888:3888:participant");
    assert_eq!(
        canonical("zoo1:2888:3888;2181"),
        "zoo1:2888:3888:participant;0.0.0.0:2181"
    );
    assert_eq!(
        canonical("zoo1:2888:3888:OBSERVER "),
        "zoo1:2888:3888:observer"
    );
    assert_eq!(canonical("zoo1:2888:3888;"), "zoo1:2888:3888:participant");
    assert_eq!(
        canonical(":1:2;:3"),
        "localhost:1:2:participant;localhost:3"
    );
}

#[test]
fn c24_ipv6_stands_in_brackets_in_member_and_client_parts() {
    assert_eq!(
        canonical("[::1]:2888:3888:participant;[fe80::1]:2181"),
        "[0:0:0:0:0:0:0:1]:2888:3888:participant;[fe80:0:0:0:0:0:0:1]:2181"
    );
    assert_eq!(canonical("[::ffff:1.2.3.4]:1:2"), "1.2.3.4:1:2:participant");
    assert_eq!(
        refusal("[::1:2888:3888"),
        "[::1:2888:3888 starts with '[' but has no matching ']:'"
    );
    assert_eq!(refusal("[::1]:"), "[::1]: doesn't have a port after colon");
}

#[test]
fn a_canonical_line_parses_to_the_same_member() {
    for value in [
        "a:1:2",
        "a:1:2:observer;3",
        "[::1]:1:2;[::]:3",
        "b:1:2|a:3:4;5",
    ] {
        let member = Member::parse(Sid(7), value, true).unwrap();
        let again = Member::parse(Sid(7), &member.to_string(), true).unwrap();
        assert_eq!(again.to_string(), member.to_string());
    }
}

#[test]
fn c26_several_addresses_need_to_be_enabled() {
    let value = "b:2888:3888|a:2889:3889:observer";
    assert_eq!(
        refusal(value),
        "Multiple address feature is disabled, but multiple addresses were specified for sid 7"
    );
    assert_eq!(canonical(value), "a:2889:3889|b:2888:3888:observer");
}

#[test]
fn addresses_of_one_server_have_one_role() {
    let error = Member::parse(Sid(7), "a:1:2:participant|b:1:2:observer", true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Multiple addresses should have similar roles: PARTICIPANT vs OBSERVER"
    );
}

#[test]
fn an_invalid_value_is_refused_with_javas_text() {
    let form = "does not have the form server_config or server_config;client_config where \
                server_config is the pipe separated list of host:port:port or \
                host:port:port:type and client_config is port or host:port";
    for value in [
        "zoo1",
        "zoo1:2888",
        "a:1:2:observer:x",
        "a:1:2;b:3:4",
        "a:1:2;3;4",
        "",
        ";1",
    ] {
        assert_eq!(refusal(value), format!("{value} {form}"));
    }
    assert_eq!(refusal(";"), format!("; {form}"));
}

#[test]
fn an_invalid_port_is_an_unresolved_address() {
    assert_eq!(refusal("zoo1:abc:3888"), "Address unresolved: zoo1:abc");
    assert!(refusal("zoo1:2888:").starts_with("zoo1:2888: does not have the form"));
    assert_eq!(refusal("zoo1:2888:3888;x"), "Address unresolved: 0.0.0.0:x");
    assert_eq!(
        refusal("zoo1:99999999999:3888"),
        "Address unresolved: zoo1:99999999999"
    );
    assert_eq!(refusal("zoo1:70000:3888"), "port out of range:70000");
    assert_eq!(
        refusal("zoo1:2888:3888:leader"),
        "Unrecognised peertype: leader"
    );
}

#[test]
fn c25_quorum_and_election_port_must_differ() {
    assert_eq!(
        refusal("zoo1:2888:2888"),
        "Client and election port must be different! Please update the configuration file on \
         server.7"
    );
}

proptest! {
    #[test]
    fn no_text_panics(value in "[a:;|\\[\\]0-9 .]{0,40}|\\PC{0,20}") {
        let _ = Member::parse(Sid(1), &value, true);
    }
}
