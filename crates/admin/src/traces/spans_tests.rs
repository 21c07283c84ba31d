use metrics::traces::TracedRequest;
use proto::{SessionId, Xid, Zxid};

use super::*;

const LEADER: Member = Member {
    sid: Some(3),
    role: "leader",
};
const FOLLOWER: Member = Member {
    sid: Some(1),
    role: "follower",
};

fn seen(request: Option<TracedRequest>, log: Option<LogTrace>) -> WriteTrace {
    WriteTrace {
        header: TxnHeader {
            session: SessionId(0x1_0000),
            cxid: 4,
            zxid: Zxid(0x2_0000_0005),
            time_ms: 1_700_000_000_000,
            op: OpCode::SetData.number(),
        },
        request,
        log,
        committed_ns: 3_000,
        applied_ns: 4_000,
    }
}

fn request() -> TracedRequest {
    TracedRequest {
        received_ns: 500,
        op: OpCode::SetData,
        path: Some("/a".to_owned()),
        peer: "127.0.0.1:4000".parse().expect("an address"),
        xid: Xid(4),
    }
}

const LOG: LogTrace = LogTrace {
    appended_ns: 1_000,
    sync_begun_ns: 1_500,
    synced_ns: 6_000,
};

fn span<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
    let span = spans.iter().find(|span| span.name == name);
    span.unwrap_or_else(|| panic!("no span {name} in {spans:#?}"))
}

fn times(span: &SpanData) -> (u64, u64) {
    let ns = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).expect("after 1970");
        u64::try_from(since.as_nanos()).expect("not that late")
    };
    (ns(span.start_time), ns(span.end_time))
}

#[test]
fn the_member_with_the_client_has_the_request_and_its_stages() {
    let spans = of(&seen(Some(request()), Some(LOG)), &FOLLOWER);
    let root = span(&spans, "setData");
    assert_eq!(root.parent_span_id, SpanId::INVALID);
    assert_eq!(root.span_kind, SpanKind::Server);
    // The client has its reply before this member's log is on disk.
    assert_eq!(times(root), (500, 4_000));
    let stages = [
        ("order", (500, 1_000)),
        ("commit", (1_000, 3_000)),
        ("apply", (3_000, 4_000)),
        ("log", (1_000, 6_000)),
    ];
    for (name, expected) in stages {
        let stage = span(&spans, name);
        assert_eq!(times(stage), expected, "{name}");
        assert_eq!(stage.parent_span_id, root.span_context.span_id());
    }
    assert_eq!(span(&spans, "log").events[0].timestamp, at(1_500));
    assert_eq!(spans.len(), 1 + stages.len());
}

#[test]
fn what_another_member_sends_lies_below_the_request() {
    let here = of(&seen(Some(request()), Some(LOG)), &FOLLOWER);
    let there = of(&seen(None, Some(LOG)), &LEADER);
    let (root, member) = (span(&here, "setData"), span(&there, "member"));
    assert_eq!(member.parent_span_id, root.span_context.span_id());
    assert!(member.parent_span_is_remote);
    assert_eq!(times(member), (1_000, 6_000));
    let mut ids = Vec::new();
    for span in here.iter().chain(&there) {
        assert_eq!(span.span_context.trace_id(), root.span_context.trace_id());
        ids.push(span.span_context.span_id());
    }
    ids.sort_by_key(|id| id.to_bytes());
    ids.dedup();
    assert_eq!(ids.len(), here.len() + there.len());
}

#[test]
fn a_member_without_a_log_has_no_stage_of_it() {
    let spans = of(&seen(None, None), &LEADER);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(names, ["member", "commit", "apply"]);
    assert_eq!(times(span(&spans, "member")), (3_000, 4_000));
}

#[test]
fn a_refused_write_is_an_error() {
    let mut trace = seen(Some(request()), None);
    trace.header.op = OpCode::Error.number();
    let spans = of(&trace, &LEADER);
    assert_eq!(span(&spans, "setData").status, Status::error("refused"));
}
