//! A server without sockets: prepares and applies requests, and stores the fired events.

use std::sync::Arc;

use jute::{Decode, Reader, Str};
use parking_lot::Mutex;
use proto::data::RequestAcl;
use proto::multi::request_acl;
use proto::request::{
    CreateRequest, PathModeRequest, PathRequest, PathVersionRequest, PathWatchRequest, ReadRequest,
    SetAclRequest, SetDataRequest, WriteRequest, flags,
};
use proto::txn::{Txn, TxnRecord};
use proto::watch::EventType;
use proto::{Acl, ErrorCode, Id, OpCode, SessionId, Stat, Zxid};
use zoarium_tree::{
    Caller, Event, Outcome, Overlay, PrepareContext, SessionKind, Tree, TreeSettings, WatcherId,
    Watches,
};

pub const SESSION: SessionId = SessionId(0x100);
pub const WATCHER: WatcherId = WatcherId(1);

pub struct Host {
    pub tree: Tree,
    pub overlay: Overlay,
    pub watches: Mutex<Watches>,
    pub session: SessionId,
    pub session_check: Result<SessionKind, ErrorCode>,
    pub watcher: WatcherId,
    pub identities: Vec<Id>,
    pub zxid: Zxid,
    pub time_ms: i64,
    /// Records that are proposed but not applied.
    pub in_flight: Vec<TxnRecord>,
}

/// An event in the form that tests compare.
pub type Seen = (EventType, String, i64, Vec<u64>);

pub fn id(scheme: &str, id: &str) -> Id {
    Id {
        scheme: scheme.into(),
        id: id.into(),
    }
}

pub fn settings() -> TreeSettings {
    TreeSettings {
        extended_types: true,
        enforce_quota: true,
        reconfig_enabled: true,
        ..TreeSettings::new(testkit::LIMITS)
    }
}

impl Host {
    pub fn new() -> Self {
        Self::with(settings())
    }

    pub fn with(settings: TreeSettings) -> Self {
        Self::of(Tree::new(Arc::new(settings)))
    }

    pub fn of(tree: Tree) -> Self {
        Self {
            overlay: Overlay::new(&tree),
            zxid: tree.last_zxid(),
            tree,
            watches: Mutex::default(),
            session: SESSION,
            session_check: Ok(SessionKind::Global),
            watcher: WATCHER,
            identities: vec![id("ip", "127.0.0.1")],
            time_ms: 1_000,
            in_flight: Vec::new(),
        }
    }

    /// Proposes a request without applying it.
    pub fn propose(&mut self, request: &WriteRequest) -> TxnRecord {
        self.zxid = self.zxid.next();
        let context = PrepareContext {
            session: self.session,
            cxid: 7,
            zxid: self.zxid,
            time_ms: self.time_ms,
            identities: &self.identities,
            session_check: self.session_check,
        };
        let record = self.overlay.prepare(&self.tree, request, &context);
        assert_eq!((record.header.zxid, record.header.cxid), (self.zxid, 7));
        assert_eq!(record.header.op, record.txn.op().number());
        self.in_flight.push(record.clone());
        record
    }

    /// Applies all proposed records; returns the last outcome and all events.
    pub fn commit(&mut self) -> (Outcome, Vec<Event>) {
        let mut events = Vec::new();
        let mut last = Outcome::Error(ErrorCode::Ok);
        for record in std::mem::take(&mut self.in_flight) {
            let mut watches = self.watches.lock();
            last = self.tree.apply(&record, &mut watches, &mut events);
            self.overlay.applied(record.header.zxid);
            if let Some(digest) = record.digest {
                assert_eq!(
                    self.tree.digest(),
                    digest.digest.cast_unsigned(),
                    "{record:?}"
                );
            }
        }
        assert_eq!(self.overlay.digest(), self.tree.digest());
        assert!(self.overlay.is_empty());
        (last, events)
    }

    pub fn write(&mut self, request: WriteRequest) -> (Outcome, Vec<Event>) {
        self.propose(&request);
        self.commit()
    }

    /// Writes and returns the error code.
    pub fn code(&mut self, request: WriteRequest) -> i32 {
        self.write(request).0.error().code()
    }

    pub fn events(&mut self, request: WriteRequest) -> Vec<Seen> {
        let (outcome, events) = self.write(request);
        assert_eq!(outcome.error(), ErrorCode::Ok);
        seen(&events)
    }

    /// Writes and returns the reply's body.
    pub fn body(&mut self, request: WriteRequest) -> Vec<u8> {
        let op = request.op();
        let mut out = Vec::new();
        self.write(request).0.encode_body(op, &mut out);
        out
    }

