//! What the server holds, and what it runs on.

use super::answer::Answer;
use super::command::Call;
use super::json::Object;
use super::view::AdminView;
use crate::log_levels::LOG_LEVELS;
use crate::metrics::Memory;
use crate::role::Mode;
use crate::view::GlobalSessions;

/// Of the digests that are shown. Source: DigestCalculator.
const DIGEST_VERSION: i64 = 2;

pub(super) fn dirs(view: &dyn AdminView) -> Answer {
    let sizes = view.directory_sizes();
    let object = Object::new()
        .with("datadir_size", sizes.data)
        .with("logdir_size", sizes.log);
    Answer::found(object)
}

pub(super) fn dump(view: &dyn AdminView) -> Answer {
    let expiry: Object = match view.sessions().global {
        GlobalSessions::Expired(expiry) => expiry
            .sets
            .into_iter()
            .map(|(at_ms, ids)| (at_ms.to_string(), numbers(ids)))
            .collect(),
        // A learner does not expire sessions. Source: LearnerSessionTracker.
        GlobalSessions::Known(_) => Object::new(),
    };
    let ephemerals = view.ephemerals().into_iter();
    let ephemerals: Object = ephemerals
        .map(|(session, paths)| (session.0.to_string(), paths))
        .collect();
    let object = Object::new()
        .with("expiry_time_to_session_ids", expiry)
        .with("session_id_to_ephemeral_paths", ephemerals);
    Answer::found(object)
}

fn numbers(sessions: Vec<proto::SessionId>) -> Vec<i64> {
    sessions.into_iter().map(|session| session.0).collect()
}

pub(super) fn environment(view: &dyn AdminView) -> Answer {
    let entries = view.environment().entries(Memory::of_this_process());
    Answer::found(entries.into_iter().collect())
}

pub(super) fn trace_mask(view: &dyn AdminView) -> Answer {
    Answer::found(Object::new().with("tracemask", view.trace_mask()))
}

/// Source: SetTraceMaskCommand, Long.parseLong.
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

/// Which lines the log has; others with `levels`. Apache ZooKeeper has no such command.
pub(super) fn log_levels(call: &Call) -> Answer {
    if let Some(levels) = call.parameter("levels") {
        match LOG_LEVELS.change(levels) {
            Ok(()) => tracing::info!(levels, "levels of the log, by the admin server"),
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

/// Source: LastSnapshotCommand, SnapshotInfo: -1 each before the first.
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

pub(super) fn watches(view: &dyn AdminView) -> Answer {
    let by_session = view.watches_by_session().into_iter();
    let by_session: Object = by_session
        .map(|(session, paths)| (session.0.to_string(), paths))
        .collect();
    Answer::found(Object::new().with("session_id_to_watched_paths", by_session))
}

pub(super) fn watches_by_path(view: &dyn AdminView) -> Answer {
    let by_path = view.watches_by_path().into_iter();
    let by_path: Object = by_path
        .map(|(path, sessions)| (path, numbers(sessions)))
        .collect();
    Answer::found(Object::new().with("path_to_session_ids", by_path))
}
