//! Requests that the seed draws.

use bytes::Bytes;
use jute::Str;
use proto::data::perms;
use proto::multi::{MultiRead, request_acl};
use proto::request::{
    CreateRequest, PathModeRequest, PathRequest, PathVersionRequest, PathWatchRequest, ReadRequest,
    Request, SetAclRequest, SetDataRequest, SetWatchesRequest, WriteRequest, flags,
};
use proto::{Acl, OpCode, Xid};
use replica::connection::LIST_SHORT;
use testkit::Random;

use crate::client::wire;
use crate::settings::Settings;

/// Reply that a client expects.
#[derive(Debug, Clone)]
pub(crate) enum Expected {
    Read(ReadRequest),
    Write,
    Sync,
    Credentials,
    CloseSession,
    /// The server ends the connection, with or without a reply.
    End,
}

/// A frame, and the reply to it.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) xid: Xid,
    pub(crate) expected: Expected,
    pub(crate) frame: Vec<u8>,
}

/// Share of some requests in a conversation, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mix {
    writes: usize,
    long: usize,
    /// Reads whose replies fill the pipe, but do not need a reservation.
    medium: usize,
    watches: usize,
}

const PATHS: [&str; 9] = [
    "/a", "/b", "/c", "/d", "/d/x", "/d/y", "/long", "/longer", "/many",
];

impl Mix {
    /// Returns the mix of a client that makes the server hold as much as possible.
    pub(crate) fn of_hoarder() -> Self {
        Self {
            writes: 40,
            long: 80,
            medium: 20,
            watches: 0,
        }
    }

    /// Returns the mix of a client whose reads wait for its writes.
    pub(crate) fn of_burst() -> Self {
        Self {
            writes: 30,
            long: 0,
            medium: 80,
            watches: 0,
        }
    }

    pub(crate) fn draw(settings: &Settings, random: &mut Random) -> Self {
        let mut share = |of: &[usize]| random.pick(of).unwrap_or(0);
        Self {
            writes: share(&[5, 40, 80]),
            long: share(&[settings.long_percent, settings.long_percent, 5]),
            medium: share(&[0, 20, 70]),
            watches: share(&[0, 20, 60]),
        }
    }
}

fn path(random: &mut Random) -> Option<Str> {
    random.pick(&PATHS).map(Str::from)
}

fn some_data(mix: Mix, settings: &Settings, random: &mut Random) -> Option<Bytes> {
    // The path and the header need some bytes.
    let max = settings.frame_bytes_max - 200;
    let len = if random.percent(mix.long) {
        let lens = [5000, 8000, 14_000, 20_000, 150_000, 1_200_000, max];
        random.pick(&lens).unwrap_or(0).min(max)
    } else {
        random.below(100)
    };
    Some(vec![random.byte(); len].into())
}

/// Draws a valid request.
pub(crate) fn draw(mix: Mix, settings: &Settings, xid: i32, random: &mut Random) -> Sent {
    let xid = Xid(xid);
    if random.percent(3) {
        return Sent {
            xid: Xid::AUTH,
            expected: Expected::Credentials,
            frame: wire::credentials("digest", "user:secret"),
        };
    }
    if random.percent(4) {
        return sent(Xid::PING, Request::Read(ReadRequest::Ping));
    }
    if random.percent(8) {
        return sent(xid, Request::Sync(PathRequest { path: path(random) }));
    }
    let request = if random.percent(mix.writes) {
        Request::Write(write(mix, settings, random))
    } else {
        Request::Read(read(mix, random))
    };
    match &request {
        Request::Read(ReadRequest::SetWatches(_)) => sent(Xid::SET_WATCHES, request),
        _ => sent(xid, request),
    }
}

pub(crate) fn sent(xid: Xid, request: Request) -> Sent {
    let frame = wire::request(xid, &request);
    let expected = match request {
        Request::Write(WriteRequest::CloseSession) => Expected::CloseSession,
        Request::Write(_) => Expected::Write,
        Request::Read(read) => Expected::Read(read),
        Request::Sync(_) => Expected::Sync,
    };
    Sent {
        xid,
        expected,
        frame,
    }
}

/// Draws a frame after which the server ends the connection.
pub(crate) fn invalid(settings: &Settings, xid: i32, random: &mut Random) -> Sent {
    let too_long = u32::try_from(settings.frame_bytes_max + 1).unwrap_or(u32::MAX);
    let frame = match random.below(5) {
        0 => (-1_i32).to_be_bytes().to_vec(),
        1 => too_long.to_be_bytes().to_vec(),
        2 => wire::framed(&[1, 2, 3]),
        3 => wire::framed(&wire::header(Xid(xid), 777)),
        _ => wire::credentials("unknown", "user:secret"),
    };
    Sent {
        xid: Xid(xid),
        expected: Expected::End,
        frame,
    }
}

/// Returns requests that need each kind of resource.
pub(crate) fn probe(settings: &Settings) -> impl Iterator<Item = Sent> {
    let longest = settings.frame_bytes_max - 200;
    let set = |len: usize| {
        Request::Write(WriteRequest::SetData(SetDataRequest {
            path: Some("/a".into()),
            data: Some(vec![1; len.min(longest)].into()),
            version: -1,
        }))
    };
    let get = |path: &str| PathWatchRequest {
        path: Some(path.into()),
        watch: false,
    };
    let slow = vec![ReadRequest::GetData(get("/c")); LIST_SHORT + 1];
    let requests = [
        Request::Read(ReadRequest::GetData(get("/a"))),
        set(10),
        set(10_000),
        Request::Sync(PathRequest {
            path: Some("/".into()),
        }),
        set(longest),
        Request::Read(ReadRequest::GetData(get("/longer"))),
        Request::Read(ReadRequest::MultiRead(MultiRead::Reads(slow))),
        Request::Read(ReadRequest::GetAllChildrenNumber(PathRequest {
            path: Some("/".into()),
        })),
    ];
    (1..)
        .zip(requests)
        .map(|(xid, request)| sent(Xid(xid), request))
}

