//! Tests of `mntr` and its keys, which dashboards use.

use std::collections::BTreeSet;

use super::*;
use crate::table::{Kind, ShownBy, TABLE};

fn keys(text: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for line in text.lines() {
        let (key, value) = line.split_once('\t').expect("a key and a value");
        assert!(!value.is_empty() && !value.contains('\t'), "{line}");
        assert!(keys.insert(key.to_owned()), "{key} is shown twice");
    }
    keys
}

fn shown(mode: Mode) -> BTreeSet<String> {
    keys(&ask(Word::Mntr, &fake(Some(mode))))
}

/// Returns the keys that `mntr` shows for a metric; empty for a metric with one value per key.
fn expected(name: &str, kind: Kind) -> Vec<String> {
    let figures: &[&str] = match kind {
        Kind::Gauge | Kind::Counter => &[""],
        Kind::Summary => &["avg_", "min_", "max_", "cnt_", "sum_"],
        Kind::Percentiles => &[
            "avg_", "min_", "max_", "cnt_", "sum_", "p50_", "p95_", "p99_", "p999_",
        ],
        _ => &[],
    };
    figures
        .iter()
        .map(|figure| format!("zk_{figure}{name}"))
        .collect()
}

#[test]
fn every_metric_of_the_table_is_shown_once_by_its_roles() {
    for (mode, roles, others) in [
        (Mode::Standalone, &[ShownBy::Every][..], &[][..]),
        (Mode::ReadOnly, &[ShownBy::Every], &[]),
        (
            follower(None),
            &[ShownBy::Every, ShownBy::Member],
            &["zk_peer_state"],
        ),
        (
            follower(Some(0)),
            &[ShownBy::Every, ShownBy::Member, ShownBy::ServesObservers],
            &["zk_peer_state"],
        ),
        (
            observer(),
            &[ShownBy::Every, ShownBy::Member],
            &["zk_observer_master_id", "zk_peer_state"],
        ),
        (
            leader(),
            &[
                ShownBy::Every,
                ShownBy::Member,
                ShownBy::ServesObservers,
                ShownBy::Leader,
            ],
            &["zk_peer_state"],
        ),
    ] {
        let metrics = TABLE
            .iter()
            .filter(|metric| roles.contains(&metric.shown_by) && !metric.is_own());
        let mut all: BTreeSet<_> = metrics
            .flat_map(|metric| expected(metric.name, metric.kind))
            .collect();
        all.extend(["zk_version".to_owned(), "zk_server_state".to_owned()]);
        all.extend(others.iter().map(|key| (*key).to_owned()));
        assert_eq!(shown(mode), all, "{mode:?}");
    }
}

#[test]
fn own_metrics_appear_once_they_have_values() {
    let view = fake(Some(Mode::Standalone));
    assert!(!ask(Word::Mntr, &view).contains("zoarium"));
    view.metrics.zoarium_budget_requests_delayed.add(3);
    view.metrics.zoarium_budget_delay_ms.record(7);
    let text = ask(Word::Mntr, &view);
    for line in [
        "zk_zoarium_budget_requests_delayed\t3\n",
        "zk_max_zoarium_budget_delay_ms\t7\n",
        "zk_cnt_zoarium_budget_delay_ms\t1\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn version_state_and_role_come_first() {
    let text = ask(Word::Mntr, &fake(Some(observer())));
    let version = format!("zk_version\t{}\n", version::FULL);
    let head = "zk_server_state\tobserver\nzk_peer_state\tobserving - broadcast\n\
                zk_observer_master_id\t3\n";
    assert!(text.starts_with(&format!("{version}{head}")), "{text}");
}

#[test]
fn figures_are_printed_as_integers_and_averages_as_decimals() {
    let view = fake(Some(leader()));
    view.metrics.fsynctime.record(2);
    view.metrics.fsynctime.record(3);
    view.stats.read_answered(12);
    view.metrics.read_per_namespace.record("app", 120);
    view.stats.response_size(36);
    let text = ask(Word::Mntr, &view);
    for line in [
        "zk_znode_count\t12",
        "zk_avg_latency\t12.0",
        "zk_uptime\t9000",
        "zk_connection_drop_probability\t0.0",
        "zk_last_client_response_size\t36",
        "zk_last_proposal_size\t94",
        "zk_quorum_size\t3",
        "zk_learners\t2",
        "zk_leader_uptime\t9000",
        "zk_avg_fsynctime\t2.5",
        "zk_cnt_fsynctime\t2",
        "zk_p999_readlatency\t12",
        "zk_sum_app_read_per_namespace\t120",
    ] {
        assert!(
            text.lines().any(|shown| shown == line),
            "{line} is not in {text}"
        );
    }
}

#[test]
fn quotas_are_summed_by_namespace() {
    let mut view = fake(Some(Mode::Standalone));
    let quota = NamespaceQuota {
        namespace: "app".to_owned(),
        count_limit: Some(10),
        bytes_limit: None,
        count_usage: Some(3),
        bytes_usage: Some(77),
    };
    view.quotas = vec![
        quota.clone(),
        NamespaceQuota {
            bytes_usage: None,
            ..quota
        },
    ];
    let text = ask(Word::Mntr, &view);
    let shown: Vec<_> = text
        .lines()
        .filter(|line| line.contains("quota_"))
        .collect();
    assert_eq!(
        shown,
        [
            "zk_app_quota_count_limit_per_namespace\t20",
            "zk_app_quota_count_usage_per_namespace\t6",
            "zk_app_quota_bytes_usage_per_namespace\t77",
        ]
    );
}

#[test]
fn keys_equal_zookeepers_recorded_keys() {
    let Some(file) = testkit::recordings::find("conformance/golden/zk-3.9.5.json") else {
        return;
    };
    let text = std::fs::read_to_string(file).expect("recorded answers");
    let golden: serde_json::Value = serde_json::from_str(&text).expect("recorded as JSON");
    let observed = golden["cases"]["flw_mntr_all_keys"]["obs"]
        .as_array()
        .expect("a list");
    let recorded: BTreeSet<_> = observed
        .iter()
        .filter_map(|pair| pair[0].as_str())
        .filter(|label| label.starts_with("zk_"))
        .map(str::to_owned)
        .collect();
    assert!(
        recorded.len() > 400,
        "only {} keys are recorded",
        recorded.len()
    );
    assert_eq!(shown(Mode::Standalone), recorded);
}
