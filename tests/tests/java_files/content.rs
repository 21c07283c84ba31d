//! Everything that a client can write into a tree.

use bytes::Bytes;
use proto::data::perms;
use proto::request::{Request, WriteRequest, flags};
use proto::response::{Create2Response, CreateResponse};
use proto::{Acl, ErrorCode, OpCode};
use tests::requests::{
    check, create, create_with, delete, get_acl, get_data, multi, set_acl, set_data,
};
use tests::{RawSession, Server};

use crate::state::TIMEOUT_MS;

/// Znodes below `/many`.
pub(crate) const MANY: usize = 100_000;
/// Creations per multi.
const TOGETHER: usize = 250;
/// Requests in flight.
const DEPTH: usize = 16;

const HOUR_MS: i64 = 3_600_000;

/// A writer: a session, and the path below which it writes.
pub(crate) struct Author {
    pub(crate) session: RawSession,
    top: String,
}

impl Author {
    /// Opens a new session, whose own znodes are below `top`.
    pub(crate) fn new(server: &Server, top: &str) -> Author {
        let mut session = RawSession::open(&server.address(), None, TIMEOUT_MS)
            .unwrap_or_else(|error| panic!("no session: {error}"));
        session
            .authenticate("digest", "bob:builder")
            .expect("bob's identity");
        Author {
            session,
            top: top.to_owned(),
        }
    }