pub(crate) fn close(xid: i32) -> Sent {
    sent(Xid(xid), Request::Write(WriteRequest::CloseSession))
}

fn acl(random: &mut Random) -> Option<Vec<proto::data::RequestAcl>> {
    if random.percent(90) {
        return request_acl([Acl::open()]);
    }
    request_acl([
        Acl::new(perms::ALL, "auth", ""),
        Acl::new(perms::READ, "world", "anyone"),
    ])
}

fn write(mix: Mix, settings: &Settings, random: &mut Random) -> WriteRequest {
    let version = |random: &mut Random| if random.percent(80) { -1 } else { 3 };
    match random.below(10) {
        0..3 => {
            let kinds = [
                (OpCode::Create, flags::PERSISTENT),
                (OpCode::Create2, flags::PERSISTENT),
                (OpCode::Create, flags::EPHEMERAL),
                (OpCode::Create2, flags::EPHEMERAL_SEQUENTIAL),
                (OpCode::CreateContainer, flags::CONTAINER),
            ];
            let (op, flags) = random.pick(&kinds).unwrap_or(kinds[0]);
            let request = CreateRequest {
                path: random.pick(&["/d", "/d/x", "/d/y", "/e"]).map(Str::from),
                data: some_data(mix, settings, random),
                acl: acl(random),
                flags,
            };
            WriteRequest::Create {
                op,
                request,
                ttl: -1,
            }
        }
        3..7 => WriteRequest::SetData(SetDataRequest {
            path: random
                .pick(&["/a", "/b", "/d", "/d/x", "/a"])
                .map(Str::from),
            data: some_data(mix, settings, random),
            version: version(random),
        }),
        7 => WriteRequest::Delete(PathVersionRequest {
            path: random.pick(&["/d", "/d/x", "/d/y", "/e"]).map(Str::from),
            version: version(random),
        }),
        8 => WriteRequest::SetAcl(SetAclRequest {
            path: random.pick(&["/a", "/d"]).map(Str::from),
            acl: acl(random),
            version: -1,
        }),
        _ => {
            let parts = (0..=random.below(4)).map(|_| {
                loop {
                    let part = write(Mix { long: 0, ..mix }, settings, random);
                    if !matches!(part, WriteRequest::Multi(_) | WriteRequest::SetAcl(_)) {
                        break part;
                    }
                }
            });
            WriteRequest::Multi(Ok(parts.collect()))
        }
    }
}

fn read(mix: Mix, random: &mut Random) -> ReadRequest {
    if random.percent(mix.long) {
        return long_read(random);
    }
    if random.percent(mix.medium) {
        return get("/medium");
    }
    let watch = random.percent(mix.watches);
    let with_watch = |random: &mut Random| PathWatchRequest {
        path: path(random),
        watch,
    };
    match random.below(20) {
        0..5 => ReadRequest::Exists(with_watch(random)),
        5..9 => ReadRequest::GetData(with_watch(random)),
        9..11 => ReadRequest::GetChildren(with_watch(random)),
        11..13 => ReadRequest::GetChildren2(with_watch(random)),
        13 => ReadRequest::GetAcl(PathRequest { path: path(random) }),
        14 => ReadRequest::GetAllChildrenNumber(PathRequest {
            path: random.pick(&["/", "/many", "/d"]).map(Str::from),
        }),
        15 => ReadRequest::GetEphemerals(PathRequest {
            path: Some("/".into()),
        }),
        16 if watch => ReadRequest::AddWatch(PathModeRequest {
            path: random.pick(&["/d", "/a", "/e"]).map(Str::from),
            mode: i32::from(random.percent(50)),
        }),
        17 if watch => ReadRequest::RemoveWatches(PathModeRequest {
            path: path(random),
            mode: random.pick(&[1, 2, 3]).unwrap_or(3),
        }),
        18 if watch => set_watches(random),
        _ => ReadRequest::WhoAmI,
    }
}

fn set_watches(random: &mut Random) -> ReadRequest {
    let mut list = || Some((0..random.below(40)).map(|_| path(random)).collect());
    ReadRequest::SetWatches(SetWatchesRequest {
        relative_zxid: 0,
        data: list(),
        exist: list(),
        child: list(),
        persistent: Some(Vec::new()),
        persistent_recursive: Some(Vec::new()),
    })
}

fn get(path: &str) -> ReadRequest {
    ReadRequest::GetData(PathWatchRequest {
        path: Some(path.into()),
        watch: false,
    })
}

/// Draws a read whose reply is long, or that may take long.
fn long_read(random: &mut Random) -> ReadRequest {
    match random.below(6) {
        0 => get("/long"),
        1 => get("/longer"),
        2 => get("/c"),
        3 => ReadRequest::GetChildren2(PathWatchRequest {
            path: Some("/many".into()),
            watch: false,
        }),
        4 => {
            let few = random.below(6);
            ReadRequest::MultiRead(MultiRead::Reads(vec![get("/longer"); few]))
        }
        _ => {
            // The number makes this read a slow one.
            let path = random.pick(&["/a", "/b", "/c"]).unwrap_or("/a");
            ReadRequest::MultiRead(MultiRead::Reads(vec![get(path); LIST_SHORT + 1]))
        }
    }
}
