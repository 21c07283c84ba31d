//! Requests of each kind, and their frames.

use bytes::Bytes;
use jute::{Encode, Str};
use proto::connect::{AuthPacket, ConnectRequest, RequestHeader, SaslToken};
use proto::data::RequestAcl;
use proto::multi::{MultiRead, request_acl};
use proto::request::{
    CreateRequest, PathModeRequest, PathRequest, PathVersionRequest, PathWatchRequest, ReadRequest,
    ReconfigRequest, Request, SetAclRequest, SetDataRequest, SetWatchesRequest, WriteRequest,
};
use proto::{Acl, OpCode, SessionId, Xid, Zxid};

fn text(text: &'static str) -> Option<Str> {
    Some(Str::from_static(text))
}

fn data(data: &'static str) -> Option<Bytes> {
    Some(Bytes::from_static(data.as_bytes()))
}

fn create(op: OpCode, path: &'static str, value: &'static str, flags: i32) -> WriteRequest {
    WriteRequest::Create {
        op,
        request: CreateRequest {
            path: text(path),
            data: data(value),
            acl: request_acl([Acl::open()]),
            flags,
        },
        ttl: if op == OpCode::CreateTtl { 5000 } else { -1 },
    }
}

fn at(path: &'static str) -> PathVersionRequest {
    PathVersionRequest {
        path: text(path),
        version: -1,
    }
}

fn set_data(path: &'static str, value: &'static str) -> WriteRequest {
    WriteRequest::SetData(SetDataRequest {
        path: text(path),
        data: data(value),
        version: -1,
    })
}

