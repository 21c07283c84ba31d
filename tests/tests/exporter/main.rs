//! The metrics that Prometheus scrapes, compared with those of Apache ZooKeeper 3.9.5 in each role.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;

use proto::request::{Request, flags};
use serde_json::Value;
use tests::ensemble::{EnsembleBuilder, Role};
use tests::requests::{create, get_data};
use tests::{Flavour, HttpRequest, Port, RawSession, Server, ServerBuilder, http_get, or_skip};

const PROVIDER: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

/// A metric family: its kind, and the labels of its values.
#[derive(Debug, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
}

fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            name.clone_into(&mut last);
            let family = Family {
                kind: kind.to_owned(),
                labels: BTreeSet::new(),
            };
            assert!(
                families.insert(last.clone(), family).is_none(),
                "{name} twice"
            );
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(series.starts_with(&last), "{line} belongs to {last}");
            let family = families.get_mut(&last).expect("a family");
            family.labels.extend(labels(series));
        }
    }
    families
}

fn labels(series: &str) -> Vec<String> {
    let within = series.split_once('{').map_or("", |(_, rest)| rest);
    let pairs = within.trim_end_matches('}').split("\",");
    let names = pairs.filter_map(|pair| pair.split_once("=\""));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// Returns the metrics that were recorded for servers in this role, without those of the JVM.
fn recorded(role: &str) -> Option<BTreeMap<String, Family>> {
    let path = testkit::recordings::find("vectors/operations/prometheus/table.tsv")?;
    let text = std::fs::read_to_string(path).expect("read a recording");
    let rows = text
        .lines()
        .skip(1)
        .map(|row| row.split('\t').collect::<Vec<_>>());
    let rows = rows.filter(|row| row[3].split(',').any(|name| name == role));
    let rows = rows.filter(|row| !row[0].starts_with("jvm_") || row[0] == "jvm_pause_time_ms");
    let families = rows.map(|row| {
        let labels = row[2].split(',').filter(|label| *label != "-");
        let family = Family {
            kind: row[1].to_owned(),
            labels: labels.map(str::to_owned).collect(),
        };
        (row[0].to_owned(), family)
    });
    Some(families.collect())
}

fn compare(port: u16, role: &str) {
    let Some(recorded) = recorded(role) else {
        return;
    };
    let answer = http_get(port, "/metrics");
    let expected = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(expected));
    let ours = families(&answer.text());
    let is_javas = |name: &&String| {
        !name.starts_with("zoarium_") && (!name.starts_with("jvm_") || *name == "jvm_pause_time_ms")
    };
    let names: Vec<&String> = ours.keys().filter(is_javas).collect();
    assert_eq!(names, recorded.keys().collect::<Vec<_>>(), "{role}");
    for (name, theirs) in &recorded {
        let own = &ours[name];
        assert_eq!(own.kind, theirs.kind, "{role}: {name}");
        // A family with one series per key does not have labels before the first key.
        if !theirs.labels.contains("key") || !own.labels.is_empty() {
            assert_eq!(own.labels, theirs.labels, "{role}: {name}");
        }
    }
    assert!(ours.contains_key("zoarium_stage_seconds"));
}

/// Returns the value of a series without labels.
fn value(text: &str, name: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.and_then(|value| value.parse::<f64>().ok())
        .unwrap_or_else(|| panic!("no {name}"))
}

/// Does some reads and writes.
fn populate(address: &str, named: &str) {
    let mut session = RawSession::open(address, None, 30_000).expect("a session");
    let path = format!("/{named}");
    let request = create(&path, b"data".to_vec(), flags::PERSISTENT);
    session.call(&Request::Write(request)).expect("an answer");
    session.call(&get_data(&path)).expect("an answer");
}

fn standalone(settings: &[(&str, &str)]) -> Option<(Server, Port)> {
    let port = Port::take();
    let builder = ServerBuilder::new(Flavour::under_test())
        .setting("metricsProvider.className", PROVIDER)
        .setting("metricsProvider.httpHost", "127.0.0.1")
        .setting("metricsProvider.httpPort", &port.number().to_string());
    let builder = settings
        .iter()
        .fold(builder, |builder, (key, value)| builder.setting(key, value));
    let server = or_skip("an exporter", builder.start())?;
    Some((server, port))
}

