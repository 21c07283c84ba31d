//! Tests of the files on disk, and of the remaining zoo.cfg.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_member_list_moves_from_zoo_cfg_to_a_dynamic_file() {
    let server = Server::new(
        1,
        &format!(
            "# ours\n{BASE}reconfigEnabled=true\npeerType=participant\nclientPort=301\n{THREE}"
        ),
    );
    let before = server.read("zoo.cfg");
    let mut keeper = server.start();
    keeper.back_up().unwrap();
    assert_eq!(server.read("zoo.cfg.bak"), before);

    keeper.epoch_config(Epoch(1)).unwrap();
    assert_eq!(server.others(), ["bak", "dynamic.next"]);
    let next = format!("{THREE}version=100000000");
    assert_eq!(server.read("zoo.cfg.dynamic.next"), next);
    assert_eq!(server.read("zoo.cfg"), before);

    keeper.install(three("100000000")).unwrap();
    assert_eq!(server.others(), ["bak", "dynamic.100000000"]);
    assert_eq!(server.read("zoo.cfg.dynamic.100000000"), THREE.trim_end());
    let dynamic = fs::canonicalize(server.path("zoo.cfg.dynamic.100000000")).unwrap();
    let rest = format!("# ours\n{BASE}reconfigEnabled=true\n");
    let after = format!("{rest}dynamicConfigFile={}\n", dynamic.display());
    assert_eq!(server.read("zoo.cfg"), after);
    assert_eq!(server.read("zoo.cfg.bak"), before);
}

#[test]
fn a_server_starts_with_the_files_it_wrote() {
    let server = Server::of_three(1, "");
    let mut keeper = server.start();
    keeper.back_up().unwrap();
    keeper.install(three("100000000")).unwrap();
    let four = list(&format!(
        "{THREE}server.4=h\u{e9}te:1:2;3\nversion=10000000f"
    ));
    keeper.see(four.clone()).unwrap();

    let mut keeper = server.start();
    assert_eq!(keeper.committed(), &three("100000000"));
    assert_eq!(keeper.last_seen(), Some(&four));
    // The backup is still the file that contained the members.
    fs::write(server.path("zoo.cfg.bak"), "mine").unwrap();
    keeper.back_up().unwrap();
    assert_eq!(server.read("zoo.cfg.bak"), "mine");

    keeper.install(four.clone()).unwrap();
    let keeper = server.start();
    assert_eq!((keeper.committed(), keeper.last_seen()), (&four, None));
    let names = ["bak", "dynamic.100000000", "dynamic.10000000f"];
    assert_eq!(server.others(), names);
    let zoo_cfg = server.read("zoo.cfg");
    assert_eq!(zoo_cfg.matches("dynamicConfigFile").count(), 1);
}

#[test]
fn an_abandoned_proposal_leaves_no_file() {
    let server = Server::of_three(1, "");
    let mut keeper = server.start();
    keeper.install(three("100000000")).unwrap();
    keeper.see(three("100000007")).unwrap();
    assert!(server.others().contains(&"dynamic.next".to_owned()));
    keeper.see(three("100000000")).unwrap();
    assert_eq!(server.others(), ["dynamic.100000000"]);
}

#[test]
fn a_newer_list_removes_an_old_proposal() {
    let server = Server::of_three(1, "");
    server.start().install(three("100000000")).unwrap();
    // The server has crashed after it installed this list and before it removed the proposal.
    let text = three("100000000").file_text(true);
    fs::write(server.path("zoo.cfg.dynamic.next"), text).unwrap();
    let mut keeper = server.start();
    assert!(keeper.last_seen().is_none());
    keeper.install(three("100000003")).unwrap();
    assert!(!server.others().contains(&"dynamic.next".to_owned()));
}

#[test]
fn an_edit_since_the_start_is_kept() {
    let server = Server::of_three(1, "");
    let mut keeper = server.start();
    let edited = server
        .read("zoo.cfg")
        .replace("initLimit=10", "initLimit=20");
    fs::write(server.path("zoo.cfg"), edited).unwrap();
    keeper.install(three("100000000")).unwrap();
    assert!(server.read("zoo.cfg").contains("initLimit=20"));
}

