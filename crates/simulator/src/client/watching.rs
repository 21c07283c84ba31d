//! Watches of a client's session: how they are armed, fired and re-armed.

use proto::request::{PathModeRequest, PathWatchRequest, ReadRequest, SetWatchesRequest};
use proto::watch::EventType;
use proto::{ErrorCode, SessionId, Zxid};

use crate::invariants::CheckResult;
use crate::invariants::watches::{self, Armed, WatchKind};

/// All watches of the session that the client knows of.
#[derive(Debug, Default)]
pub(super) struct Watching(Vec<Armed>);

impl Watching {
    pub(super) fn all(&self) -> &[Armed] {
        &self.0
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn hear(&mut self, event: EventType, path: &str) {
        for watch in &mut self.0 {
            watch.heard += usize::from(watch.is_met_by(event, path));
        }
        self.0
            .retain(|watch| watch.stays() || !watch.is_met_by(event, path));
    }

    /// Returns the request that re-arms the watches on the next server, or `None` without watches.
    pub(super) fn set_again(&mut self, seen: Zxid) -> Option<ReadRequest> {
        if self.0.is_empty() {
            return None;
        }
        // A persistent watch starts again with the reply. So does an exists watch, because it does
        // not notice a znode that was created and deleted in the meantime (DataTree.setWatches).
        for watch in self.0.iter_mut().filter(|watch| begins_anew(watch)) {
            watch.since = Zxid(i64::MAX);
        }
        let paths = |kind: WatchKind| {
            let these = self.0.iter().filter(|watch| watch.kind == kind);
            let paths = these.map(|watch| Some(watch.path.as_str().into()));
            Some(paths.collect())
        };
        Some(ReadRequest::SetWatches(SetWatchesRequest {
            relative_zxid: seen.0,
            data: paths(WatchKind::Data),
            exist: paths(WatchKind::Exist),
            child: paths(WatchKind::Children),
            persistent: paths(WatchKind::Persistent),
            persistent_recursive: paths(WatchKind::Recursive),
        }))
    }

    /// Updates the watches after the reply to a read as of `zxid`.
    pub(super) fn answered(&mut self, read: &ReadRequest, zxid: Zxid, error: Option<ErrorCode>) {
        match read {
            ReadRequest::SetWatches(_) => {
                for watch in self.0.iter_mut().filter(|watch| begins_anew(watch)) {
                    (watch.since, watch.heard) = (zxid, 0);
                }
            }
            ReadRequest::RemoveWatches(request) if error.is_none() => {
                let is_meant = |watch: &Armed| is_meant(watch, request);
                self.0.retain(|watch| !is_meant(watch));
            }
            read => {
                if let Some(armed) = armed_by(read, zxid, error) {
                    self.arm(armed);
                }
            }
        }
    }

    fn arm(&mut self, armed: Armed) {
        let is_there = |watch: &Armed| (watch.kind, &watch.path) == (armed.kind, &armed.path);
        if !self.0.iter().any(is_there) {
            self.0.push(armed);
        }
    }

    /// Checks the reply to checkWatches.
    pub(super) fn check(
        &self,
        session: SessionId,
        request: &PathModeRequest,
        error: Option<ErrorCode>,
    ) -> CheckResult {
        let armed = self.0.iter().any(|watch| is_meant(watch, request));
        let path = request.path.as_deref().unwrap_or_default();
        watches::checked(session, path, error.is_none(), armed)
    }
}

/// Returns whether the watch may miss changes that are made while the session is disconnected.
fn begins_anew(watch: &Armed) -> bool {
    watch.stays() || watch.kind == WatchKind::Exist
}

/// Returns whether a removeWatches or checkWatches request applies to the watch.
fn is_meant(watch: &Armed, request: &PathModeRequest) -> bool {
    let is_kind = match (request.mode, watch.kind) {
        (1, kind) => kind == WatchKind::Children,
        (2, kind) => matches!(kind, WatchKind::Data | WatchKind::Exist),
        (4, kind) => kind == WatchKind::Persistent,
        (5, kind) => kind == WatchKind::Recursive,
        _ => true,
    };
    is_kind && request.path.as_deref() == Some(watch.path.as_str())
}

/// Returns the watch that a read arms, if any.
fn armed_by(read: &ReadRequest, since: Zxid, error: Option<ErrorCode>) -> Option<Armed> {
    let on = |request: &PathWatchRequest| request.path.clone().filter(|_| request.watch);
    let (path, kind) = match (read, error) {
        (ReadRequest::GetData(request), None) => (on(request)?, WatchKind::Data),
        (ReadRequest::GetChildren(request) | ReadRequest::GetChildren2(request), None) => {
            (on(request)?, WatchKind::Children)
        }
        (ReadRequest::Exists(request), None) => (on(request)?, WatchKind::Data),
        (ReadRequest::Exists(request), Some(ErrorCode::NoNode)) => (on(request)?, WatchKind::Exist),
        (ReadRequest::AddWatch(request), None) => {
            let kind = match request.mode {
                0 => WatchKind::Persistent,
                _ => WatchKind::Recursive,
            };
            (request.path.clone()?, kind)
        }
        _ => return None,
    };
    Some(Armed::new(path.to_string(), kind, since))
}
