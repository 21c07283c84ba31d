//! Tests of quotas. The number in a name is a row of the checklist that these tests were written
//! from.

use crate::common::host::*;
use proto::request::WriteRequest;
use zoarium_tree::{Outcome, TreeSettings};

const LIMITS: &str = "/zookeeper/quota/q/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/q/zookeeper_stats";

fn with_quota(mut host: Host, limits: &str) -> Host {
    host.write(create_data("/q", "12"));
    host.write(create_data("/q/old", "345"));
    host.write(create("/zookeeper/quota/q"));
    host.write(create_data(LIMITS, limits));
    host.write(create_data(STATS, "whatever"));
    host
}

/// The reply's stat describes the data of the request, although the usage replaces it immediately.
#[test]
fn the_stat_of_a_new_usage_znode_is_of_what_was_asked_for() {
    let mut host = with_quota(Host::new(), "count=100,bytes=1000");
    host.write(delete(STATS));
    let data = "longer than any usage";
    let (Outcome::Created { stat, .. }, _) = host.write(create_data(STATS, data)) else {
        panic!("not created");
    };
    assert_eq!(usize::try_from(stat.data_length), Ok(data.len()));
    assert_eq!(host.text(STATS), "count=2,bytes=5");
    assert_eq!(host.stat(STATS).data_length, 15);
}

#[test]
fn rows_255_256_and_263_usage_follows() {
    let mut host = with_quota(Host::new(), "count=100,bytes=1000");
    assert_eq!(host.text(STATS), "count=2,bytes=5");
    let before = host.stat(STATS);
    host.write(create_data("/q/a", "123"));
    assert_eq!(host.text(STATS), "count=3,bytes=8");
    host.write(set("/q/a", "1234567"));
    assert_eq!(host.text(STATS), "count=3,bytes=12");
    host.write(set("/q", ""));
    host.write(create("/elsewhere"));
    host.write(create("/qq"));
    assert_eq!(host.text(STATS), "count=3,bytes=10");
    let after = host.stat(STATS);
    let expected = proto::Stat {
        data_length: 16,
        ..before
    };
    assert_eq!(after, expected);
    host.write(delete("/q/a"));
    assert_eq!(host.text(STATS), "count=2,bytes=3");
}

#[test]
fn rows_102_257_and_261_hard_count() {
    let limits = "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3";
    let mut host = with_quota(Host::new(), limits);
    assert_eq!(host.code(create("/q/a")), 0);
    assert_eq!(host.code(create("/q/b")), -125);
    assert_eq!(host.code(create("/q/a")), -110);
    assert_eq!(host.code(set("/q/a", "as much as you like")), 0);
    host.write(delete("/q/old"));
    assert_eq!(host.code(create("/q/b")), 0);
    let mut host = with_quota(
        Host::with(TreeSettings {
            enforce_quota: false,
            ..settings()
        }),
        limits,
    );
    for name in ["a", "b", "c"] {
        assert_eq!(host.code(create(&format!("/q/{name}"))), 0);
    }
    assert_eq!(host.text(STATS), "count=5,bytes=5");
}

#[test]
fn rows_129_258_and_259_hard_bytes() {
    let limits = "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=-1";
    let mut host = with_quota(Host::new(), limits);
    assert_eq!(host.code(create_data("/q/a", "123456")), -125);
    assert_eq!(host.code(create_data("/q/a", "12345")), 0);
    assert_eq!(host.code(set("/q/a", "123456")), -125);
    assert_eq!(host.code(set_version("/q/a", "123456", 9)), -125);
    host.write(set(
        LIMITS,
        "count=-1,bytes=-1=;byteHardLimit=4;countHardLimit=-1",
    ));
    assert_eq!(host.code(set("/q/a", "1234")), -125);
    assert_eq!(host.code(set("/q/a", "54321")), 0);
    host.write(delete("/q/old"));
    assert_eq!(host.code(set("/q/a", "12")), 0);
}

#[test]
fn row_260_soft_limits_refuse_nothing() {
    let mut host = with_quota(Host::new(), "count=2,bytes=3");
    for n in 0..4 {
        assert_eq!(host.code(create_data(&format!("/q/{n}"), "xxxx")), 0);
    }
}

