//! State of the replica that its host stores, guarded by locks. It is also read by connections, by
//! learners that receive a snapshot, and by the thread that writes snapshots.

use std::ops::{Deref, DerefMut};

use jute::Limits;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use proto::SessionId;
use replica::connection::{Responder, Resume};
use replica::session::SessionIds;
use replica::session::Sessions;
use replica::{NewSession, State};
use tree::{CurrentGeneration, Generation, SharedWatches, Tree, Watches};

use crate::{ConnectionStatus, SharedConnection};

/// Tree, watches and sessions.
///
/// The order of locks is: `tree`, a connection's state, then `watches` or `sessions`.
#[derive(Debug)]
pub struct ServerState {
    /// Tree of znodes.
    pub tree: RwLock<Tree>,
    /// The watches on the tree's znodes.
    pub watches: SharedWatches,
    /// The sessions that this server knows.
    pub sessions: Mutex<Sessions>,
    /// Generation of the tree.
    generation: CurrentGeneration,
    session_ids: Mutex<SessionIds>,
}

impl ServerState {
    /// Creates the state of a server that does not serve clients yet. New sessions receive ids from
    /// `session_ids`. The end of the server's log may not be committed, so the tree is not
    /// established.
    pub fn new(tree: Tree, tick_ms: i64, session_ids: SessionIds) -> Self {
        Self {
            session_ids: Mutex::new(session_ids),
            tree: RwLock::new(tree),
            watches: Mutex::default(),
            sessions: Mutex::new(Sessions::reporting(tick_ms)),
            generation: CurrentGeneration::default(),
        }
    }

    /// Creates a session with a new id, whose timeout starts at `now_ms`.
    pub fn new_session(&self, new: NewSession, now_ms: i64) -> SessionId {
        let next_id = || self.session_ids.lock().next();
        new.begin(self, now_ms, next_id)
    }

    /// Returns the approximate size of the tree in a snapshot, bytes.
    pub fn tree_bytes(&self) -> usize {
        let bytes = self.tree.read().approximate_data_size();
        usize::try_from(bytes).unwrap_or(0)
    }

    /// Records that a connection's session was active. Returns `false` if the session is over or
    /// has moved to another server.
    pub fn touch(&self, status: &ConnectionStatus, now_ms: i64) -> bool {
        let (session, timeout_ms) = (status.session(), status.timeout_ms());
        self.sessions.lock().touch_here(session, timeout_ms, now_ms)
    }

    /// Calls `take` to handle requests of a connection while the tree is locked for reading.
    /// Returns `None` if the connection has ended. In that case, the server's role may be over, and
    /// the tree may contain data that was never committed.
    pub fn take_requests(
        &self,
        connection: &impl SharedConnection,
        take: impl FnOnce(&Tree) -> Resume,
    ) -> Option<Resume> {
        let tree = self.tree.read();
        if connection.status().is_closed() {
            return None;
        }
        let next = take(&tree);
        drop(tree);
        if next == Resume::Close {
            connection.close();
        }
        Some(next)
    }

    /// Returns a responder that answers requests of a connection from this tree, in the
    /// connection's session if it has one.
    pub fn responder<'a>(
        &'a self,
        tree: &'a Tree,
        status: &ConnectionStatus,
        now_ms: u64,
        field_limits: Limits,
    ) -> Responder<'a> {
        Responder {
            tree,
            watches: &self.watches,
            session: status.session(),
            watcher: status.id,
            now_ms,
            field_limits,
        }
    }
}

impl State for ServerState {
    fn tree(&self) -> impl Deref<Target = Tree> {
        self.tree.read()
    }

    fn tree_mut(&self) -> impl DerefMut<Target = Tree> {
        FairGuard(Some(self.tree.write()))
    }

    fn replace_tree(&self, tree: Tree) {
        let mut place = self.tree.write();
        self.begin_unestablished();
        let replaced = std::mem::replace(&mut *place, tree);
        drop(place);
        // The lock is released first, because dropping millions of znodes takes a while.
        drop(replaced);
    }

    fn generation(&self) -> Generation {
        self.generation.get()
    }

    fn begin_unestablished(&self) {
        self.generation.begin_unestablished();
    }

    fn establish(&self) {
        self.generation.establish();
    }

    fn watches(&self) -> impl DerefMut<Target = Watches> {
        self.watches.lock()
    }

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.sessions.lock()
    }
}

/// Exclusive lock of the tree. When it is dropped, the lock is handed to a waiting thread.
struct FairGuard<'a>(Option<RwLockWriteGuard<'a, Tree>>);

impl Deref for FairGuard<'_> {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        self.0
            .as_ref()
            .expect("the lock is held until the guard is dropped")
    }
}

impl DerefMut for FairGuard<'_> {
    fn deref_mut(&mut self) -> &mut Tree {
        self.0
            .as_mut()
            .expect("the lock is held until the guard is dropped")
    }
}

impl Drop for FairGuard<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            RwLockWriteGuard::unlock_fair(guard);
        }
    }
}
