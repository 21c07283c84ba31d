//! The in-memory tree of znodes, and all decisions that depend on it.
//!
//! * [`Tree`] contains znodes, sessions, ACL lists and quotas. [`Tree::apply`] applies a committed
//!   transaction, [`Tree::read`] answers a read.
//! * [`Overlay`] converts requests to transactions: [`Overlay::prepare`] checks a request against
//!   the tree and the transactions that are proposed but not applied yet.
//! * [`Watches`] contains the watches, and an [`Event`] lists the watchers to notify.
//! * [`SnapshotCursor`] writes a tree, and [`TreeLoader`] builds one.
//! * [`auth`] decides permissions.
//!
//! The crate does not use sockets, clocks, files or threads. A [`PrepareContext`] and a transaction
//! contain the time. A host protects the tree with a lock, applies transactions in zxid order, and
//! reports each applied transaction to the overlay.
//!
//! ```
//! use std::sync::Arc;
//! use proto::request::{CreateRequest, WriteRequest, flags};
//! use proto::{Acl, OpCode, SessionId, Zxid, multi::request_acl};
//! use zoarium_tree::{Overlay, PrepareContext, SessionKind, Tree, TreeSettings, Watches};
//!
//! let limits = jute::Limits::from_max_buffer(1 << 20, 1 << 20);
//! let mut tree = Tree::new(Arc::new(TreeSettings::new(limits)));
//! let mut overlay = Overlay::new(&tree);
//! let request = WriteRequest::Create {
//!     op: OpCode::Create,
//!     request: CreateRequest {
//!         path: Some("/a".into()),
//!         data: Some("hi".into()),
//!         acl: request_acl([Acl::open()]),
//!         flags: flags::PERSISTENT,
//!     },
//!     ttl: -1,
//! };
//! let context = PrepareContext {
//!     session: SessionId(1),
//!     cxid: 1,
//!     zxid: Zxid(2),
//!     time_ms: 0x1a1_fffb_9c55,
//!     identities: &[],
//!     session_check: Ok(SessionKind::Global),
//! };
//! let record = overlay.prepare(&tree, &request, &context);
//! tree.apply(&record, &mut Watches::new(), &mut Vec::new());
//! overlay.applied(record.header.zxid);
//! assert_eq!(tree.digest(), 0xc914_65d9);
//! ```

mod apply;
pub mod auth;
mod nodes;
pub mod path;
mod prepare;
mod quota;
mod read;
mod settings;
mod snapshot;
mod tree;
mod watch;

pub use apply::Outcome;
pub use prepare::{Overlay, PrepareContext, SessionKind};
pub use quota::QuotaReport;
pub use read::{
    Caller, Found, ReadFailure, Search, SearchPart, SearchPosition, set_watches_bytes_max,
};
pub use settings::TreeSettings;
pub use snapshot::load::{LoadError, TreeLoader};
pub use snapshot::write::SnapshotCursor;
pub use tree::Tree;
pub use tree::digest::DigestMismatch;
pub use tree::generation::{CurrentGeneration, Generation};
pub use tree::listing::EphemeralOwners;
pub use watch::{Event, SharedWatches, WatchSummary, WatchedPaths, WatcherId, Watchers, Watches};
