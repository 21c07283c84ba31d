//! Random requests. They use few paths, so that they conflict, and sometimes contain invalid parts.

use bytes::Bytes;
use jute::{Encode, Str};
use proto::OpCode;
use proto::data::RequestAcl;
use proto::multi::{MultiHeader, encode_request};
use proto::request::{
    CreateRequest, PathModeRequest, PathRequest, PathVersionRequest, PathWatchRequest, ReadRequest,
    Request, SetAclRequest, SetDataRequest, SetWatchesRequest, WriteRequest, flags,
};

/// Next action of a session.
#[derive(Debug)]
pub(crate) enum Step {
    /// One encoded request.
    Send(OpCode, Vec<u8>),
    /// Authentication on the connection.
    Authenticate(&'static str, &'static str),
    /// The session moves to another connection.
    Reattach,
    /// The session ends.
    Close,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Without the limits of the root, at which Apache ZooKeeper exits.
const ODD_PATHS: [&str; 26] = [
    "",
    "/",
    "a",
    "/a/",
    "/a//b",
    "/a/./b",
    "/a/../b",
    "//",
    "/.",
    "/a\0b",
    "/a\u{1}",
    "/\u{f8ff}",
    "/\u{fff0}",
    "/a\u{7f}",
    "/\u{e9}",
    "/\u{65e5}\u{672c}",
    "/\u{1f600}",
    "/zookeeper",
    "/zookeeper/config",
    "/zookeeper/quota",
    "/zookeeper/x",
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
    "/a/zookeeper_limits",
    "/a/b/c/d/a/b/c/d/a/b/c/d",
];
/// Contents of these znodes that Java can parse.
const QUOTAS: [&str; 4] = [
    "count=3,bytes=20",
    "count=-1,bytes=-1",
    "count=2,bytes=-1=;byteHardLimit=10;countHardLimit=3",
    "count=1,bytes=5",
];
const VERSIONS: [i32; 12] = [-1, -1, -1, 0, 0, 1, 2, 3, -2, 7, i32::MAX, i32::MIN];
const MODES: [i32; 17] = [0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, -1, 100];
/// TTLs that do not end during a seed.
const TTLS: [i64; 7] = [1_000_000, 5_000_000, 0, -1, (1 << 40) - 1, 1 << 40, 1 << 62];
const IDENTITIES: [(&str, &str); 8] = [
    ("digest", "bob:pw"),
    ("digest", "amy:x"),
    ("digest", "a:b:c"),
    ("digest", "nocolon"),
    ("digest", ""),
    ("ip", "1.2.3.4"),
    ("world", "anyone"),
    ("none", "x"),
];
/// Permissions, scheme and id of one entry.
type Entry = (i32, Option<&'static str>, Option<&'static str>);
const WORLD: Option<&str> = Some("world");
const ANYONE: Option<&str> = Some("anyone");
const BOB: Option<&str> = Some("bob:8WXuWyi0gH1UNA7KqzDCWUzXtrs=");
const ACLS: [&[Entry]; 24] = [
    &[],
    &[(1, WORLD, ANYONE)],
    &[(15, WORLD, ANYONE)],
    &[(23, WORLD, ANYONE)],
    &[(0, WORLD, ANYONE)],
    &[(63, WORLD, ANYONE)],
    &[(-1, WORLD, ANYONE)],
    &[(31, WORLD, Some("x"))],
    &[(31, WORLD, None)],
    &[(31, None, None)],
    &[(31, Some(""), Some(""))],
    &[(31, Some("none"), Some("x"))],
    &[(31, Some("auth"), Some(""))],
    &[(31, Some("auth"), Some("x"))],
    &[(31, Some("auth"), Some("")), (1, WORLD, ANYONE)],
    &[(31, Some("digest"), BOB)],
    &[(7, Some("digest"), Some("bob"))],
    &[(31, Some("ip"), Some("127.0.0.1"))],
    &[(31, Some("ip"), Some("10.0.0.0/8"))],
    &[(31, Some("ip"), Some("bad"))],
    &[(31, Some("ip"), Some("127.0.0.1/33"))],
    &[(31, Some("super"), Some("x"))],
    &[(1, WORLD, ANYONE), (1, WORLD, ANYONE)],
    &[(4, WORLD, ANYONE), (27, Some("digest"), Some("amy:x"))],
];

/// Generator of one seed.
pub(crate) struct Requests {
    random: fastrand::Rng,
}

impl Requests {
    pub(crate) fn new(seed: u64) -> Requests {
        Requests {
            random: fastrand::Rng::with_seed(seed),
        }
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.random.usize(..end)
    }

