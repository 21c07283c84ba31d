//! Settings `zoarium.admin.N`.

use proto::Sid;
use zoarium_config::members::HostPort;

use crate::support::{Machine, ZOO_CFG, warnings};

#[test]
fn admin_ports_are_read_by_the_ids_of_their_members() {
    let lines = "zoarium.admin.2=zk2.example:9090\nzoarium.admin.3=[::1]:8080\n";
    let config = Machine::member(lines).config();
    let ports: Vec<(Sid, HostPort)> = config.admin.member_ports.clone().into_iter().collect();
    let expected = [
        (Sid(2), HostPort::new("zk2.example", 9090)),
        (Sid(3), HostPort::new("::1", 8080)),
    ];
    assert_eq!(ports, expected);
    assert!(
        warnings(&config)
            .iter()
            .all(|text| !text.contains("zoarium.admin"))
    );
    assert!(Machine::alone("").config().admin.member_ports.is_empty());
}

#[test]
fn an_invalid_value_is_refused_with_its_line_and_a_hint() {
    for (line, reason) in [
        ("zoarium.admin.x=a:1", "`x` is not the id of a member"),
        ("zoarium.admin.+1=a:1", "`+1` is not the id of a member"),
        ("zoarium.admin.=a:1", "`` is not the id of a member"),
        ("zoarium.admin.2=a", "`a` is not host:port"),
        ("zoarium.admin.2=:8080", "`:8080` is not host:port"),
        ("zoarium.admin.2=a:0", "`a:0` is not host:port"),
        ("zoarium.admin.2=a:65536", "`a:65536` is not host:port"),
        ("zoarium.admin.2=a:1:2", "`a:1:2` is not host:port"),
        (
            "zoarium.admin.2=http://a:1",
            "`http://a:1` is not host:port",
        ),
        ("zoarium.admin.2=a/b:1", "`a/b:1` is not host:port"),
    ] {
        let error = Machine::alone(line).refusal();
        assert_eq!(
            error.exit_code,
            zoarium_config::exit_code::INVALID_INVOCATION
        );
        let key = line.split('=').next().unwrap();
        let text = error.to_string();
        let beginning = format!("{ZOO_CFG}:3: {key}: {reason}");
        assert!(text.starts_with(&beginning), "{text}");
        assert!(
            error.hint.is_some_and(|hint| hint.contains("host")),
            "{text}"
        );
    }
}
