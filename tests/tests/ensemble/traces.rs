//! Traces of writes (`zoarium.traces.*`), as a collector receives them with OTLP over HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use proto::request::{Request, flags};
use tests::ensemble::{EnsembleBuilder, Role};
use tests::requests::{create, multi, set_data};
use tests::{Flavour, RawSession, ServerBuilder, or_skip, wait_for};

const LIMIT: Duration = Duration::from_secs(30);

/// A span, and the member that has sent it.
type Sent = (String, Span);

/// A collector of traces on a separate port.
struct Collector {
    port: u16,
    is_refusing: Arc<AtomicBool>,
    spans: Arc<Mutex<Vec<Sent>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let collector = Self {
            port: listener.local_addr().expect("its address").port(),
            is_refusing: Arc::default(),
            spans: Arc::default(),
        };
        let (is_refusing, spans) = (collector.is_refusing.clone(), collector.spans.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sent = answer(stream, is_refusing.load(SeqCst));
                spans.lock().expect("no panic").extend(sent);
            }
        });
        collector
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns all spans of the first trace that has a request of this name at this path.
    fn trace(&self, name: &str, path: &str) -> Vec<Sent> {
        let spans = self.spans.lock().expect("no panic");
        let is_request =
            |span: &Span| span.name == name && text(&span.attributes, "zookeeper.path") == path;
        let Some((_, root)) = spans.iter().find(|(_, span)| is_request(span)) else {
            return Vec::new();
        };
        let of_trace = spans
            .iter()
            .filter(|(_, span)| span.trace_id == root.trace_id);
        of_trace.cloned().collect()
    }
}

/// Reads one request, and returns its spans.
fn answer(mut stream: TcpStream, refuses: bool) -> Vec<Sent> {
    let mut reader = BufReader::new(stream.try_clone().expect("the same stream"));
    let (mut head, mut bytes) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let lower = line.to_ascii_lowercase();
        if let Some(length) = lower.strip_prefix("content-length:") {
            bytes = length.trim().parse().expect("a length");
        }
        head.push_str(&lower);
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body).expect("the body");
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf"),
        "{head}"
    );
    let status = if refuses {
        "503 Service Unavailable"
    } else {
        "200 OK"
    };
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").expect("answered");
    if refuses {
        return Vec::new();
    }
    let request = ExportTraceServiceRequest::decode(&*body).expect("what OTLP has");
    let mut sent = Vec::new();
    for of_resource in request.resource_spans {
        let resource = of_resource.resource.expect("who sends it").attributes;
        assert_eq!(text(&resource, "service.name"), "zoarium");
        let member = text(&resource, "service.instance.id");
        let spans = of_resource.scope_spans.into_iter();
        let spans = spans.flat_map(|scope| scope.spans);
        sent.extend(spans.map(|span| (member.clone(), span)));
    }
    sent
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    let value = found.and_then(|attribute| attribute.value.clone());
    match value {
        Some(AnyValue {
            value: Some(Value::StringValue(text)),
        }) => text,
        _ => String::new(),
    }
}

fn names_by_member(trace: &[Sent]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (member, span) in trace {
        names.entry(member).or_default().insert(&span.name);
    }
    names
}

#[test]
fn spans_of_all_members_form_one_trace() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let collector = Collector::start();
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .observers(&[Flavour::Zoarium])
        .setting("zoarium.traces.endpoint", &collector.url())
        .setting("zoarium.traces.every", "1");
    let Some(ensemble) = or_skip("traces of an ensemble", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let asked = ensemble.in_role(Role::Follower)[0];
    let address = ensemble.member(asked).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    let created = session.call(&Request::Write(create("/traced", "x", flags::PERSISTENT)));
    assert_eq!(created.expect("an answer").err, 0);
    let both = vec![
        set_data("/traced", "y", 0),
        create("/other", "", flags::PERSISTENT),
    ];
    let done = session.call(&Request::Write(multi(both)));
    assert_eq!(done.expect("an answer").err, 0);
    let refused = session.call(&Request::Write(set_data("/traced", "y", 7)));
    assert_ne!(refused.expect("an answer").err, 0);

    let whole = wait_for("a trace of all members", LIMIT, || {
        let trace = collector.trace("create", "/traced");
        let logs = trace.iter().filter(|(_, span)| span.name == "log");
        (logs.count() == 4).then_some(trace)
    });
    let names = names_by_member(&whole);
    let stages = ["apply", "commit", "log"];
    for id in ensemble.ids() {
        let id = id.to_string();
        let mut expected: BTreeSet<&str> = stages.into();
        if id == asked.to_string() {
            expected.extend(["create", "order"]);
        } else {
            expected.extend(["member"]);
        }
        assert_eq!(
            names[&*id], expected,
            "of member {id}, which is led by {leader}"
        );
    }
    let mut ids = BTreeSet::new();
    for (_, span) in &whole {
        assert!(ids.insert(&span.span_id), "two spans have one id");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
    let roots = whole
        .iter()
        .filter(|(_, span)| span.parent_span_id.is_empty());
    assert_eq!(roots.count(), 1);
    for (_, span) in &whole {
        let is_root = span.parent_span_id.is_empty();
        assert!(is_root || ids.contains(&span.parent_span_id), "{span:?}");
        let role = text(&span.attributes, "zookeeper.role");
        assert!(["leader", "follower", "observer"].contains(&&*role));
    }
    wait_for("several at once, by the first of them", LIMIT, || {
        (!collector.trace("multi", "/traced").is_empty()).then_some(())
    });
    // A failed request does not have a path. The client's own trace contains it.
    wait_for("the refused write", LIMIT, || {
        let trace = collector.trace("setData", "");
        let (_, root) = trace.iter().find(|(_, span)| span.name == "setData")?;
        let status = root.status.as_ref().expect("a status");
        assert_eq!(status.code(), StatusCode::Error);
        Some(())
    });
}

#[test]
fn a_refusing_collector_loses_only_traces() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let collector = Collector::start();
    collector.is_refusing.store(true, SeqCst);
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("zoarium.traces.endpoint", &collector.url())
        .setting("zoarium.traces.every", "1");
    let Some(server) = or_skip("a server with traces", builder.start()) else {
        return;
    };
    let mut session = RawSession::open(&server.address(), None, 30_000).expect("a session");
    let mut number = 0;
    let mut write = |wanted: &str| {
        wait_for(wanted, LIMIT, || {
            number += 1;
            let path = format!("/n{number}");
            let created = session.call(&Request::Write(create(&path, "", flags::PERSISTENT)));
            assert_eq!(created.expect("an answer").err, 0);
            let log = server.log();
            log.contains(wanted).then_some(log)
        })
    };
    write("cannot send traces");
    collector.is_refusing.store(false, SeqCst);
    let log = write("sending traces again");
    assert_eq!(log.matches("cannot send traces").count(), 1, "{log}");
}
