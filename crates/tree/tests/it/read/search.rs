//! Tests of searches by name and data.

use crate::common::host::*;
use proto::data::perms;
use proto::{Acl, Id};
use zoarium_tree::{Search, SearchPosition};

/// Runs all parts of a search. Returns the sorted results: a path, and `=` before a name that
/// contains the text.
fn search(host: &Host, below: &str, text: &str, identities: &[Id]) -> Vec<String> {
    let search = Search {
        below,
        text,
        includes_data: true,
        results_max: 100,
        identities,
    };
    let mut results = Vec::new();
    let mut parts = 1;
    let mut at = Some(SearchPosition::default());
    while let Some(position) = at {
        let part = host.tree.search(&search, position);
        let texts = part.found.into_iter().map(|found| {
            let sign = if found.is_name { "=" } else { "" };
            format!("{sign}{}", found.path)
        });
        results.extend(texts);
        assert!(results.len() <= 100 * parts);
        parts += 1;
        assert!(part.next.is_none_or(|next| next.0 > position.0));
        at = part.next;
    }
    results.sort();
    results
}

#[test]
fn names_and_data_below_a_path_are_found() {
    let mut host = Host::new();
    for (path, data) in [
        ("/app", ""),
        ("/app/Config", "x"),
        ("/app/other", "the CONFIG of all"),
        ("/app/other/config", ""),
        ("/config-not-below", ""),
        ("/gone", "config"),
    ] {
        host.write(create_data(path, data));
    }
    host.write(delete("/gone"));
    let all = [
        "/app/other",
        "=/app/Config",
        "=/app/other/config",
        "=/config-not-below",
        "=/zookeeper/config",
    ];
    assert_eq!(search(&host, "/", "config", &[]), all);
    let below = ["/app/other", "=/app/Config", "=/app/other/config"];
    assert_eq!(search(&host, "/app", "config", &[]), below);
    assert_eq!(search(&host, "/app/other", "config", &[]), below[2..]);
    for (below, text) in [("/missing", "config"), ("/app", ""), ("/app", "absent")] {
        assert_eq!(search(&host, below, text, &[]), [""; 0]);
    }
}

#[test]
fn a_result_and_its_parent_are_readable() {
    let mut host = Host::new();
    let ann = id("digest", "ann:hash");
    let for_ann = [Acl::new(perms::READ, "digest", "ann:hash")];
    host.write(create_acl("/closed", &for_ann));
    let open = [Acl::new(perms::ALL, "world", "anyone")];
    host.write(create_acl("/open", &open));
    host.write(create_acl("/open/needle", &for_ann));
    assert_eq!(search(&host, "/", "needle", &[]), [""; 0]);
    assert_eq!(search(&host, "/", "needle", &[ann]), ["=/open/needle"]);
}

#[test]
fn a_long_search_has_several_parts() {
    let mut host = Host::new();
    host.write(create_data("/many", ""));
    for number in 0..2_500 {
        host.write(create_data(&format!("/many/item-{number:04}"), "value"));
    }
    let found = search(&host, "/many", "item-2", &[]);
    assert_eq!(found.len(), 500);
    assert_eq!(search(&host, "/", "VALUE", &[]).len(), 2_500);
    // Large data ends a part early.
    for number in 0..4 {
        let data = format!("{}needle", "x".repeat(900_000));
        host.write(create_data(&format!("/large-{number}"), &data));
    }
    assert_eq!(search(&host, "/", "needle", &[]).len(), 4);
}
