//! Example configurations of the project, and configurations recorded from Apache ZooKeeper.

use std::fs;
use std::path::{Path, PathBuf};

use zoarium_config::membership::Membership;
use zoarium_config::{Config, FourLetterWords, RawConfig, version_of_file_name};

use crate::support::{Machine, warnings};
use proto::ConfigVersion;

fn workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Loads an unchanged example on a machine with its data directory and `myid`. The server must
/// start, and every setting must have an effect.
fn example(path: &str, my_id: Option<&str>) -> Config {
    let text = fs::read_to_string(workspace(path)).unwrap();
    let raw = RawConfig::parse(Path::new(path), text.as_bytes()).unwrap();
    let machine = Machine::with(&text).host("localhost", "127.0.0.1");
    let machine = match my_id {
        Some(my_id) => machine.file(&format!("{}/myid", raw.get("dataDir").unwrap()), my_id),
        None => machine,
    };
    let config = machine.config();
    let told = warnings(&config);
    assert!(told.is_empty(), "{path}: {told:#?}");
    config.check_supported().unwrap();
    config
}

#[test]
fn the_sample_is_a_standalone_server() {
    let config = example("conf/zoo_sample.cfg", None);
    assert!(config.ensemble.is_none());
    assert_eq!(config.client.plain.unwrap().port, 2181);
}

#[test]
fn the_ensembles_agree_on_their_members_and_differ_in_their_ports() {
    for (name, members, observers) in [
        ("three-servers", 3, 0),
        ("five-servers-two-observers", 5, 2),
    ] {
        let mut lists: Vec<Membership> = Vec::new();
        let mut ports = Vec::new();
        for number in 1..=members {
            let directory = format!("conf/{name}/{number}");
            let my_id = fs::read_to_string(workspace(&format!("{directory}/myid"))).unwrap();
            let config = example(&format!("{directory}/zoo.cfg"), Some(&my_id));
            let ensemble = config.ensemble.unwrap();
            assert_eq!(ensemble.my_id.0, number);
            ports.push(config.client.plain.unwrap().port);
            ports.push(config.admin.port);
            lists.push(ensemble.membership);
        }
        assert!(lists.iter().all(|list| *list == lists[0]), "{name}");
        assert_eq!(lists[0].members.len(), usize::try_from(members).unwrap());
        assert_eq!(lists[0].observers().count(), observers);
        let distinct: std::collections::BTreeSet<_> = ports.iter().collect();
        assert_eq!(distinct.len(), ports.len(), "{name}: {ports:?}");
    }
}

#[test]
fn the_conformance_template_states_the_expectations_of_its_suite() {
    let Some(path) = testkit::recordings::find("conformance/zoo.cfg.template") else {
        return;
    };
    let text = fs::read_to_string(path).unwrap();
    let text = text
        .replace("@PORT@", "21810")
        .replace("@DATADIR@", "/data");
    let config = Machine::with(&text).config();
    let client = config.client.plain.as_ref().unwrap();
    assert_eq!(client.to_string(), "127.0.0.1:21810");
    assert_eq!(config.tick_time_ms, 200);
    let sessions = &config.sessions;
    assert_eq!(
        (sessions.min_timeout_ms, sessions.max_timeout_ms),
        (400, 4000)
    );
    assert_eq!(config.limits.max_client_cnxns, None);
    assert_eq!(config.purge.interval_hours, None);
    assert!(!config.admin.is_enabled);
    assert_eq!(config.four_letter_words, FourLetterWords::All);
    let features = &config.features;
    assert!(features.reconfig_enabled && features.extended_types_enabled && features.enforce_quota);
    assert_eq!(config.storage.snap_count, 100_000);
    let super_digest = config.auth.super_digest.as_ref().unwrap();
    assert_eq!(super_digest.expose(), "super:V1o6/gHR24bI2f+NOZanWPgr+eg=");
    assert_eq!(config.containers.check_interval_ms, 500);
    assert!(config.ensemble.is_none());
    let told = warnings(&config);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].contains("znode.container.checkIntervalMs"),
        "{told:#?}"
    );
}

#[test]
fn recorded_dynamic_files_are_written_back_to_the_byte() {
    let Some(root) = testkit::recordings::find("vectors/storage/ensemble/config-files") else {
        return;
    };
    let (mut checked, mut directories) = (0, vec![root]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                directories.push(path);
            } else if name.starts_with("zoo.cfg.dynamic.") {
                check_dynamic_file(&path, name.ends_with(".next"));
                checked += 1;
            }
        }
    }
    assert!(checked >= 3, "{checked}");
}

fn check_dynamic_file(path: &Path, has_version_inside: bool) {
    let text = fs::read_to_string(path).unwrap();
    let mut list = Membership::parse(&text, false).unwrap();
    assert_eq!(
        list.file_text(has_version_inside),
        text,
        "{}",
        path.display()
    );
    if has_version_inside {
        assert!(list.version > ConfigVersion(1 << 32));
    } else {
        list.version = version_of_file_name(path);
        assert!(list.version >= ConfigVersion(1 << 32), "{}", path.display());
        assert!(
            list.node_data()
                .ends_with(&format!("\nversion={}", list.version))
        );
    }
}
