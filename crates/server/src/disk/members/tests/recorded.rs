//! The files of three servers of Apache ZooKeeper 3.9.5, step by step: a start, three
//! reconfigurations, and one that was proposed but not committed.

use std::collections::BTreeSet;

use proto::request::ReconfigRequest;

use super::*;

const RECORDED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/vectors/storage/ensemble/config-files"
);

/// Each step that changed a list: the folder of its files, and the version.
const RECONFIGS: [(&str, &str); 3] = [
    ("2-after-remove-1", "10000000b"),
    ("3-after-add-observer", "10000000c"),
    ("4-after-add-participant", "10000000d"),
];

fn recorded(step: &str, sid: i64, name: &str) -> String {
    fs::read_to_string(format!("{RECORDED}/{step}/{sid}/{name}")).unwrap()
}

/// Returns the lines of a zoo.cfg, except the line with the path of the member list. They are not
/// ordered, because Java writes them in the order of a hash table.
fn settings(zoo_cfg: &str) -> BTreeSet<String> {
    let lines = zoo_cfg.lines().map(str::to_owned);
    lines
        .filter(|line| !line.starts_with("dynamicConfigFile="))
        .collect()
}

fn check_step(server: &Server, step: &str, version: &str) {
    let name = format!("zoo.cfg.dynamic.{version}");
    assert_eq!(server.read(&name), recorded(step, server.my_id, &name));
    let (ours, theirs) = (
        server.read("zoo.cfg"),
        recorded(step, server.my_id, "zoo.cfg"),
    );
    assert_eq!(settings(&ours), settings(&theirs));
    for text in [&ours, &theirs] {
        assert!(text.ends_with(&format!("/{name}\n")), "{text}");
    }
    assert!(!server.path("zoo.cfg.dynamic.next").exists());
}

fn requests() -> [ReconfigRequest; 3] {
    let incremental =
        |joining: Option<&'static str>, leaving: Option<&'static str>| ReconfigRequest {
            joining: joining.map(Into::into),
            leaving: leaving.map(Into::into),
            new_members: None,
            config_version: -1,
        };
    [
        incremental(None, Some("1")),
        incremental(
            Some("server.1=127.0.0.1:27101:27201:observer;127.0.0.1:27001"),
            None,
        ),
        incremental(Some("server.1=127.0.0.1:27101:27201;127.0.0.1:27001"), None),
    ]
}

#[test]
fn files_equal_apache_zookeepers_after_each_step() {
    if !Path::new(RECORDED).exists() {
        println!("skipped: there is no {RECORDED}");
        return;
    }
    let everybody = [1, 2, 3].map(Sid);
    for my_id in [1, 2, 3] {
        let server = Server::new(my_id, &recorded("0-before-start", my_id, "zoo.cfg"));
        let mut keeper = server.start();
        keeper.back_up().unwrap();
        keeper.epoch_config(Epoch(1)).unwrap();
        let first = keeper.last_seen().unwrap().clone();
        keeper.install(first).unwrap();
        check_step(&server, "1-after-start", "100000000");
        let backup = recorded("1-after-start", my_id, "zoo.cfg.bak");
        assert_eq!(server.read("zoo.cfg.bak"), backup);

        for ((step, version), request) in RECONFIGS.iter().zip(requests()) {
            let facts = PlanFacts {
                zxid: Zxid(i64::from_str_radix(version, 16).unwrap()),
                synced_followers: everybody.into(),
                oracle_grants: false,
            };
            let planned = keeper.plan(&request, &facts).unwrap();
            keeper.see(planned.clone()).unwrap();
            assert!(server.path("zoo.cfg.dynamic.next").exists());
            keeper.install(planned).unwrap();
            check_step(&server, step, version);
        }

        let pending = recorded("6-reconfig-pending", 2, "zoo.cfg.dynamic.next");
        keeper
            .see(keeper.parse(pending.as_bytes()).unwrap())
            .unwrap();
        assert_eq!(server.read("zoo.cfg.dynamic.next"), pending);
        assert_eq!(server.read("zoo.cfg.bak"), backup);
        assert_eq!(server.start().last_seen(), keeper.last_seen());
    }
}