    /// Moves the session to the next server.
    pub(crate) fn moved_to(&self, server: &Server, top: &str) -> Author {
        let known = self.session.session();
        let mut session = RawSession::open(&server.address(), Some(known), TIMEOUT_MS)
            .unwrap_or_else(|error| panic!("the session does not go on: {error}"));
        assert_eq!(session.session().id, known.id);
        session
            .authenticate("digest", "bob:builder")
            .expect("bob's identity");
        Author {
            session,
            top: top.to_owned(),
        }
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.top)
    }

    fn call(&mut self, write: WriteRequest) -> tests::Answer {
        let request = Request::Write(write);
        let answer = self.session.call(&request).expect("an answer");
        assert_eq!(answer.err, 0, "{request:?}");
        answer
    }

    fn refused(&mut self, write: WriteRequest, code: ErrorCode) {
        let request = Request::Write(write);
        let answer = self.session.call(&request).expect("an answer");
        assert_eq!(answer.err, code.code(), "{request:?}");
    }

    fn put(&mut self, name: &str, data: impl Into<Bytes>) {
        let path = self.at(name);
        self.call(create(&path, data, flags::PERSISTENT));
    }

    fn special(&mut self, op: OpCode, name: &str, mode: i32, acl: &[Acl], ttl: i64) -> String {
        let data = Some("special".into());
        let answer = self.call(create_with(op, &self.at(name), data, mode, acl, ttl));
        answer.record::<Create2Response>().path.to_string()
    }

    /// Sends all kinds of requests, once or a few times each.
    pub(crate) fn write_everything(&mut self, server: &Server) {
        self.call(create(&self.top.clone(), "top", flags::PERSISTENT));
        self.write_data();
        self.write_kinds();
        self.write_acls();
        self.write_quota();
        self.write_multis();
        self.write_sequences(0);
        // Another session creates ephemerals and ends.
        let mut other = Author::new(server, &self.top);
        other.call(create(&self.at("gone"), "", flags::EPHEMERAL));
        other.session.close().expect("the end of a session");
    }

    fn write_data(&mut self) {
        self.put("text", "text");
        self.put("empty", "");
        self.put("bytes", (0..=255).collect::<Vec<u8>>());
        self.put("zn\u{f6}de-\u{65e5}\u{672c}", "not ascii");
        let null = create_with(
            OpCode::Create,
            &self.at("null"),
            None,
            flags::PERSISTENT,
            &[Acl::open()],
            -1,
        );
        self.call(null);
        self.put("set", "0");
        for version in 0..5 {
            let path = self.at("set");
            self.call(set_data(&path, format!("set {version}"), version));
        }
        self.put("nulled", "something");
        let mut nulled = set_data(&self.at("nulled"), "", -1);
        if let WriteRequest::SetData(request) = &mut nulled {
            request.data = None;
        }
        self.call(nulled);
        self.put("big", vec![b'z'; 300_000]);
        self.put("parent", "");
        for name in ["parent/a", "parent/b", "parent/b/c"] {
            self.put(name, name.to_owned());
        }
        self.call(delete(&self.at("parent/a"), 0));
        self.refused(delete(&self.at("parent/b"), -1), ErrorCode::NotEmpty);
        self.refused(delete(&self.at("missing"), -1), ErrorCode::NoNode);
        self.refused(set_data(&self.at("set"), "", 77), ErrorCode::BadVersion);
    }

    fn write_kinds(&mut self) {
        let open = [Acl::open()];
        self.call(create(&self.at("ephemeral"), "e", flags::EPHEMERAL));
        self.special(OpCode::Create2, "create2", flags::PERSISTENT, &open, -1);
        self.special(
            OpCode::CreateContainer,
            "container",
            flags::CONTAINER,
            &open,
            -1,
        );
        self.put("container/child", "");
        self.special(OpCode::CreateTtl, "ttl", flags::TTL, &open, HOUR_MS);
        self.put("ttl/child", "");
        self.special(
            OpCode::CreateTtl,
            "ttl-",
            flags::TTL_SEQUENTIAL,
            &open,
            HOUR_MS,
        );
        let longest = 0xff_ffff_ffff;
        self.special(OpCode::CreateTtl, "ttl-max", flags::TTL, &open, longest);
    }

    fn write_acls(&mut self) {
        let digest = Acl::new(perms::ALL, "digest", "bob:2Y3wwU65KM3v7EmC/FqUQyAnEQE=");
        let bob = Acl::new(perms::ALL, "auth", "");
        let reader = Acl::new(perms::READ, "world", "anyone");
        let here = Acl::new(perms::READ | perms::WRITE, "ip", "127.0.0.0/8");
        for (name, acl) in [
            ("acl-read", &[reader.clone()][..]),
            ("acl-several", &[reader.clone(), here, digest]),
            ("acl-auth", &[bob]),
        ] {
            let (op, path) = (OpCode::Create, self.at(name));
            self.call(create_with(
                op,
                &path,
                Some("acl".into()),
                flags::PERSISTENT,
                acl,
                -1,
            ));
        }
        let path = self.at("acl-set");
        self.put("acl-set", "");
        self.call(set_acl(&path, &[Acl::open(), reader.clone()], 0));
        self.call(set_acl(&path, &[reader], 1));
    }

    fn write_quota(&mut self) {
        let name = self.top.trim_start_matches('/').to_owned();
        let quota = format!("/zookeeper/quota/{name}");
        for path in [quota.clone(), format!("{quota}/quota")] {
            self.call(create(&path, "", flags::PERSISTENT));
        }
        let limits = "count=1000,bytes=100000";
        let stats = "count=0,bytes=0";
        for (leaf, data) in [("zookeeper_limits", limits), ("zookeeper_stats", stats)] {
            let path = format!("{quota}/quota/{leaf}");
            self.call(create(&path, data, flags::PERSISTENT));
        }
        self.put("quota", "counted");
        for number in 0..7 {
            self.put(&format!("quota/{number}"), vec![b'q'; 100]);
        }
        self.call(delete(&self.at("quota/3"), -1));
        self.call(set_data(&self.at("quota/4"), "shorter", -1));
    }

    fn write_multis(&mut self) {
        self.put("multi", "");
        let at = |name: &str| format!("{}/multi/{name}", self.top);
        let open = [Acl::open()];
        let (mode, data) = (flags::PERSISTENT, || Some(Bytes::from("m")));
        let writes = vec![
            create(&at("a"), "a", mode),
            set_data(&at("a"), "a2", 0),
            check(&at("a"), 1),
            create(&at("s-"), "", flags::PERSISTENT_SEQUENTIAL),
            create(&at("e"), "", flags::EPHEMERAL),
            create_with(OpCode::Create2, &at("two"), data(), mode, &open, -1),
            create_with(
                OpCode::CreateContainer,
                &at("c"),
                data(),
                flags::CONTAINER,
                &open,
                -1,
            ),
            create_with(
                OpCode::CreateTtl,
                &at("t"),
                data(),
                flags::TTL,
                &open,
                HOUR_MS,
            ),
            create(&at("d"), "", mode),
            delete(&at("d"), 0),
        ];
        // If one of the requests fails, the header of the reply does not contain the error.
        let failing = vec![create(&at("never"), "", mode), check(&at("a"), 99)];
        for (writes, succeeds) in [(writes, true), (failing, false)] {
            let answer = self.call(multi(writes));
            let results = client::decode_results(&mut jute::Reader::new(answer.body));
            let failure = client::first_failure(&results.expect("results"));
            assert_eq!(failure.is_none(), succeeds, "{failure:?}");
        }
    }

    /// Creates three sequential znodes, numbered from `first`, and deletes one of them.
    fn write_sequences(&mut self, first: usize) {
        if first == 0 {
            self.put("sequence", "");
        }
        for number in first..first + 3 {
            let mode = match number % 2 {
                0 => flags::PERSISTENT_SEQUENTIAL,
                _ => flags::EPHEMERAL_SEQUENTIAL,
            };
            let answer = self.call(create(&self.at("sequence/s-"), "", mode));
            let path = answer.record::<CreateResponse>().path;
            let wanted = self.at(&format!("sequence/s-{number:010}"));
            assert_eq!(*path, *wanted);
        }
        let last = self.at(&format!("sequence/s-{:010}", first + 2));
        self.call(delete(&last, -1));
    }

    /// Changes the znodes below `top` that another server created.
    pub(crate) fn write_on(&mut self, top: &str) {
        let own = std::mem::replace(&mut self.top, top.to_owned());
        self.write_sequences(3);
        self.call(set_data(&self.at("set"), "by the next", 5));
        self.call(set_data(&self.at("null"), "not null any more", 0));
        self.call(delete(&self.at("text"), -1));
        self.call(set_acl(
            &self.at("empty"),
            &[Acl::new(perms::READ, "world", "anyone")],
            0,
        ));
        self.call(set_data(&self.at("ttl"), "lives longer", 0));
        self.call(delete(&self.at("container/child"), -1));
        self.put("container/second", "");
        self.put("quota/of-the-next", vec![b'q'; 1000]);
        self.put("parent/b/d", "");
        self.call(delete(&self.at("ephemeral"), -1));
        // Bob has the same identity on every server.
        for request in [
            get_data(&self.at("acl-auth")),
            get_acl(&self.at("acl-auth")),
        ] {
            let answer = self.session.call(&request).expect("an answer");
            assert_eq!(answer.err, 0, "{request:?}");
        }
        self.top = own;
    }

    /// Creates the many znodes, in a hundred directories.
    pub(crate) fn write_many(&mut self) {
        self.call(create("/many", "", flags::PERSISTENT));
        let directories = 100;
        let each = MANY / directories;
        for directory in 0..directories {
            let path = format!("/many/d{directory:02}");
            self.call(create(&path, "", flags::PERSISTENT));
            let numbers: Vec<usize> = (0..each - 1).collect();
            for numbers in numbers.chunks(TOGETHER) {
                let creates = numbers.iter().map(|number| {
                    let name = format!("{path}/n{number:04}");
                    create(&name, format!("{directory}.{number}"), flags::PERSISTENT)
                });
                let request = Request::Write(multi(creates.collect()));
                self.session.put(&request);
                if self.session.unanswered() >= DEPTH {
                    assert_eq!(self.session.take().expect("an answer").err, 0);
                }
            }
            while self.session.unanswered() > 0 {
                assert_eq!(self.session.take().expect("an answer").err, 0);
            }
        }
    }

    /// Sends `count` single writes, so that logs roll and snapshots are taken.
    pub(crate) fn write_often(&mut self, name: &str, count: usize) {
        self.put(name, "");
        for number in 0..count {
            let path = self.at(&format!("{name}/n{number}"));
            let request = create(&path, vec![b'o'; 50], flags::PERSISTENT);
            self.session.put(&Request::Write(request));
            let request = set_data(&path, number.to_string(), 0);
            self.session.put(&Request::Write(request));
            while self.session.unanswered() >= DEPTH {
                assert_eq!(self.session.take().expect("an answer").err, 0);
            }
        }
        while self.session.unanswered() > 0 {
            assert_eq!(self.session.take().expect("an answer").err, 0);
        }
    }
}
