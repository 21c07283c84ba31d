//! Tests that every directory of a single server loads to its recorded state.

use crate::compare::{compare, compare_tree};
use crate::support::{Directory, copy_into, number, vector};

/// Recovers a directory and compares it, then again from the snapshot that a server writes there.
fn check(at: &str, directory: &Directory, state: &serde_json::Value, digests_match: bool) {
    let found = directory
        .recover()
        .unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_eq!(found.digest_mismatches == 0, digests_match, "{at}");
    compare(at, &found.tree, state);
    let started = directory
        .serve()
        .unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_eq!(started.zxid.0, number(&state["last_zxid"]), "{at}");
    let again = directory.recover().unwrap();
    assert_eq!(again.recovered.txns_replayed, 0, "{at}");
    assert_eq!(again.digest_mismatches, 0, "{at}");
    compare_tree(&format!("{at}, second start"), &again.tree, state);
}

fn check_vector(name: &str, sub: &str) {
    if let Some(vector) = vector(name) {
        let directory = vector.copy(sub);
        check(name, &directory, &vector.expected["state"], true);
    }
}

#[test]
fn a_new_database() {
    check_vector("fresh-standalone", "data");
}

#[test]
fn every_transaction_of_a_standalone_server() {
    check_vector("txns-all", "data");
}

#[test]
fn several_logs_and_snapshots() {
    check_vector("log-and-snapshot", "data");
    check_vector("rolled", "data");
    check_vector("rolled-by-size", "data");
}

#[test]
fn a_fuzzy_snapshot_and_the_log_over_it() {
    check_vector("fuzzy", "data");
}

#[test]
fn compressed_snapshots() {
    check_vector("snap-gz", "data");
    check_vector("snap-snappy", "data");
}

#[test]
fn snapshots_with_any_sections() {
    check_vector("snap-sections", "both");
    check_vector("snap-sections", "restarted");
    for name in ["snap-no-digest", "snap-no-lastzxid", "snap-neither"] {
        check_vector(name, "data");
    }
}

#[test]
fn sessions_closed_without_a_list_of_their_ephemerals() {
    check_vector("close-session-no-body", "data");
    check_vector("close-session-no-body-no-digest", "data");
}

#[test]
fn ttl_znodes_and_containers() {
    check_vector("ttl-types-off", "data");
}

#[test]
fn undamaged_directories_of_the_damage_recordings() {
    check_vector("log-damaged", "single");
    check_vector("snap-damaged", "with-older");
    check_vector("snap-damaged", "gz");
    check_vector("snap-damaged", "snappy");
}

#[test]
fn a_log_alone_needs_to_be_trusted() {
    let Some(vector) = vector("log-only") else {
        return;
    };
    let directory = vector.copy("data");
    let error = directory.serve().unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(
        error.to_string().contains("snapshot.trust.empty"),
        "{error}"
    );
    assert_eq!(directory.files(), ["log.1"]);
    let trusting = directory.with("extendedTypesEnabled=true\nsnapshot.trust.empty=true\n");
    let recorded = &vector.expected["with_trust_empty"];
    let found = trusting.recover().unwrap();
    assert_eq!(found.tree.last_zxid().0, number(&recorded["last_zxid"]));
    assert_eq!(
        found.tree.digest().cast_signed(),
        number(&recorded["digest"])
    );
    assert_eq!(found.digest_mismatches, 0);
    // Another vector contains the same log with its empty snapshot.
    if let Some(whole) = self::vector("txns-all") {
        compare("log-only", &found.tree, &whole.expected["state"]);
    }
    // From now on there is a snapshot.
    trusting.serve().unwrap();
    let directory = trusting.with("extendedTypesEnabled=true\n");
    assert_eq!(
        directory.serve().unwrap().zxid.0,
        number(&recorded["last_zxid"])
    );
}

#[test]
fn directories_apart() {
    let Some(vector) = vector("dirs-split") else {
        return;
    };
    let log = tempfile::tempdir().unwrap();
    copy_into(&vector.dir.join("datalog"), log.path());
    let lines = format!("dataLogDir={}\n", log.path().display());
    let directory = vector.copy("data").with(&lines);
    check("dirs-split", &directory, &vector.expected["state"], true);
}

/// Data of members, opened by a standalone server: transactions of two epochs, and of
/// reconfigurations.
#[test]
fn directories_of_an_ensembles_members() {
    let Some(vector) = vector("ensemble") else {
        return;
    };
    for (member, state) in vector.expected["opened_standalone"].as_object().unwrap() {
        check(member, &vector.copy(member), state, true);
    }
}