    /// Returns the codes of a multi's results. The header's code must be 0.
    pub fn results(&mut self, operations: Vec<WriteRequest>) -> Vec<i32> {
        match self.write(WriteRequest::Multi(Ok(operations))).0 {
            Outcome::Multi(results) => results.iter().map(|r| r.error().code()).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub fn read(&self, request: ReadRequest) -> Result<Vec<u8>, i32> {
        let (result, body) = self.read_raw(&request);
        match result {
            Ok(()) => Ok(body),
            Err(code) => {
                assert!(body.is_empty(), "{request:?}");
                Err(code.code())
            }
        }
    }

    pub fn read_raw(&self, request: &ReadRequest) -> (Result<(), ErrorCode>, Vec<u8>) {
        let caller = Caller {
            session: self.session,
            watcher: self.watcher,
            identities: &self.identities,
        };
        let mut out = Vec::new();
        let result = self.tree.read(request, &caller, &self.watches, &mut out);
        (result, out)
    }

    pub fn stat(&self, path: &str) -> Stat {
        let body = self.read(exists(path, false)).unwrap();
        Stat::decode(&mut Reader::new(body)).unwrap()
    }

    pub fn exists(&self, path: &str) -> bool {
        self.read(exists(path, false)).is_ok()
    }

    pub fn data(&self, path: &str) -> Option<Vec<u8>> {
        let body = self.read(get(path, false)).unwrap();
        Reader::new(body)
            .buffer()
            .unwrap()
            .map(|data| data.to_vec())
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8(self.data(path).unwrap()).unwrap()
    }

    /// Returns the sorted names of the children.
    pub fn children(&self, path: &str) -> Vec<Str> {
        let body = self.read(children(path, false)).unwrap();
        let mut names: Vec<Str> = Vec::decode(&mut Reader::new(body)).unwrap();
        names.sort();
        names
    }

    /// Returns the path of a created znode.
    pub fn created(&mut self, request: WriteRequest) -> String {
        match self.write(request).0 {
            Outcome::Created { path, .. } => path.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

pub fn seen(events: &[Event]) -> Vec<Seen> {
    let seen = |event: &Event| {
        let mut watchers: Vec<u64> = event.watchers.iter().map(|watcher| watcher.0).collect();
        watchers.sort_unstable();
        (
            event.event_type,
            event.path.to_string(),
            event.zxid.0,
            watchers,
        )
    };
    events.iter().map(seen).collect()
}

pub fn open() -> Option<Vec<RequestAcl>> {
    request_acl([Acl::open()])
}

pub fn create_request(path: &str, create_flags: i32) -> CreateRequest {
    CreateRequest {
        path: Some(path.into()),
        data: Some("".into()),
        acl: open(),
        flags: create_flags,
    }
}

pub fn create_as(op: OpCode, request: CreateRequest) -> WriteRequest {
    WriteRequest::Create {
        op,
        request,
        ttl: -1,
    }
}

pub fn create(path: &str) -> WriteRequest {
    create_as(OpCode::Create, create_request(path, flags::PERSISTENT))
}

pub fn create_flags(path: &str, create_flags: i32) -> WriteRequest {
    create_as(OpCode::Create, create_request(path, create_flags))
}

pub fn create_data(path: &str, data: &str) -> WriteRequest {
    let mut request = create_request(path, flags::PERSISTENT);
    request.data = Some(data.to_owned().into());
    create_as(OpCode::Create, request)
}

pub fn create_acl(path: &str, acl: &[Acl]) -> WriteRequest {
    let mut request = create_request(path, flags::PERSISTENT);
    request.acl = request_acl(acl.to_vec());
    create_as(OpCode::Create, request)
}

pub fn container(path: &str, create_flags: i32) -> WriteRequest {
    create_as(OpCode::CreateContainer, create_request(path, create_flags))
}

pub fn ttl(path: &str, create_flags: i32, ttl: i64) -> WriteRequest {
    WriteRequest::Create {
        op: OpCode::CreateTtl,
        request: create_request(path, create_flags),
        ttl,
    }
}

pub fn delete(path: &str) -> WriteRequest {
    delete_version(path, -1)
}

pub fn delete_version(path: &str, version: i32) -> WriteRequest {
    WriteRequest::Delete(PathVersionRequest {
        path: Some(path.into()),
        version,
    })
}

pub fn check(path: &str, version: i32) -> WriteRequest {
    WriteRequest::Check(PathVersionRequest {
        path: Some(path.into()),
        version,
    })
}

pub fn set(path: &str, data: &str) -> WriteRequest {
    set_version(path, data, -1)
}

pub fn set_version(path: &str, data: &str, version: i32) -> WriteRequest {
    WriteRequest::SetData(SetDataRequest {
        path: Some(path.into()),
        data: Some(data.to_owned().into()),
        version,
    })
}

pub fn set_acl(path: &str, acl: &[Acl], version: i32) -> WriteRequest {
    WriteRequest::SetAcl(SetAclRequest {
        path: Some(path.into()),
        acl: request_acl(acl.to_vec()),
        version,
    })
}

pub fn delete_container(path: &str) -> WriteRequest {
    WriteRequest::DeleteContainer { path: path.into() }
}

fn watched(path: &str, watch: bool) -> PathWatchRequest {
    PathWatchRequest {
        path: Some(path.into()),
        watch,
    }
}

pub fn exists(path: &str, watch: bool) -> ReadRequest {
    ReadRequest::Exists(watched(path, watch))
}

pub fn get(path: &str, watch: bool) -> ReadRequest {
    ReadRequest::GetData(watched(path, watch))
}

pub fn children(path: &str, watch: bool) -> ReadRequest {
    ReadRequest::GetChildren(watched(path, watch))
}

fn moded(path: &str, mode: i32) -> PathModeRequest {
    PathModeRequest {
        path: Some(path.into()),
        mode,
    }
}

pub fn add_watch(path: &str, mode: i32) -> ReadRequest {
    ReadRequest::AddWatch(moded(path, mode))
}

pub fn check_watches(path: &str, watcher_type: i32) -> ReadRequest {
    ReadRequest::CheckWatches(moded(path, watcher_type))
}

pub fn remove_watches(path: &str, watcher_type: i32) -> ReadRequest {
    ReadRequest::RemoveWatches(moded(path, watcher_type))
}

pub fn get_acl(path: &str) -> ReadRequest {
    ReadRequest::GetAcl(PathRequest {
        path: Some(path.into()),
    })
}

pub fn is_error(txn: &Txn, code: ErrorCode) -> bool {
    *txn == Txn::error(code)
}