/// Returns writes that form a short history. Later writes depend on earlier ones, and one multi
/// fails.
pub(crate) fn writes() -> Vec<WriteRequest> {
    let in_multi = vec![
        create(OpCode::Create, "/m", "1", 0),
        create(OpCode::Create2, "/m/s-", "2", 2),
        WriteRequest::Check(at("/m")),
        set_data("/m", "3"),
        create(OpCode::CreateContainer, "/m/c", "", 4),
        create(OpCode::CreateTtl, "/m/t", "", 5),
        WriteRequest::Delete(at("/m/t")),
    ];
    let fails = vec![
        create(OpCode::Create, "/x", "1", 0),
        WriteRequest::Delete(at("/nowhere")),
        set_data("/m", "4"),
    ];
    let quota = "count=10,bytes=1000=;byteHardLimit=100;countHardLimit=5";
    vec![
        WriteRequest::CreateSession { timeout_ms: 30_000 },
        create(OpCode::Create, "/a", "data of a", 0),
        create(OpCode::Create, "/a/e", "ephemeral", 1),
        create(OpCode::Create2, "/a/s-", "numbered", 2),
        create(OpCode::Create2, "/a/s-", "numbered", 3),
        create(OpCode::CreateContainer, "/c", "", 4),
        create(OpCode::CreateTtl, "/t", "brief", 5),
        create(OpCode::CreateTtl, "/t/s-", "brief", 6),
        set_data("/a", "other data"),
        WriteRequest::SetAcl(SetAclRequest {
            path: text("/a"),
            acl: Some(vec![
                RequestAcl::from(Acl::open()),
                RequestAcl::from(Acl::new(1, "ip", "10.0.0.0/8")),
                RequestAcl::from(Acl::new(31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=")),
            ]),
            version: 0,
        }),
        WriteRequest::Multi(Ok(in_multi)),
        WriteRequest::Multi(Ok(fails)),
        WriteRequest::Multi(Ok(vec![])),
        create(OpCode::Create, "/zookeeper/quota/a", "", 0),
        create(
            OpCode::Create,
            "/zookeeper/quota/a/zookeeper_limits",
            quota,
            0,
        ),
        create(OpCode::Create, "/zookeeper/quota/a/zookeeper_stats", "", 0),
        create(OpCode::Create, "/a/q", "counted", 0),
        set_data("/zookeeper/quota/a/zookeeper_limits", "count=,bytes=;;"),
        WriteRequest::Delete(at("/a/q")),
        WriteRequest::DeleteContainer {
            path: Str::from_static("/c"),
        },
        WriteRequest::Reconfig(ReconfigRequest {
            joining: text("server.4=h:1:2:observer;3"),
            leaving: text("1,2"),
            new_members: None,
            config_version: -1,
        }),
        WriteRequest::CloseSession,
    ]
}

fn reads() -> Vec<ReadRequest> {
    use ReadRequest as R;
    let watch = |path, watch| PathWatchRequest {
        path: text(path),
        watch,
    };
    let path = |path| PathRequest { path: text(path) };
    let mode = |path, mode| PathModeRequest {
        path: text(path),
        mode,
    };
    let list = |path: &'static str| Some(vec![text(path), text("/nowhere")]);
    let set_watches = |persistent| {
        R::SetWatches(SetWatchesRequest {
            relative_zxid: 3,
            data: list("/a"),
            exist: list("/a/e"),
            child: list("/"),
            persistent,
            persistent_recursive: Some(vec![]),
        })
    };
    vec![
        R::Exists(watch("/a", true)),
        R::GetData(watch("/a", true)),
        R::GetChildren(watch("/", true)),
        R::GetChildren2(watch("/a", false)),
        R::GetAcl(path("/a")),
        R::GetAllChildrenNumber(path("/")),
        R::GetEphemerals(path("/a")),
        R::MultiRead(MultiRead::Reads(vec![
            R::GetData(watch("/a", false)),
            R::GetChildren(watch("/nowhere", false)),
        ])),
        R::AddWatch(mode("/a", 0)),
        R::AddWatch(mode("/", 1)),
        R::CheckWatches(mode("/a", 4)),
        R::RemoveWatches(mode("/", 5)),
        set_watches(Some(vec![])),
        set_watches(list("/")),
        R::WhoAmI,
        R::Ping,
    ]
}

/// Returns the writes with reads between them, and a sync at the end.
pub(crate) fn requests() -> Vec<Request> {
    let mut reads = reads().into_iter().map(Request::Read).cycle();
    let mut all = Vec::new();
    for write in writes() {
        all.push(Request::Write(write));
        all.extend(reads.by_ref().take(3));
    }
    all.push(Request::Sync(PathRequest { path: text("/a") }));
    all
}

/// Encodes a request with its header, without the length.
fn frame(xid: i32, request: &Request) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let header = RequestHeader {
        xid: Xid(xid),
        op: request.op().number(),
    };
    header.encode(&mut out);
    request.encode(&mut out).ok()?;
    Some(out)
}

/// Returns all frames, without their lengths.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<_> = (1..)
        .zip(&requests())
        .filter_map(|(xid, request)| frame(xid, request))
        .collect();
    let behind = |op: OpCode, record: &dyn Encode| {
        let mut out = Vec::new();
        let header = RequestHeader {
            xid: Xid(-4),
            op: op.number(),
        };
        header.encode(&mut out);
        record.encode(&mut out);
        out
    };
    let credentials = AuthPacket {
        auth_type: 0,
        scheme: text("digest"),
        auth: data("bob:pw").into(),
    };
    frames.push(behind(OpCode::Auth, &credentials));
    let token = SaslToken {
        token: data("token").into(),
    };
    frames.push(behind(OpCode::Sasl, &token));
    frames
}

/// Returns the bytes of connections, with the length of each frame: all frames in both orders, and
/// parts of the sequence.
pub(crate) fn streams() -> Vec<Vec<u8>> {
    let frames = frames();
    let join = |chosen: &mut dyn Iterator<Item = &Vec<u8>>| {
        let mut out = Vec::new();
        chosen.for_each(|frame| jute::put_buffer(Some(frame), &mut out));
        out
    };
    let mut streams = vec![join(&mut frames.iter()), join(&mut frames.iter().rev())];
    for len in [4, 12, 24] {
        streams.extend(frames.chunks(len).map(|chunk| join(&mut chunk.iter())));
    }
    streams
}

/// Returns first frames of clients, without their lengths.
pub(crate) fn handshakes() -> Vec<Vec<u8>> {
    let mut request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(7),
        timeout_ms: 10_000,
        session_id: SessionId(0x0100_0015_ccec_0000),
        password: Some(Bytes::from_static(&[0x5a; 16])).into(),
        read_only: Some(false),
    };
    let new = request.to_bytes().to_vec();
    request.read_only = None;
    let old = request.to_bytes().to_vec();
    request.password = None.into();
    vec![new, old, request.to_bytes().to_vec()]
}
