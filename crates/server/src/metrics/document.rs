//! `docs/METRICS.md`, written from the table.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use super::{Kind, Role, TABLE};

const INTRODUCTION: &str = "\
# Metrics

Generated from the table in `crates/server/src/metrics/table.rs`
(`ZOARIUM_BLESS=1 cargo test -p zoarium-server metrics_md` writes this file).

Names and kinds are those of Apache ZooKeeper 3.9.5, so its dashboards and alerts work as they
are. `mntr` puts `zk_` before each name and shows a summary as several figures:

| kind | in `mntr` |
|---|---|
| gauge, counter | `zk_<name>` |
| summary | `zk_avg_<name>` `zk_min_<name>` `zk_max_<name>` `zk_cnt_<name>` `zk_sum_<name>` |
| summary with percentiles | also `zk_p50_<name>` `zk_p95_<name>` `zk_p99_<name>` `zk_p999_<name>` |
| one per key | `zk_<key>_<name>`, `zk_avg_<key>_<name>` and so on |

The key is a namespace (the first element of a path) or a server's id; a metric keeps at most
1000 namespaces per processor. Averages are rounded to four decimals. Percentiles are those of
all values since the start or the last `srst`: exact below 64, within 3 % above.
`srst` sets everything back to zero, of the gauges only latencies, packets and reply sizes.

A metric of a stage that this server does not have stays at zero.
";

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Gauge => "Gauges",
        Kind::GaugeSet => "Gauges, one per key",
        Kind::Counter => "Counters",
        Kind::CounterSet => "Counters, one per key",
        Kind::Summary => "Summaries",
        Kind::Percentiles => "Summaries with percentiles",
        Kind::SummarySet => "Summaries, one per key",
        Kind::PercentilesSet => "Summaries with percentiles, one per key",
    }
}

fn who(role: Role) -> &'static str {
    match role {
        Role::Every => "every server",
        Role::Member => "members of an ensemble",
        Role::Leader => "leader",
        Role::ServesObservers => "leader, and followers serving observers",
    }
}

fn document() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut last = None;
    for metric in TABLE {
        let shows_roles = metric.kind == Kind::Gauge;
        if last.replace(metric.kind) != Some(metric.kind) {
            let head = if shows_roles {
                "| name | shown by | meaning |\n|---|---|---|"
            } else {
                "| name | meaning |\n|---|---|"
            };
            writeln!(text, "\n## {}\n\n{head}", title(metric.kind)).expect("written to memory");
        }
        let role = if shows_roles {
            format!(" {} |", who(metric.role))
        } else {
            String::new()
        };
        writeln!(text, "| `{}` |{role} {} |", metric.name, metric.help).expect("written to memory");
    }
    text
}

#[test]
fn metrics_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md");
    let text = document();
    if std::env::var_os("ZOARIUM_BLESS").is_some() {
        std::fs::write(&path, &text).expect("docs/METRICS.md is writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/METRICS.md is out of date: run this test with ZOARIUM_BLESS=1"
    );
}

#[test]
fn every_name_is_there_once_and_every_help_is_a_sentence() {
    let mut names = HashSet::new();
    for metric in TABLE {
        assert!(names.insert(metric.name), "{} is there twice", metric.name);
        assert!(
            metric.help.ends_with('.') && !metric.help.contains('|'),
            "{}",
            metric.help
        );
    }
    let mut kinds: Vec<_> = TABLE.iter().map(|metric| metric.kind).collect();
    kinds.dedup();
    assert_eq!(kinds.len(), 8, "metrics of a kind stand together");
}
