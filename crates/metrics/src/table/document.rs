//! Generator of `docs/METRICS.md` from the table.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use super::{Kind, ShownBy, TABLE, UNFED};

const INTRODUCTION: &str = "\
# Metrics

<!-- Made by `ZOARIUM_BLESS=1 cargo test -p zoarium-metrics metrics_md`. -->

Names and kinds match Apache ZooKeeper 3.9.5, so dashboards and alerts for ZooKeeper work unchanged. Metrics with the
prefix `zoarium_` are additional, and appear with their first value. `mntr` adds the prefix `zk_` to each name, and
prints a summary as several figures:

| kind | in `mntr` |
|---|---|
| gauge, counter | `zk_<name>` |
| summary | `zk_avg_<name>` `zk_min_<name>` `zk_max_<name>` `zk_cnt_<name>` `zk_sum_<name>` |
| summary with percentiles | also `zk_p50_<name>` `zk_p95_<name>` `zk_p99_<name>` `zk_p999_<name>` |
| one per key | `zk_<key>_<name>`, `zk_avg_<key>_<name>` and so on |

A key is a namespace (the first element of a path) or the id of a server. A metric keeps at most 1000 namespaces of at
most 256 bytes per processor. Averages are rounded to four decimals. Percentiles cover all values since the start or the
last `srst`. They are exact below 64, and deviate by at most 3 % above. `srst` resets all counters and summaries, and
the gauges of latencies, packets and reply sizes.

The [Prometheus exporter](MONITORING.md#prometheus) uses the names on this page. A summary without percentiles has only
the quantile 0.5, which is correct within a factor of two. A summary with percentiles has 0.5, 0.9 and 0.99. Unless
`metricsProvider.exportJvmInfo=false`, the exporter adds `process_*`, `jvm_threads_current`, and
`jvm_memory_bytes_used`, `_committed` and `_max` with the area `heap` (memory of the process and its machine). Other
`jvm_*` metrics do not exist.

`zoarium_stage_seconds{stage=...}` is a histogram of the time that requests spend in each stage:

| stage | time |
|---|---|
| `throttle` | waiting because too many requests are in progress |
| `wait_for_preparation`, `wait_for_log` | waiting for the preparation, or for the log |
| `fsync` | waiting for the sync of the log |
| `quorum` | from the proposal to the acknowledgements |
| `propagation` | from the time stamp of the leader to the change at this member |
| `read`, `update` | from the request to the reply |

Some metrics stay at zero; the [last section](#never-fed) gives the reasons.
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

fn shown_by_text(shown_by: ShownBy) -> &'static str {
    match shown_by {
        ShownBy::Every => "every server",
        ShownBy::Member => "members of an ensemble",
        ShownBy::Leader => "leader",
        ShownBy::ServesObservers => "leader, and followers serving observers",
    }
}

fn document() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut last = None;
    for metric in TABLE {
        let names_roles = metric.kind == Kind::Gauge;
        if last.replace(metric.kind) != Some(metric.kind) {
            let head = if names_roles {
                "| name | shown by | meaning |\n|---|---|---|"
            } else {
                "| name | meaning |\n|---|---|"
            };
            writeln!(text, "\n## {}\n\n{head}", title(metric.kind)).expect("written to memory");
        }
        let role = if names_roles {
            format!(" {} |", shown_by_text(metric.shown_by))
        } else {
            String::new()
        };
        writeln!(text, "| `{}` |{role} {} |", metric.name, metric.help).expect("written to memory");
    }
    text.push_str("\n## Never fed\n\n| name | why |\n|---|---|\n");
    for (name, why) in UNFED {
        writeln!(text, "| `{name}` | {why} |").expect("written to memory");
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
fn names_are_unique_and_help_texts_are_sentences() {
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

/// Returns the text of the source files that write metrics, without tests and white space.
fn sources() -> String {
    let mut sources = String::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = ["admin", "frontend", "metrics", "quorum", "server"];
    let mut directories: Vec<_> = crates.map(|name| root.join(name).join("src")).into();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("sources") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && name != "tests" {
                directories.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "rows.rs" {
                let text = std::fs::read_to_string(&path).expect("a source");
                let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
                sources.push_str(code);
            }
        }
    }
    sources.retain(|c| !c.is_whitespace());
    sources
}

#[test]
fn what_is_never_fed_is_said_and_nothing_else() {
    let sources = sources();
    let is_fed = |name: &str| {
        let read = format!(".{name}");
        let places = sources.match_indices(&read);
        let ends = places.map(|(at, found)| sources[at + found.len()..].chars().next());
        let mut ends = ends.flatten();
        ends.any(|next| !next.is_alphanumeric() && next != '_')
    };
    assert!(UNFED.len() <= 10, "more can be fed");
    let unfed: HashSet<&str> = UNFED.iter().map(|(name, _)| *name).collect();
    for metric in TABLE {
        if !matches!(metric.kind, Kind::Gauge | Kind::GaugeSet) {
            let is_said = unfed.contains(metric.name);
            assert_eq!(is_fed(metric.name), !is_said, "{}", metric.name);
        }
    }
    assert!(
        unfed
            .iter()
            .all(|name| TABLE.iter().any(|metric| metric.name == *name))
    );
}