    pub(crate) fn next(&mut self) -> Step {
        match self.below(200) {
            0 | 1 => Step::Close,
            2 | 3 => Step::Reattach,
            4..=7 => {
                let (scheme, auth) = self.one_of(&IDENTITIES);
                Step::Authenticate(scheme, auth)
            }
            _ => self.request(),
        }
    }

    fn request(&mut self) -> Step {
        let (op, mut record) = match self.below(10) {
            0..=4 => encode(&Request::Write(self.write())),
            5 => self.multi(),
            6 => self.multi_read(),
            _ => self.read(),
        };
        // Apache ZooKeeper could exit because of malformed multis and TTLs.
        let may_be_damaged = !matches!(op, OpCode::Multi | OpCode::CreateTtl);
        if may_be_damaged && self.below(25) == 0 {
            self.damage(&mut record);
        }
        Step::Send(op, record)
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Returns a valid path, or rarely no path.
    fn path(&mut self) -> Option<Str> {
        if self.below(100) == 0 {
            return None;
        }
        if self.below(9) == 0 {
            return Some(self.one_of(&ODD_PATHS).into());
        }
        let mut path = String::new();
        for _ in 0..self.one_of(&[1, 1, 1, 2, 2, 3]) {
            path.push('/');
            path.push_str(self.one_of(&NAMES));
        }
        Some(path.as_str().into())
    }

    fn data(&mut self, path: Option<&Str>) -> Option<Bytes> {
        if path.is_some_and(|path| path.contains("zookeeper_")) {
            return Some(self.one_of(&QUOTAS).into());
        }
        match self.below(6) {
            0 => None,
            length => Some(vec![b'x'; length * length * 8 - 8].into()),
        }
    }

    fn acl(&mut self) -> Option<Vec<RequestAcl>> {
        let open: &[Entry] = &[(31, WORLD, ANYONE)];
        let entries = match self.below(24) {
            0 => return None,
            1..=11 => self.one_of(&ACLS),
            _ => open,
        };
        let entry = |&(perms, scheme, id): &Entry| RequestAcl {
            perms,
            scheme: scheme.map(Into::into),
            id: id.map(Into::into),
        };
        Some(entries.iter().map(entry).collect())
    }

    fn create(&mut self, op: OpCode) -> WriteRequest {
        let mut path = self.path();
        if let Some(prefix) = path.as_ref().filter(|_| self.random.u8(..) < 25) {
            path = Some(
                format!("{prefix}{}", self.one_of(&["-", "/", "/s-"]))
                    .as_str()
                    .into(),
            );
        }
        let flags = match op {
            OpCode::CreateTtl => self.one_of(&[5, 5, 5, 6, 6, 0, 4, 1]),
            OpCode::CreateContainer if self.below(5) > 0 => flags::CONTAINER,
            _ => self.one_of(&MODES),
        };
        // A negative TTL for a znode without TTL would make Apache ZooKeeper exit.
        let ttl = match op {
            OpCode::CreateTtl if flags >= flags::TTL => self.one_of(&TTLS),
            OpCode::CreateTtl => 1_000_000,
            _ => -1,
        };
        let data = self.data(path.as_ref());
        let acl = self.acl();
        let request = CreateRequest {
            path,
            data,
            acl,
            flags,
        };
        WriteRequest::Create { op, request, ttl }
    }

    fn path_version(&mut self) -> PathVersionRequest {
        PathVersionRequest {
            path: self.path(),
            version: self.one_of(&VERSIONS),
        }
    }

    /// Returns an operation for a multi.
    fn part(&mut self) -> WriteRequest {
        match self.below(20) {
            0..=6 => self.create(OpCode::Create),
            7 | 8 => self.create(OpCode::Create2),
            9 => self.create(OpCode::CreateContainer),
            10 => self.create(OpCode::CreateTtl),
            11..=14 => WriteRequest::Delete(self.path_version()),
            15 => WriteRequest::Check(self.path_version()),
            _ => {
                let path = self.path();
                let data = self.data(path.as_ref());
                let version = self.one_of(&VERSIONS);
                WriteRequest::SetData(SetDataRequest {
                    path,
                    data,
                    version,
                })
            }
        }
    }

    fn write(&mut self) -> WriteRequest {
        match self.below(20) {
            // Apache ZooKeeper also deletes existing znodes of other kinds (docs/COMPATIBILITY.md).
            0 => WriteRequest::DeleteContainer {
                path: self
                    .one_of(&["/", "/zookeeper", "relative", "/a//b", ""])
                    .into(),
            },
            1 | 2 => WriteRequest::SetAcl(SetAclRequest {
                path: self.path(),
                acl: self.acl(),
                version: self.one_of(&VERSIONS),
            }),
            _ => loop {
                let part = self.part();
                // A check outside a multi ends the connection after its answer.
                if part.op() != OpCode::Check {
                    break part;
                }
            },
        }
    }

    fn multi(&mut self) -> (OpCode, Vec<u8>) {
        let mut record = Vec::new();
        for _ in 0..self.below(7) {
            match self.below(40) {
                0 => self.put_read(&mut record),
                1 => put(OpCode::SetAcl, &self.path_version(), &mut record),
                _ => encode_request(&self.part(), &mut record),
            }
        }
        MultiHeader::END.encode(&mut record);
        (OpCode::Multi, record)
    }

    fn multi_read(&mut self) -> (OpCode, Vec<u8>) {
        let mut record = Vec::new();
        for _ in 0..self.below(6) {
            match self.below(20) {
                0 => encode_request(&self.part(), &mut record),
                1 => put(OpCode::Exists, &self.path_watch(), &mut record),
                _ => self.put_read(&mut record),
            }
        }
        MultiHeader::END.encode(&mut record);
        (OpCode::MultiRead, record)
    }

    fn put_read(&mut self, record: &mut Vec<u8>) {
        let op = self.one_of(&[OpCode::GetData, OpCode::GetChildren]);
        put(op, &self.path_watch(), record);
    }

    fn path_watch(&mut self) -> PathWatchRequest {
        PathWatchRequest {
            path: self.path(),
            watch: self.random.bool(),
        }
    }

    fn mode(&mut self, modes: &[i32]) -> PathModeRequest {
        PathModeRequest {
            path: self.path(),
            mode: self.one_of(modes),
        }
    }

    fn paths(&mut self) -> Option<Vec<Option<Str>>> {
        let count = self.below(6);
        (count < 5).then(|| (0..count).map(|_| self.path()).collect())
    }

    fn read(&mut self) -> (OpCode, Vec<u8>) {
        use ReadRequest as R;
        let read = match self.below(18) {
            0 | 1 => R::Exists(self.path_watch()),
            2..=4 => R::GetData(self.path_watch()),
            5 | 6 => R::GetChildren(self.path_watch()),
            7 => R::GetChildren2(self.path_watch()),
            8 => R::GetAcl(PathRequest { path: self.path() }),
            9 => R::GetEphemerals(PathRequest { path: self.path() }),
            10 => R::GetAllChildrenNumber(PathRequest { path: self.path() }),
            11 | 12 => R::AddWatch(self.mode(&[0, 1, 0, 1, 2, -1])),
            13 => R::RemoveWatches(self.mode(&[1, 2, 3, 4, 5, 0, -1, 6])),
            14 => R::CheckWatches(self.mode(&[1, 2, 3, 4, 5, 0, -1, 6])),
            15 => R::WhoAmI,
            16 => R::SetWatches(SetWatchesRequest {
                relative_zxid: self.one_of(&[0, 5, 50, 500, i64::MAX, -1]),
                data: self.paths(),
                exist: self.paths(),
                child: self.paths(),
                persistent: Some(Vec::new()),
                persistent_recursive: Some(Vec::new()),
            }),
            _ => {
                let request = PathRequest { path: self.path() };
                return encode(&Request::Sync(request));
            }
        };
        encode(&Request::Read(read))
    }

    fn damage(&mut self, record: &mut Vec<u8>) {
        for _ in 0..=self.below(2) {
            let at = self.below(record.len() + 1);
            match self.below(3) {
                0 if at < record.len() => record[at] = self.one_of(&[0, 1, 127, 128, 255]),
                1 => record.truncate(at),
                _ => record.push(self.random.u8(..)),
            }
        }
    }
}

fn put(op: OpCode, request: &impl Encode, record: &mut Vec<u8>) {
    MultiHeader::request(op).encode(record);
    request.encode(record);
}

fn encode(request: &Request) -> (OpCode, Vec<u8>) {
    let mut record = Vec::new();
    request.encode(&mut record).expect("a request of a client");
    (request.op(), record)
}
