//! Tests of TTL znodes with a server that is not configured for them.

use crate::support::{number, vector};

/// Java permanently deletes them when it starts, and their children lack a parent until the next
/// load.
#[test]
fn ttl_znodes_are_not_deleted_by_a_server_that_does_not_know_them() {
    let Some(vector) = vector("ttl-types-off") else {
        return;
    };
    assert_eq!(vector.expected["off"]["getData_error"]["/p/ttl"], -101);
    let directory = vector.copy("data").with("");
    let before = directory.files();
    let refusal = directory.serve().unwrap_err();
    assert_eq!(refusal.exit_code(), 2);
    let text = refusal.to_string();
    assert!(text.contains("3 TTL znodes"), "{text}");
    assert!(text.contains("extendedTypesEnabled=true"), "{text}");
    assert_eq!(directory.files(), before);

    let directory = directory.with("extendedTypesEnabled=true\n");
    let found = directory.recover().unwrap();
    let state = &vector.expected["state"];
    assert_eq!(found.tree.last_zxid().0, number(&state["last_zxid"]));
    crate::compare::compare("ttl-types-off, on again", &found.tree, state);
    directory.serve().unwrap();
}

#[test]
fn ttl_znodes_of_the_log_count_as_well_as_those_of_a_snapshot() {
    let Some(vector) = vector("txns-all") else {
        return;
    };
    // The recording lists the remaining znodes; one was deleted.
    let stored = vector.expected["state"]["stored_owner"]
        .as_object()
        .unwrap();
    let ttls = stored.values().filter(|owner| {
        let owner = owner.as_str().unwrap();
        owner.starts_with("0xff")
    });
    let text = format!("{} TTL znodes", ttls.count());
    let refusal = vector.copy("data").with("").serve().unwrap_err();
    assert!(refusal.to_string().contains(&text), "{refusal}");
}
