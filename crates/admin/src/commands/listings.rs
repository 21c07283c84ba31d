//! Commands that list the state of the server and its environment.

use metrics::Memory;
use metrics::log_levels::LOG_LEVELS;
use metrics::role::Mode;
use metrics::view::{AdminView, GlobalSessions};
use proto::SessionId;
use tree::{EphemeralOwners, WatchedPaths, Watchers};

use super::command::Call;
use crate::answer::{Answer, Json, Listing, Object};

/// Version of the digests. Source: DigestCalculator.
const DIGEST_VERSION: i64 = 2;

pub(super) fn dirs(view: &dyn AdminView) -> Answer {
    let sizes = view.directory_sizes();
    let object = Object::new()
        .with("datadir_size", sizes.data)
        .with("logdir_size", sizes.log);
    Answer::found(object)
}

pub(super) fn dump(view: &dyn AdminView) -> Listing {
    let expiry: Vec<(u64, Vec<SessionId>)> = match view.sessions().global {
        GlobalSessions::Expired(expiry) => expiry.sets,
        // A learner does not expire sessions. Source: LearnerSessionTracker.
        GlobalSessions::Known(_) => Vec::new(),
    };
    let mut expiry = expiry.into_iter();
    let mut at = Some(EphemeralOwners::default());
    Listing::new(Object::new())
        .with_map("expiry_time_to_session_ids", move |_| {
            let (at_ms, sessions) = expiry.next()?;
            Some(vec![(at_ms.to_string(), numbers(sessions))])
        })
        .with_map("session_id_to_ephemeral_paths", move |view| {
            at.as_ref()?;
            Some(paths_of_sessions(view.ephemerals(&mut at)))
        })
}

/// Converts the paths of each session to JSON.
fn paths_of_sessions(sessions: Vec<(SessionId, Vec<String>)>) -> Vec<(String, Vec<Json>)> {
    let sessions = sessions.into_iter().map(|(session, paths)| {
        let paths = paths.into_iter().map(Json::from);
        (session.0.to_string(), paths.collect())
    });
    sessions.collect()
}

fn numbers(sessions: Vec<SessionId>) -> Vec<Json> {
    let sessions = sessions.into_iter();
    sessions.map(|session| session.0.into()).collect()
}

pub(super) fn environment(view: &dyn AdminView) -> Answer {
    let entries = view.environment().entries(Memory::of_this_process());
    Answer::found(entries.into_iter().collect())
}

pub(super) fn trace_mask(view: &dyn AdminView) -> Answer {
    Answer::found(Object::new().with("tracemask", view.trace_mask()))
}

/// Sets the trace mask. Source: SetTraceMaskCommand, Long.parseLong.
pub(super) fn set_trace_mask(view: &dyn AdminView, call: &Call) -> Answer {
    const WANTED: &str = "setTraceMask requires long traceMask argument";
    let Some(text) = call.parameter("traceMask") else {
        return Answer::error(WANTED);
    };
    let Ok(mask) = text.parse::<i64>() else {
        return Answer::error(format!("{WANTED}, got {text}"));
    };
    view.set_trace_mask(mask);
    trace_mask(view)
}

/// Returns the log levels, after setting them if the parameter `levels` is present. Apache
/// ZooKeeper lacks this command.
pub(super) fn log_levels(call: &Call) -> Answer {
    if let Some(levels) = call.parameter("levels") {
        match LOG_LEVELS.change(levels) {
            Ok(()) => tracing::info!(levels, "log levels changed through the admin server"),
            Err(error) => return Answer::error(error.to_string()),
        }
    }
    Answer::found(Object::new().with("levels", LOG_LEVELS.current()))
}

pub(super) fn hash(view: &dyn AdminView) -> Answer {
    let digests = view.digests().into_iter().map(|(zxid, digest)| {
        Object::new()
            .with("zxid", zxid.0)
            .with("digest", digest)
            .with("digest_version", DIGEST_VERSION)
    });
    Answer::found(Object::new().with("digests", digests.collect::<Vec<_>>()))
}

pub(super) fn initial_configuration(view: &dyn AdminView) -> Answer {
    Answer::found(Object::new().with("initial_configuration", view.initial_configuration()))
}

pub(super) fn is_read_only(view: &dyn AdminView) -> Answer {
    let is_read_only = view.role().mode == Mode::ReadOnly;
    Answer::found(Object::new().with("read_only", is_read_only))
}

/// Returns the zxid and the time of the last snapshot. Both are -1 before the first snapshot.
/// Source: LastSnapshotCommand, SnapshotInfo.
pub(super) fn last_snapshot(view: &dyn AdminView) -> Answer {
    let last = view.last_snapshot();
    let zxid = last.map_or(-1, |last| last.zxid.0);
    let object = Object::new()
        .with("zxid", format!("{zxid:x}"))
        .with("timestamp", last.map_or(-1, |last| last.at_s));
    Answer::found(object)
}

pub(super) fn system_properties(view: &dyn AdminView) -> Answer {
    Answer::found(view.system_properties().into_iter().collect())
}

pub(super) fn watch_summary(view: &dyn AdminView) -> Answer {
    let summary = view.watch_summary();
    let object = Object::new()
        .with("num_connections", summary.watchers as u64)
        .with("num_paths", summary.paths as u64)
        .with("num_total_watches", summary.watches as u64);
    Answer::found(object)
}

pub(super) fn watches() -> Listing {
    let mut at = Some(Watchers::default());
    Listing::new(Object::new()).with_map("session_id_to_watched_paths", move |view| {
        at.as_ref()?;
        Some(paths_of_sessions(view.watches_by_session(&mut at)))
    })
}

pub(super) fn watches_by_path() -> Listing {
    let mut at = Some(WatchedPaths::default());
    Listing::new(Object::new()).with_map("path_to_session_ids", move |view| {
        at.as_ref()?;
        let part = view.watches_by_path(&mut at).into_iter();
        Some(part.map(|(path, ids)| (path, numbers(ids))).collect())
    })
}
