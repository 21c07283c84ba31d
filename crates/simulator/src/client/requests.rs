//! Random generation of clients' requests, from all operations.
//!
//! | path | content |
//! |---|---|
//! | `/a` `/b` `/c` | ordinary znodes with ordinary children, ephemerals, sequences; `/b` may have a quota |
//! | `/k` | a container with children; a client may delete it by deleteContainer |
//! | `/t` | znodes with a TTL |
//! | `/p` | a znode that only one user may access, most of the time |
//! | `/r0` `/r1` | znodes for [`crate::invariants::linearizable`]: created, set, deleted, read after a sync |

use bytes::Bytes;
use proto::multi::{MultiRead, request_acl};
use proto::request::{
    CreateRequest, PathModeRequest, PathRequest, PathVersionRequest, PathWatchRequest, ReadRequest,
    Request, SetAclRequest, SetDataRequest, WriteRequest, flags,
};
use proto::{Acl, OpCode};
use testkit::Random;

use crate::invariants::access;
use crate::invariants::linearizable::REGISTERS;

/// The client that sends the requests, and the limits on them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requester {
    pub(super) client: usize,
    pub(super) cxid: i32,
    /// Whether the client presents the identity of an ordinary user.
    pub(super) is_user: bool,
    /// Maximum length of a transaction, bytes.
    pub(super) record_bytes_max: usize,
}

/// Draws the next request, or several requests that belong together.
pub(super) fn draw(asker: Requester, random: &mut Random) -> Vec<Request> {
    match random.below(100) {
        0..=41 => vec![Request::Write(ordinary_write(asker, random))],
        42..=57 => on_register(asker, random),
        58..=63 => vec![Request::Write(short_lived(asker, random))],
        64..=67 => vec![Request::Write(guarded(asker, random))],
        68..=70 => vec![Request::Write(multi_of_everything(asker, random))],
        71 => vec![Request::Write(quota(random))],
        72 if random.percent(30) => vec![Request::Write(WriteRequest::CloseSession)],
        73..=76 => {
            let path = Some(ordinary_path(random).into());
            vec![Request::Sync(PathRequest { path })]
        }
        77..=84 => vec![Request::Read(watch_request(random))],
        _ => vec![Request::Read(read(asker, random))],
    }
}

fn directory(random: &mut Random) -> &'static str {
    random.pick(&["/a", "/b", "/c"]).unwrap_or("/a")
}

fn ordinary_path(random: &mut Random) -> String {
    let name = random.pick(&["x", "y", "z"]).unwrap_or("x");
    format!("{}/{name}", directory(random))
}

fn data(asker: Requester, random: &mut Random) -> Bytes {
    let (client, cxid) = (asker.client, asker.cxid);
    let text = format!("client {client} request {cxid} {}", random.any());
    Bytes::from(text)
}

fn version(random: &mut Random) -> i32 {
    if random.percent(80) {
        -1
    } else {
        i32::try_from(random.below(4)).unwrap_or(0)
    }
}

fn create(op: OpCode, path: String, data: Bytes, flags: i32) -> WriteRequest {
    create_with(op, path, data, flags, Acl::open())
}

fn create_with(op: OpCode, path: String, data: Bytes, flags: i32, acl: Acl) -> WriteRequest {
    WriteRequest::Create {
        op,
        request: CreateRequest {
            path: Some(path.into()),
            data: Some(data),
            acl: request_acl([acl]),
            flags,
        },
        ttl: match op {
            OpCode::CreateTtl => TTL_MS,
            _ => -1,
        },
    }
}

/// Time without a change after which a TTL znode is deleted.
const TTL_MS: i64 = 700;

fn set(path: String, data: Bytes, version: i32) -> WriteRequest {
    WriteRequest::SetData(SetDataRequest {
        path: Some(path.into()),
        data: Some(data),
        version,
    })
}

fn at_version(path: String, version: i32) -> PathVersionRequest {
    let path = Some(path.into());
    PathVersionRequest { path, version }
}

