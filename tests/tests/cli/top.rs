//! `top`: the busiest clients of an ensemble.

use serde_json::{Value, json};
use tests::ensemble::EnsembleBuilder;
use tests::requests::{create, set_data};
use tests::secrets::{SUPER, SUPER_DIGEST};
use tests::{Flavour, RawSession, or_skip};

use super::run;
use proto::request::{Request, flags};

/// Property with the digest of the super user.
const SUPER_KEY: &str = "zookeeper.DigestAuthenticationProvider.superDigest";

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[test]
fn members_are_found_by_the_list_and_clients_by_their_admin_ports() {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("admin.enableServer", "true")
        .property(SUPER_KEY, SUPER_DIGEST)
        .dynamic();
    let Some(mut ensemble) = or_skip("top", builder.prepare()) else {
        return;
    };
    let admins = ensemble.add_admin_ports(false);
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    let address = ensemble.member(1).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    session.authenticate("digest", "ann:pw").expect("an answer");
    let created = session.call(&Request::Write(create("/busy", "x", flags::PERSISTENT)));
    created.expect("an answer");
    // The client writes during the whole observation.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stops = std::sync::Arc::clone(&stop);
    let writer = std::thread::spawn(move || {
        while !stops.load(std::sync::atomic::Ordering::Relaxed) {
            let set = Request::Write(set_data("/busy", "y", -1));
            session.call(&set).expect("an answer");
        }
    });
    let ports: Vec<String> = admins
        .iter()
        .map(|port| format!("127.0.0.1:{}", port.number()))
        .collect();
    let look = format!(
        "-server {address} --output json top -n 2 -d 0.3 -by identity -auth digest:{SUPER} -a {}",
        ports.join(",")
    );
    let output = run(&words(&look), None);
    let printed = String::from_utf8(output.stdout).expect("text");
    let looks: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(
        (output.status.code(), looks.len()),
        (Some(0), 2),
        "{printed}"
    );
    let members = looks[1]["members"].as_object().expect("members");
    let mut modes: Vec<&Value> = members.values().map(|member| &member["Mode"]).collect();
    modes.sort_by_key(|mode| mode.to_string());
    assert_eq!(
        modes,
        [&json!("follower"), &json!("follower"), &json!("leader")]
    );
    assert!(members.contains_key(&address), "{members:?}");
    let first = &looks[1]["clients"][0];
    assert_eq!(
        (&first["identity"], &first["connections"]),
        (&json!("digest:ann"), &json!(1))
    );
    assert!(first["writes_per_second"].as_f64() > Some(0.0), "{first}");

    shows_people_and_refuses_nonsense(&address, &ports[0]);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().expect("the writer ends");
}

fn shows_people_and_refuses_nonsense(address: &str, admin: &str) {
    // Output for people, with an admin port without a listener.
    let text = format!("-server {address} top -n 1 -d 0.3 -a {admin},127.0.0.1:1");
    let output = run(&words(&text), None);
    let shown = String::from_utf8(output.stdout).expect("text");
    for wanted in ["MEMBER", "leader", "ADDRESS", "127.0.0.1:1: "] {
        assert!(shown.contains(wanted), "no {wanted}: {shown}");
    }
    for wrong in ["top -d 0", "top -n x", "top -by name"] {
        let output = run(&words(&format!("-server {address} {wrong}")), None);
        assert_eq!(output.status.code(), Some(1), "{wrong}");
    }
}