#[test]
fn a_client_port_outside_the_list_stays_in_zoo_cfg() {
    let without: String = THREE
        .lines()
        .map(|line| line.split(';').next().unwrap().to_owned() + "\n")
        .collect();
    let server = Server::new(
        1,
        &format!("{BASE}reconfigEnabled=true\nclientPort=301\n{without}"),
    );
    let mut keeper = server.start();
    let change = keeper
        .install(list(&format!("{without}version=1")))
        .unwrap();
    assert!(!change.members_differ);
    assert!(server.read("zoo.cfg").contains("clientPort=301\n"));
    assert_eq!(
        server.start().client_address().cloned(),
        Some(HostPort::new("0.0.0.0", 301))
    );
}

#[test]
fn passwords_in_zoo_cfg_stay_private() {
    let server = Server::of_three(1, "ssl.keyStore.password=secret\n");
    let zoo_cfg = server.path("zoo.cfg");
    fs::set_permissions(&zoo_cfg, fs::Permissions::from_mode(0o600)).unwrap();
    let mut keeper = server.start();
    keeper.back_up().unwrap();
    keeper.install(three("100000000")).unwrap();
    assert_eq!(mode(&zoo_cfg), 0o600);
    assert_eq!(mode(&server.path("zoo.cfg.bak")), 0o600);
    assert_eq!(mode(&server.path("zoo.cfg.dynamic.100000000")), 0o640);
    assert!(server.read("zoo.cfg").contains("secret"));
}

#[test]
fn the_target_of_a_symlink_is_unchanged() {
    let server = Server::of_three(1, "");
    let shared = server.path("shared");
    fs::rename(server.path("zoo.cfg"), &shared).unwrap();
    symlink(&shared, server.path("zoo.cfg")).unwrap();
    let before = fs::read_to_string(&shared).unwrap();
    server.start().install(three("100000000")).unwrap();
    assert_eq!(fs::read_to_string(&shared).unwrap(), before);
    assert!(server.read("zoo.cfg").contains("dynamicConfigFile="));
}

#[test]
fn old_temporary_files_are_replaced() {
    let server = Server::of_three(1, "");
    let precious = server.path("precious");
    fs::write(&precious, "mine").unwrap();
    symlink(&precious, server.path("zoo.cfg.dynamic.next.tmp")).unwrap();
    fs::write(server.path("zoo.cfg.tmp"), "half a fi").unwrap();
    let mut keeper = server.start();
    keeper.see(three("100000000")).unwrap();
    keeper.install(three("100000000")).unwrap();
    assert_eq!(server.others(), ["dynamic.100000000"]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
}

/// A directory has the name of the file, so not even root can replace it.
#[test]
fn an_unwritable_list_is_used_from_memory() {
    let server = Server::of_three(1, "");
    let zoo_cfg = server.read("zoo.cfg");
    let in_the_way = |name: &str| fs::create_dir_all(server.path(name).join("x")).unwrap();
    in_the_way("zoo.cfg.bak");
    in_the_way("zoo.cfg.dynamic.next");
    in_the_way("zoo.cfg.dynamic.100000000");
    let mut keeper = server.start();
    let error = keeper.back_up().unwrap_err().to_string();
    assert!(
        error.starts_with("cannot write ") && error.contains("zoo.cfg.bak"),
        "{error}"
    );

    let error = keeper.see(three("100000000")).unwrap_err().to_string();
    assert!(error.contains("zoo.cfg.dynamic.next"), "{error}");
    assert_eq!(keeper.last_seen(), Some(&three("100000000")));
    keeper.install(three("100000000")).unwrap();
    assert_eq!(keeper.committed(), &three("100000000"));
    assert_eq!(server.read("zoo.cfg"), zoo_cfg);
    let temporary = |name: &String| name.ends_with(".tmp");
    assert!(!server.others().iter().any(temporary));
}

#[test]
fn a_missing_zoo_cfg_is_not_recreated() {
    let server = Server::of_three(1, "");
    let mut keeper = server.start();
    fs::remove_file(server.path("zoo.cfg")).unwrap();
    keeper.install(three("100000000")).unwrap();
    assert_eq!(keeper.committed(), &three("100000000"));
    assert!(!server.path("zoo.cfg").exists());
}