fn ordinary_write(asker: Requester, random: &mut Random) -> WriteRequest {
    let (dir, path) = (directory(random), ordinary_path(random));
    let (data, version) = (data(asker, random), version(random));
    let op = random
        .pick(&[OpCode::Create, OpCode::Create2])
        .unwrap_or(OpCode::Create);
    match random.below(60) {
        0..=7 => create(op, dir.to_owned(), data, flags::PERSISTENT),
        8..=19 => create(op, path, data, flags::PERSISTENT),
        20..=27 => create(op, path, data, flags::EPHEMERAL),
        28..=33 => create(op, format!("{dir}/q-"), data, flags::EPHEMERAL_SEQUENTIAL),
        34..=36 => create(op, format!("{dir}/s-"), data, flags::PERSISTENT_SEQUENTIAL),
        37..=49 => set(path, data, version),
        50 => {
            // The data is shorter than the limit, but the transaction with the data may exceed it
            // slightly.
            let len = random.below(asker.record_bytes_max.min(4000));
            set(path, vec![b'x'; len].into(), -1)
        }
        _ => WriteRequest::Delete(at_version(path, version)),
    }
}

/// Draws requests for a znode that the linearizability check uses.
fn on_register(asker: Requester, random: &mut Random) -> Vec<Request> {
    let path = random.pick(&REGISTERS).unwrap_or(REGISTERS[0]).to_owned();
    let (data, version) = (data(asker, random), version(random));
    let write = match random.below(10) {
        0..=1 => create(OpCode::Create, path, data, flags::PERSISTENT),
        2..=4 => set(path, data, version),
        5 => WriteRequest::Delete(at_version(path, version)),
        6 => {
            let [one, other] = REGISTERS.map(str::to_owned);
            let check = WriteRequest::Check(at_version(one, version));
            WriteRequest::Multi(Ok(vec![check, set(other, data, -1)]))
        }
        _ => {
            let path: Option<jute::Str> = Some(path.into());
            let read = PathWatchRequest {
                path: path.clone(),
                watch: false,
            };
            return vec![
                Request::Sync(PathRequest { path }),
                Request::Read(ReadRequest::GetData(read)),
            ];
        }
    };
    vec![Request::Write(write)]
}

/// Draws a write to a container or a TTL znode.
fn short_lived(asker: Requester, random: &mut Random) -> WriteRequest {
    let data = data(asker, random);
    let name = random.pick(&["x", "y"]).unwrap_or("x");
    match random.below(12) {
        0..=2 => create(OpCode::CreateContainer, "/k".into(), data, flags::CONTAINER),
        3..=5 => create(
            OpCode::Create,
            format!("/k/{name}"),
            data,
            flags::PERSISTENT,
        ),
        6..=7 => WriteRequest::Delete(at_version(format!("/k/{name}"), -1)),
        8 => WriteRequest::DeleteContainer { path: "/k".into() },
        9 => create(OpCode::CreateTtl, "/t-".into(), data, flags::TTL_SEQUENTIAL),
        10 => set("/t".into(), data, -1),
        _ => create(OpCode::CreateTtl, "/t".into(), data, flags::TTL),
    }
}

/// Draws a write to `/p`, which usually only one user may access, or to its child.
fn guarded(asker: Requester, random: &mut Random) -> WriteRequest {
    let data = data(asker, random);
    let acl = if random.percent(70) {
        access::private()
    } else {
        Acl::open()
    };
    match random.below(6) {
        0..=1 => create_with(OpCode::Create2, "/p".into(), data, flags::PERSISTENT, acl),
        2 => create(OpCode::Create, "/p/x".into(), data, flags::PERSISTENT),
        3 => WriteRequest::Delete(at_version("/p/x".into(), -1)),
        4 if asker.is_user => WriteRequest::SetAcl(SetAclRequest {
            path: Some("/p".into()),
            acl: request_acl([acl]),
            version: version(random),
        }),
        _ => set("/p".into(), data, version(random)),
    }
}

