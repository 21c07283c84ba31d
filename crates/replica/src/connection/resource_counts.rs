//! Resources that a client occupies for an unlimited time: watches and ephemeral znodes.

use proto::request::{CreateRequest, WriteRequest, flags};
use tree::{Tree, Watches};

use super::answering::Responder;
use super::queue::{ClientConnection, QueuedWork, WaitingRead};
use super::request::RequestKind;

/// Numbers of watches and ephemeral znodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceCounts {
    /// Number of watches in both tables, counted like [`Watches::count`].
    pub watches: usize,
    /// Total size of the watched paths, bytes.
    pub watch_bytes: usize,
    /// Number of ephemeral znodes.
    pub ephemerals: usize,
}

impl ResourceCounts {
    /// Returns whether a request can increase these numbers.
    pub fn may_grow_by(kind: &RequestKind) -> bool {
        match kind {
            RequestKind::Write(request) => ephemerals_of(request) > 0,
            RequestKind::Read(_, request) => Watches::may_grow_by(request),
            _ => false,
        }
    }

    /// Returns the amount that a request adds.
    pub(super) fn added_by(kind: &RequestKind, responder: &Responder<'_>) -> Self {
        let nothing = Self::default();
        match kind {
            RequestKind::Write(request) => Self {
                ephemerals: ephemerals_of(request),
                ..nothing
            },
            RequestKind::Read(_, request) if Watches::may_grow_by(request) => {
                let watches = responder.watches.lock();
                Self {
                    watches: watches.added_by(responder.watcher, request),
                    watch_bytes: watches.path_bytes_added_by(responder.watcher, request),
                    ..nothing
                }
            }
            _ => nothing,
        }
    }

    /// Returns the amount that a client occupies, including what its waiting requests will add.
    pub fn of<N>(client: &ClientConnection<N>, responder: &Responder<'_>) -> Self {
        let Responder {
            tree,
            watches,
            session,
            watcher,
            ..
        } = *responder;
        let tree: &Tree = tree;
        let watches = watches.lock();
        let mut held = Self {
            watches: watches.count_of(watcher),
            watch_bytes: watches.path_bytes_of(watcher),
            ephemerals: tree.ephemeral_count(session),
        };
        for queued in client.requests() {
            match &queued.work {
                QueuedWork::Write { ephemerals } => held.ephemerals += ephemerals,
                QueuedWork::Read { request, .. } => {
                    let (count, bytes) = match request {
                        WaitingRead::Decoded(request) => (
                            watches.added_by(watcher, request),
                            watches.path_bytes_added_by(watcher, request),
                        ),
                        WaitingRead::Encoded(proto::OpCode::MultiRead, _) => (0, 0),
                        // The list is not decoded, so this assumes as many paths as can fit into
                        // it.
                        WaitingRead::Encoded(_, body) => (body.len() / PATH_BYTES_MIN, body.len()),
                    };
                    held.watches += count;
                    held.watch_bytes += bytes;
                }
                _ => {}
            }
        }
        held
    }
}

/// Size of the shortest path in a list, including its length field, bytes.
const PATH_BYTES_MIN: usize = 5;

/// Returns the number of ephemeral znodes that a write creates if it succeeds.
pub(super) fn ephemerals_of(request: &WriteRequest) -> usize {
    match request {
        WriteRequest::Create { request, .. } => usize::from(is_ephemeral(request)),
        WriteRequest::Multi(Ok(requests)) => requests.iter().map(ephemerals_of).sum(),
        _ => 0,
    }
}

fn is_ephemeral(request: &CreateRequest) -> bool {
    matches!(
        request.flags,
        flags::EPHEMERAL | flags::EPHEMERAL_SEQUENTIAL
    )
}
