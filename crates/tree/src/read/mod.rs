//! Reads, which are answered from the tree and encoded directly into the connection's buffer.
//!
//! Paths in reads are not validated, because a znode at an invalid path cannot exist. The checks
//! are made in the order of FinalRequestProcessor.

mod multi;
mod reply_size;
mod search;
mod set_watches;
mod watch;

use jute::{Encode, Str, put_buffer, put_len, put_str};
use parking_lot::Mutex;
use proto::data::perms;
use proto::request::{PathRequest, PathWatchRequest, ReadRequest};
use proto::{Acl, ErrorCode, Id, SessionId};

pub use self::reply_size::set_watches_bytes_max;
use self::reply_size::{DATA_REPLY_BYTES, string_bytes};
pub use self::search::{Found, Search, SearchPart, SearchPosition};
use crate::nodes::arena::NodeId;
use crate::watch::{Kinds, WatcherId, Watches};
use crate::{Tree, auth};

/// Caller of a read.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// Id of the session.
    pub session: SessionId,
    /// Id of the connection, for watches.
    pub watcher: WatcherId,
    /// Identities of the connection when the request arrived.
    pub identities: &'a [Id],
}

/// Reason why a read was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFailure {
    /// Error code for the reply's header.
    Error(ErrorCode),
    /// The body is longer than the limit. Nothing was appended and no watch was set, so the read
    /// can be repeated.
    TooLong {
        /// Limit that is sufficient as long as the tree does not change, bytes.
        bytes: usize,
    },
}

impl From<ErrorCode> for ReadFailure {
    fn from(code: ErrorCode) -> Self {
        Self::Error(code)
    }
}

/// Returns the path in a request, or MarshallingError for null.
fn required(path: Option<&Str>) -> Result<&Str, ErrorCode> {
    path.ok_or(ErrorCode::MarshallingError)
}