fn multi_of_everything(asker: Requester, random: &mut Random) -> WriteRequest {
    let (dir, path) = (directory(random), ordinary_path(random));
    let bytes = data(asker, random);
    let mut writes = vec![set(dir.to_owned(), bytes.clone(), -1)];
    let mut add = |percent: usize, random: &mut Random, write: WriteRequest| {
        if random.percent(percent) {
            let at = random.below(writes.len() + 1);
            writes.insert(at, write);
        }
    };
    let other = create(OpCode::Create2, path, bytes.clone(), flags::EPHEMERAL);
    add(40, random, other);
    let sequence = format!("{dir}/m-");
    let sequence = create(
        OpCode::Create,
        sequence,
        bytes.clone(),
        flags::PERSISTENT_SEQUENTIAL,
    );
    add(40, random, sequence);
    let container = create(
        OpCode::CreateContainer,
        "/k".into(),
        bytes.clone(),
        flags::CONTAINER,
    );
    add(15, random, container);
    let ttl = create(
        OpCode::CreateTtl,
        "/t-".into(),
        bytes,
        flags::TTL_SEQUENTIAL,
    );
    add(15, random, ttl);
    let check = WriteRequest::Check(at_version(dir.to_owned(), version(random)));
    add(40, random, check);
    let delete = ordinary_path(random);
    add(20, random, WriteRequest::Delete(at_version(delete, -1)));
    WriteRequest::Multi(Ok(writes))
}

/// Draws a write that creates or deletes the quota of `/b`.
fn quota(random: &mut Random) -> WriteRequest {
    const ROOT: &str = "/zookeeper/quota/b";
    let limits = format!("{ROOT}/zookeeper_limits");
    if random.percent(20) {
        return WriteRequest::Delete(at_version(limits, -1));
    }
    let text = "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=8";
    let make = |path: String, data: &'static str| {
        create(OpCode::Create, path, Bytes::from(data), flags::PERSISTENT)
    };
    WriteRequest::Multi(Ok(vec![
        make(ROOT.to_owned(), ""),
        make(limits, text),
        make(format!("{ROOT}/zookeeper_stats"), "count=0,bytes=0"),
    ]))
}

fn read(asker: Requester, random: &mut Random) -> ReadRequest {
    let (dir, path) = (directory(random), ordinary_path(random));
    let watch = random.percent(40);
    let of = |path: &str, watch: bool| PathWatchRequest {
        path: Some(path.into()),
        watch,
    };
    let plain = |path: &str| PathRequest {
        path: Some(path.into()),
    };
    match random.below(30) {
        0..=7 => ReadRequest::GetData(of(&path, watch)),
        8..=12 => ReadRequest::GetChildren(of(dir, watch)),
        13..=14 => ReadRequest::GetChildren2(of(dir, watch)),
        15..=18 => ReadRequest::Exists(of(&path, watch)),
        19..=20 => ReadRequest::GetData(of("/p", watch && asker.is_user)),
        21 => ReadRequest::GetAcl(plain("/p")),
        22 => ReadRequest::GetAcl(plain(&path)),
        23 => ReadRequest::GetAllChildrenNumber(plain(dir)),
        24..=25 => ReadRequest::GetEphemerals(plain("/")),
        26 => ReadRequest::WhoAmI,
        27 => ReadRequest::Exists(of("/k", watch)),
        _ => ReadRequest::MultiRead(MultiRead::Reads(vec![
            ReadRequest::GetData(of(&path, false)),
            ReadRequest::GetChildren(of(dir, false)),
            ReadRequest::GetData(of("/p", false)),
        ])),
    }
}

/// Draws a request that adds a persistent watch, or that removes or checks watches.
fn watch_request(random: &mut Random) -> ReadRequest {
    let path = if random.percent(50) {
        directory(random).to_owned()
    } else {
        ordinary_path(random)
    };
    let of = |mode: usize| PathModeRequest {
        path: Some(path.as_str().into()),
        mode: i32::try_from(mode).unwrap_or(0),
    };
    match random.below(10) {
        0..=3 => ReadRequest::AddWatch(of(random.below(2))),
        4..=6 => ReadRequest::RemoveWatches(of(1 + random.below(5))),
        _ => ReadRequest::CheckWatches(of(1 + random.below(5))),
    }
}
