//! Spans of a write. Source: the OpenTelemetry specification, "Tracing API".

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::traces::{LogTrace, TracedRequest, WriteTrace};
use opentelemetry::trace::{
    Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use proto::OpCode;
use proto::txn::TxnHeader;
use sha2::{Digest, Sha256};

/// Member that sends the spans.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// Id of the member. `None` for a standalone server.
    pub(super) sid: Option<i64>,
    /// Current role of the member.
    pub(super) role: &'static str,
}

/// Ids of one trace. All members derive equal ids from the same transaction.
struct Ids([u8; 32]);

impl Ids {
    fn new(header: &TxnHeader) -> Self {
        let mut hash = Sha256::new();
        hash.update(header.zxid.0.to_be_bytes());
        hash.update(header.time_ms.to_be_bytes());
        hash.update(header.session.0.to_be_bytes());
        hash.update(header.cxid.to_be_bytes());
        Self(hash.finalize().into())
    }

    fn trace(&self) -> TraceId {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = self.0;
        TraceId::from_bytes([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
    }

    /// Returns the id of the request's span.
    fn root(&self) -> SpanId {
        self.span("request", None)
    }

    fn span(&self, name: &str, sid: Option<i64>) -> SpanId {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(name);
        hash.update(sid.unwrap_or_default().to_be_bytes());
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
        SpanId::from_bytes([a, b, c, d, e, f, g, h])
    }
}

/// Common values of all spans of a trace that one member sends.
struct Sender<'a> {
    ids: Ids,
    member: &'a Member,
    scope: InstrumentationScope,
}

/// Returns the spans of a write that `member` has seen.
pub(super) fn of(trace: &WriteTrace, member: &Member) -> Vec<SpanData> {
    let sender = Sender {
        ids: Ids::new(&trace.header),
        member,
        scope: InstrumentationScope::builder("zoarium.writes").build(),
    };
    let here_ns = trace.log.map_or(trace.committed_ns, |log| log.appended_ns);
    let log_end_ns = trace.log.map_or(0, |log| log.synced_ns);
    let end_ns = trace.applied_ns.max(log_end_ns);
    let (top, parent) = match &trace.request {
        Some(request) => {
            // The span ends with the reply, which does not wait for this member's log if a quorum
            // has synced.
            let (root, begin_ns, end_ns) =
                (sender.ids.root(), request.received_ns, trace.applied_ns);
            let top = sender.span(request.op.name(), root, SpanId::INVALID, begin_ns, end_ns);
            (with_request(top, request), root)
        }
        None => {
            let id = sender.ids.span("member", member.sid);
            let mut top = sender.span("member", id, sender.ids.root(), here_ns, end_ns);
            top.parent_span_is_remote = true;
            (top, id)
        }
    };
    let mut spans = vec![with_transaction(top, &trace.header)];
    let mut stage = |name: &'static str, begin_ns, end_ns| {
        let id = sender.ids.span(name, member.sid);
        spans.push(sender.span(name, id, parent, begin_ns, end_ns));
    };
    if let Some(request) = &trace.request {
        stage("order", request.received_ns, here_ns);
    }
    stage("commit", here_ns, trace.committed_ns);
    stage("apply", trace.committed_ns.max(here_ns), trace.applied_ns);
    if let Some(log) = trace.log {
        stage("log", log.appended_ns, log.synced_ns);
        if let Some(span) = spans.last_mut() {
            span.events = sync_begins(log);
        }
    }
    spans
}

impl Sender<'_> {
    fn span(
        &self,
        name: &'static str,
        id: SpanId,
        parent: SpanId,
        begin_ns: u64,
        end_ns: u64,
    ) -> SpanData {
        let mut attributes = vec![KeyValue::new("zookeeper.role", self.member.role)];
        if let Some(sid) = self.member.sid {
            attributes.push(KeyValue::new("zookeeper.sid", sid));
        }
        SpanData {
            span_context: SpanContext::new(
                self.ids.trace(),
                id,
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Borrowed(name),
            start_time: at(begin_ns),
            // The end may seem earlier than the start, because the arrival of a request is measured
            // in whole milliseconds.
            end_time: at(end_ns.max(begin_ns)),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

fn with_transaction(mut span: SpanData, header: &TxnHeader) -> SpanData {
    span.attributes.extend([
        KeyValue::new("zookeeper.zxid", header.zxid.to_string()),
        KeyValue::new("zookeeper.session", header.session.to_string()),
    ]);
    if header.op == OpCode::Error.number() {
        span.status = Status::error("refused");
    }
    span
}

fn with_request(mut span: SpanData, request: &TracedRequest) -> SpanData {
    span.span_kind = SpanKind::Server;
    span.attributes.extend([
        KeyValue::new("zookeeper.xid", i64::from(request.xid.0)),
        KeyValue::new("network.peer.address", request.peer.ip().to_string()),
        KeyValue::new("network.peer.port", i64::from(request.peer.port())),
    ]);
    if let Some(path) = &request.path {
        span.attributes
            .push(KeyValue::new("zookeeper.path", path.clone()));
    }
    span
}

/// Returns the event for the start of the sync that included this write. Before this sync, the
/// write may have waited for the sync of earlier writes.
fn sync_begins(log: LogTrace) -> SpanEvents {
    let mut events = SpanEvents::default();
    events
        .events
        .push(Event::new("sync begins", at(log.sync_begun_ns), vec![], 0));
    events
}

fn at(ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns)
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