#[test]
fn a_standalone_server_exports_what_was_recorded() {
    let Some((server, port)) = standalone(&[]) else {
        return;
    };
    populate(&server.address(), "app");
    compare(port.number(), "standalone");
    let text = http_get(port.number(), "/metrics").text();
    let value = |name: &str| value(&text, name);
    assert!(value("znode_count") >= 6.0);
    assert!(value("fsynctime_count") >= 1.0);
    assert!(value("updatelatency_count") >= 2.0);
    assert!(value("response_packet_cache_misses") >= 1.0);
    for summary in [
        "read_final_proc_time_ms",
        "local_write_committed_time_ms",
        "time_waiting_empty_pool_in_commit_processor_read_ms",
        "pending_session_queue_size",
    ] {
        assert!(value(&format!("{summary}_count")) >= 1.0, "{summary}");
    }
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("zoarium_stage_seconds_count{stage=\"update\",}") >= 2.0);
}

#[test]
fn members_export_what_was_recorded() {
    let flavour = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[flavour; 3])
        .observers(&[flavour])
        .setting("metricsProvider.className", PROVIDER)
        .setting("metricsProvider.httpHost", "127.0.0.1");
    let Some(mut ensemble) = or_skip("exporters of an ensemble", builder.prepare()) else {
        return;
    };
    let mut ports = BTreeMap::new();
    for id in ensemble.ids() {
        let port = Port::take();
        let file = OpenOptions::new()
            .append(true)
            .open(ensemble.member(id).config_file());
        let line = format!("metricsProvider.httpPort={}\n", port.number());
        file.expect("zoo.cfg")
            .write_all(line.as_bytes())
            .expect("zoo.cfg");
        ports.insert(id, port);
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    for id in ensemble.ids() {
        let address = ensemble.member(id).client_address().to_string();
        populate(&address, &format!("n{id}"));
    }
    for (role, name) in [
        (Role::Leader, "leader"),
        (Role::Follower, "follower"),
        (Role::Observer, "observer"),
    ] {
        let id = ensemble.in_role(role)[0];
        compare(ports[&id].number(), name);
        let text = http_get(ports[&id].number(), "/metrics").text();
        match role {
            Role::Leader => {
                let way = |name: &str| value(&text, &format!("inflight_{name}_count_count"));
                assert!(way("diff") + way("snap") >= 3.0, "learners of the leader");
                assert!(value(&text, "proposal_process_time_count") >= 4.0);
                assert!(value(&text, "commit_process_time_count") >= 4.0);
            }
            _ => assert!(value(&text, "learner_request_processor_queue_size_count") >= 1.0),
        }
        assert!(value(&text, "server_write_committed_time_ms_count") >= 1.0);
    }
}

#[test]
fn requests_are_answered_as_recorded() {
    let path = testkit::recordings::find("vectors/operations/prometheus/http-variants.jsonl");
    let (Some(path), Some((_server, port))) = (path, standalone(&[])) else {
        return;
    };
    let text = std::fs::read_to_string(path).expect("read a recording");
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let request = &record["request"];
        let method = request["method"].as_str().expect("a method");
        let target = request["target"].as_str().expect("a target");
        let asked = HttpRequest {
            method,
            target,
            headers: &[],
            body: (method == "POST").then_some(b""),
        };
        let answer = asked.send(port.number()).expect("an answer");
        assert_eq!(record["status"], answer.status, "{method} {target}");
        let headers = record["headers"].as_array().expect("headers");
        let type_of = |name: &Value| name.as_str().is_some_and(|name| name == "Content-Type");
        let recorded = headers.iter().find(|header| type_of(&header[0]));
        let recorded = recorded.map(|header| header[1].as_str().expect("a type"));
        assert_eq!(answer.header("content-type"), recorded, "{method} {target}");
        if answer.status == 200 && target.contains("name") && method != "HEAD" {
            let names = |text: &str| families(text).into_keys().collect::<Vec<_>>();
            let theirs = record["body"].as_str().expect("a body");
            assert_eq!(names(&answer.text()), names(theirs), "{target}");
        }
    }
}

#[test]
fn process_metrics_can_be_omitted() {
    let settings = [("metricsProvider.exportJvmInfo", "false")];
    let Some((_server, port)) = standalone(&settings) else {
        return;
    };
    let text = http_get(port.number(), "/metrics").text();
    assert!(
        !text.contains("process_cpu") && !text.contains("jvm_memory"),
        "{text}"
    );
}

/// Java exits with code 1 in this case.
#[test]
fn a_busy_port_ends_the_start() {
    let port = Port::take();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port.number())).expect("bind");
    let builder = ServerBuilder::new(Flavour::under_test())
        .setting("metricsProvider.className", PROVIDER)
        .setting("metricsProvider.httpHost", "127.0.0.1")
        .setting("metricsProvider.httpPort", &port.number().to_string());
    let failure = builder.try_start().expect("a server to start");
    let failure = failure.expect_err("the port is taken");
    let code = failure.status.and_then(|status| status.code());
    assert_eq!(code, Some(1), "{}", failure.log);
    assert!(
        failure.log.contains("metricsProvider.httpPort"),
        "{}",
        failure.log
    );
}
