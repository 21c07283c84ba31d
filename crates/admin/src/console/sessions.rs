//! Pages that list this member's sessions: clients, addresses, ephemerals and watches.

use std::collections::{BTreeMap, BTreeSet};

use metrics::view::{AdminView, ConnectionInfo, GlobalSessions};
use proto::SessionId;
use serde_json::{Value, json};

use super::ids::SessionIds;
use super::said::found;
use super::shown::hex;
use crate::answer::Answer;
use crate::limits::{SESSION_PATHS_SHOWN, SESSIONS_PAGE};

/// Selection of sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SessionsPage {
    /// Number of matching sessions before the page.
    pub(crate) skip: usize,
    /// Text that the displayed id or the address must contain.
    pub(crate) like: String,
}

/// Returns a page of sessions. Only an administrator sees whole session ids.
pub(crate) fn sessions_answer(
    view: &dyn AdminView,
    page: &SessionsPage,
    is_administrator: bool,
) -> Answer {
    let ids = SessionIds::new(is_administrator);
    let connections: BTreeMap<SessionId, ConnectionInfo> = view
        .connections()
        .into_iter()
        .filter(|connection| connection.session != SessionId::NONE)
        .map(|connection| (connection.session, connection))
        .collect();
    let mut all: BTreeSet<SessionId> = connections.keys().copied().collect();
    all.extend(known(view));
    let is_like = |id: &SessionId| {
        let peer = connections
            .get(id)
            .map(|connection| connection.peer.to_string());
        ids.text(id.0).contains(&page.like) || peer.is_some_and(|peer| peer.contains(&page.like))
    };
    let total = all.len();
    let mut shown: Vec<SessionId> = all
        .into_iter()
        .filter(is_like)
        .skip(page.skip)
        .take(SESSIONS_PAGE + 1)
        .collect();
    let has_more = shown.len() > SESSIONS_PAGE;
    shown.truncate(SESSIONS_PAGE);
    let wanted: BTreeSet<SessionId> = shown.iter().copied().collect();
    let owned = of_wanted(&wanted, |at| view.ephemerals(at));
    let watched = of_wanted(&wanted, |at| view.watches_by_session(at));
    let sessions = shown.iter().map(|id| {
        let paths = |of: &BTreeMap<SessionId, Vec<String>>| some(of.get(id));
        json!({
            "id": ids.text(id.0),
            "connection": connections.get(id).map(connection_json),
            "ephemerals": paths(&owned),
            "watches": paths(&watched),
        })
    });
    found(&json!({
        "total": total,
        "connected": connections.len(),
        "sessions": sessions.collect::<Vec<_>>(),
        "has_more": has_more,
    }))
}

/// Returns the paths of the wanted sessions. `part` returns the next part of a listing of the paths
/// of all sessions.
fn of_wanted<At: Default>(
    wanted: &BTreeSet<SessionId>,
    mut part: impl FnMut(&mut Option<At>) -> Vec<(SessionId, Vec<String>)>,
) -> BTreeMap<SessionId, Vec<String>> {
    let mut found = BTreeMap::<SessionId, Vec<String>>::new();
    let mut at = Some(At::default());
    while at.is_some() {
        for (id, paths) in part(&mut at) {
            if wanted.contains(&id) {
                found.entry(id).or_default().extend(paths);
            }
        }
    }
    found
}

/// Returns the sessions that this member knows, including those that are not connected to it.
fn known(view: &dyn AdminView) -> Vec<SessionId> {
    let sessions = view.sessions();
    let mut ids = match sessions.global {
        GlobalSessions::Expired(expiry) => {
            expiry.sets.into_iter().flat_map(|(_, ids)| ids).collect()
        }
        GlobalSessions::Known(known) => known.into_iter().map(|(id, _)| id).collect::<Vec<_>>(),
    };
    let local = sessions.local.into_iter().flat_map(|expiry| expiry.sets);
    ids.extend(local.flat_map(|(_, ids)| ids));
    ids
}

fn some(paths: Option<&Vec<String>>) -> Value {
    let mut paths: Vec<&String> = paths.into_iter().flatten().collect();
    paths.sort_unstable();
    let total = paths.len();
    paths.truncate(SESSION_PATHS_SHOWN);
    json!({ "total": total, "paths": paths })
}

fn connection_json(connection: &ConnectionInfo) -> Value {
    let figures = &connection.figures;
    let address = connection.peer.ip().to_canonical();
    json!({
        "address": address.to_string(),
        "port": connection.peer.port(),
        "timeout_ms": connection.timeout_ms,
        "queued": connection.queued,
        "established_ms": figures.established_ms,
        "received": figures.received,
        "sent": figures.sent,
        "last_operation": figures.last_op,
        "last_zxid": hex(figures.last_zxid.0),
        "average_latency_ms": figures.avg_latency_ms,
        "max_latency_ms": figures.max_latency_ms,
    })
}