impl Tree {
    /// Answers a read by appending the reply's body to `out`.
    ///
    /// Watches are set under the lock of `watches`, which is held only for that.
    ///
    /// # Errors
    /// The error code for the reply's header. In this case, a multiRead may have appended bytes,
    /// which are sent as the body. For setWatches, the error is Unimplemented (see
    /// [`Tree::set_watches`]).
    pub fn read(
        &self,
        request: &ReadRequest,
        caller: &Caller<'_>,
        watches: &Mutex<Watches>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorCode> {
        let answered = self.read_within(usize::MAX, request, caller, watches, out);
        answered.map_err(|unanswered| match unanswered {
            ReadFailure::Error(code) => code,
            // A body is never longer than `usize::MAX` bytes.
            ReadFailure::TooLong { .. } => ErrorCode::SystemError,
        })
    }

    /// Answers a read like [`Tree::read`], with a body of at most `bytes_max` bytes. Replies of a
    /// fixed length, whoAmI, and the stat in getChildren2 are not limited.
    ///
    /// # Errors
    /// If [`Tree::read`] would fail, or if the body would exceed `bytes_max`.
    pub fn read_within(
        &self,
        bytes_max: usize,
        request: &ReadRequest,
        caller: &Caller<'_>,
        watches: &Mutex<Watches>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadFailure> {
        match request {
            ReadRequest::Exists(request) => self.exists(request, caller, watches, out)?,
            ReadRequest::GetData(request) => {
                let id = self.readable(request.path.as_ref(), caller)?;
                self.put_data(id, bytes_max, out)?;
                set_watch_for_read(request, Kinds::DATA, caller, watches);
            }
            ReadRequest::GetChildren(request) => {
                let id = self.readable(request.path.as_ref(), caller)?;
                self.put_children(id, bytes_max, out)?;
                set_watch_for_read(request, Kinds::CHILD, caller, watches);
            }
            ReadRequest::GetChildren2(request) => {
                let id = self.readable(request.path.as_ref(), caller)?;
                self.put_children(id, bytes_max, out)?;
                self.arena[id].stat(self.rules).encode(out);
                set_watch_for_read(request, Kinds::CHILD, caller, watches);
            }
            ReadRequest::GetAcl(request) => self.get_acl(bytes_max, request, caller, out)?,
            ReadRequest::GetAllChildrenNumber(request) => {
                let id = self.readable(request.path.as_ref(), caller)?;
                let names_itself = request.path.as_ref().is_some_and(|path| path.is_empty());
                let count = self.count_descendants(id) + i32::from(names_itself);
                count.encode(out);
            }
            ReadRequest::GetEphemerals(request) => {
                self.get_ephemerals(bytes_max, request, caller, out)?;
            }
            ReadRequest::MultiRead(request) => self.multi_read(bytes_max, request, caller, out)?,
            ReadRequest::CheckWatches(request) => watch::check(request, caller, watches)?,
            ReadRequest::RemoveWatches(request) => watch::remove(request, caller, watches)?,
            ReadRequest::AddWatch(request) => watch::add(request, caller, watches, out)?,
            ReadRequest::WhoAmI => put_identities(caller.identities, out),
            ReadRequest::Ping => {}
            ReadRequest::SetWatches(_) => return Err(ErrorCode::Unimplemented.into()),
        }
        Ok(())
    }

    /// Answers exists. Sets the requested watch even if the znode is missing, but not if the caller
    /// may not read the znode.
    fn exists(
        &self,
        request: &PathWatchRequest,
        caller: &Caller<'_>,
        watches: &Mutex<Watches>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorCode> {
        let path = required(request.path.as_ref())?;
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let found = self.lookup(path);
        if let Some(id) = found {
            self.check(id, perms::READ, caller.identities)?;
        }
        set_watch_for_read(request, Kinds::DATA, caller, watches);
        let id = found.ok_or(ErrorCode::NoNode)?;
        self.arena[id].stat(self.rules).encode(out);
        Ok(())
    }

    /// Returns the znode at a path if the caller may read it.
    fn readable(&self, path: Option<&Str>, caller: &Caller<'_>) -> Result<NodeId, ErrorCode> {
        let path = required(path)?;
        let id = self.lookup(path).ok_or(ErrorCode::NoNode)?;
        self.check(id, perms::READ, caller.identities)?;
        Ok(id)
    }

    fn check(&self, id: NodeId, wanted: i32, identities: &[Id]) -> Result<(), ErrorCode> {
        let acl = self.acl_of(id).map(|acl| &**acl);
        if self.permits(acl, wanted, identities) {
            Ok(())
        } else {
            Err(ErrorCode::NoAuth)
        }
    }

    fn put_data(&self, id: NodeId, bytes_max: usize, out: &mut Vec<u8>) -> Result<(), ReadFailure> {
        let node = &self.arena[id];
        let bytes = DATA_REPLY_BYTES + node.body.data_len();
        if bytes > bytes_max {
            return Err(ReadFailure::TooLong { bytes });
        }
        out.reserve(bytes);
        put_buffer(node.body.data(), out);
        node.stat(self.rules).encode(out);
        Ok(())
    }

    fn put_children(
        &self,
        id: NodeId,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadFailure> {
        let start = out.len();
        self.arena[id].num_children.cast_signed().encode(out);
        let mut names = self.children(id).map(|child| self.arena[child].body.name());
        while let Some(name) = names.next() {
            put_str(Some(name), out);
            if out.len() - start > bytes_max {
                let bytes = out.len() - start + names.map(string_bytes).sum::<usize>();
                out.truncate(start);
                return Err(reply_size::with_stat(bytes));
            }
        }
        Ok(())
    }

    /// Answers getACL. If the caller has only the read permission, the hashes are omitted, because
    /// passwords could be guessed from them.
    fn get_acl(
        &self,
        bytes_max: usize,
        request: &PathRequest,
        caller: &Caller<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadFailure> {
        let path = required(request.path.as_ref())?;
        let id = self.lookup(path).ok_or(ErrorCode::NoNode)?;
        self.check(id, perms::READ | perms::ADMIN, caller.identities)?;
        let acl: &[Acl] = self.acl_of(id).map_or(&[], |acl| acl);
        let start = out.len();
        if self.check(id, perms::ADMIN, caller.identities).is_ok() {
            acl.encode(out);
        } else {
            let redacted: Vec<Acl> = acl.iter().map(redacted).collect();
            redacted.encode(out);
        }
        self.arena[id].stat(self.rules).encode(out);
        // The reply may be encoded before this check, because an ACL list is never longer than a
        // transaction.
        reply_size::check_reply_size(start, bytes_max, out)
    }

    fn count_descendants(&self, id: NodeId) -> i32 {
        let count = if id == Self::ROOT {
            self.node_count - 1
        } else {
            self.descendants(id).count()
        };
        i32::try_from(count).unwrap_or(i32::MAX)
    }

    /// Lists the caller's ephemeral znodes whose paths begin with a prefix. A blank prefix and `/`
    /// list all of them. Permissions are not checked.
    fn get_ephemerals(
        &self,
        bytes_max: usize,
        request: &PathRequest,
        caller: &Caller<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadFailure> {
        let prefix = request.path.as_deref().unwrap_or_default();
        // Trims exactly the characters that String.trim removes.
        let trimmed = prefix.trim_matches(|character| character <= ' ');
        let is_all = matches!(trimmed, "" | "/");
        let owned = self.ephemerals_of(caller.session);
        // Appends one path at a time, because each may be as long as a request.
        let mut paths = owned
            .map(|id| self.path_of(id))
            .filter(|path| is_all || path.starts_with(prefix));
        let start = out.len();
        let mut count = 0i32;
        count.encode(out);
        while let Some(path) = paths.next() {
            put_str(Some(&path), out);
            count += 1;
            if out.len() - start > bytes_max {
                let rest = paths.map(|path| string_bytes(&path)).sum::<usize>();
                let bytes = out.len() - start + rest;
                out.truncate(start);
                return Err(ReadFailure::TooLong { bytes });
            }
        }
        out[start..start + reply_size::LEN_BYTES].copy_from_slice(&count.to_be_bytes());
        Ok(())
    }
}

fn set_watch_for_read(
    request: &PathWatchRequest,
    kinds: Kinds,
    caller: &Caller<'_>,
    watches: &Mutex<Watches>,
) {
    if request.watch {
        watches
            .lock()
            .add(caller.watcher, request.path.as_deref(), kinds);
    }
}

fn redacted(entry: &Acl) -> Acl {
    let mut entry = entry.clone();
    if entry.id.scheme == auth::DIGEST
        && let Some((user, _)) = entry.id.id.split_once(':')
    {
        entry.id.id = format!("{user}:x").into();
    }
    entry
}

/// Appends the distinct identities, because Java's identities form a set.
fn put_identities(identities: &[Id], out: &mut Vec<u8>) {
    let distinct = auth::in_java_order(identities);
    put_len(distinct.len(), out);
    for id in distinct {
        put_str(Some(&id.scheme), out);
        put_str(Some(auth::user_name(id)), out);
    }
}