#[test]
fn row_262_usage_is_not_updated_without_limits() {
    let mut host = with_quota(Host::new(), "count=-1,bytes=-1=;countHardLimit=1");
    assert_eq!(host.code(create("/q/a")), -125);
    host.write(delete(LIMITS));
    assert_eq!(host.code(create("/q/a")), 0);
    assert_eq!(host.text(STATS), "count=2,bytes=5");
}

#[test]
fn row_326_a_multi_is_judged_by_the_usage_before_it() {
    let mut host = with_quota(Host::new(), "count=-1,bytes=-1=;countHardLimit=3");
    let three = ["/q/a", "/q/b", "/q/c"].map(create).to_vec();
    assert_eq!(host.results(three), [0, 0, 0]);
    let swap = vec![delete("/q/a"), create("/q/d")];
    assert_eq!(host.results(swap), [0, -125]);
    host.propose(&delete("/q/a"));
    host.propose(&delete("/q/b"));
    assert!(is_error(
        &host.propose(&create("/q/d")).txn,
        proto::ErrorCode::QuotaExceeded
    ));
}

#[test]
fn the_deepest_quota_counts_alone() {
    let mut host = with_quota(Host::new(), "count=100");
    host.write(create("/q/in"));
    for path in [
        "/zookeeper/quota/q/in",
        "/zookeeper/quota/q/in/zookeeper_limits",
    ] {
        host.write(create(path));
    }
    host.write(create("/zookeeper/quota/q/in/zookeeper_stats"));
    host.write(create_data("/q/in/x", "1"));
    assert_eq!(
        host.text("/zookeeper/quota/q/in/zookeeper_stats"),
        "count=2,bytes=1"
    );
    assert_eq!(host.text(STATS), "count=3,bytes=5");
}

#[test]
fn invalid_quota_znodes_do_not_stop_writes() {
    let mut host = with_quota(Host::new(), "count=3,bytes");
    for garbage in [
        "garbage",
        "count=x,bytes=1",
        "count",
        "=",
        "count=9223372036854775807,bytes=0",
    ] {
        host.write(set(STATS, garbage));
        assert_eq!(host.code(create("/q/a")), 0, "{garbage}");
        assert_eq!(host.code(set("/q/a", "xyz")), 0);
        assert_eq!(host.code(delete("/q/a")), 0);
    }
    host.write(set(STATS, "garbage"));
    host.write(create_data("/q/a", "abc"));
    assert_eq!(host.text(STATS), "count=1,bytes=3");
    for bad in [
        "/zookeeper/quota/zookeeper_limits",
        "/zookeeper/quota/zookeeper_stats",
    ] {
        assert_eq!(host.code(create(bad)), 0);
    }
    assert_eq!(host.code(create("/x")), 0);
}

#[test]
fn quotas_of_paths_that_do_not_exist_count_nothing() {
    let mut host = Host::new();
    host.write(create("/zookeeper/quota/q"));
    host.write(create(STATS));
    assert_eq!(host.text(STATS), "count=0,bytes=0");
    host.write(create("/q"));
    assert_eq!(host.text(STATS), "count=0,bytes=0");
    host.write(create_data(LIMITS, "count=5"));
    host.write(create("/q/a"));
    assert_eq!(host.text(STATS), "count=1,bytes=0");
    assert_eq!(
        host.results(vec![
            create("/q/b"),
            WriteRequest::Delete(proto::request::PathVersionRequest {
                path: Some("/q/b".into()),
                version: -1,
            })
        ]),
        [0, 0]
    );
    assert_eq!(host.text(STATS), "count=1,bytes=0");
}

#[test]
fn a_report_prefers_hard_limits_and_knows_what_has_none() {
    let host = with_quota(
        Host::new(),
        "count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=3",
    );
    let quotas = host.tree.quotas();
    assert_eq!(quotas.len(), 1);
    let quota = &quotas[0];
    assert_eq!(quota.path, "/q");
    assert_eq!((quota.count_limit, quota.bytes_limit), (Some(3), None));
    assert_eq!((quota.count, quota.bytes), (2, 5));
}
