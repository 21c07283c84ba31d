//! Report of a server's current state in its log: threads, queues, sessions.
//!
//! The report works even if no port answers. Java prints its threads on the same signal (SIGQUIT).

use metrics::threads;
use metrics::view::View as _;
use proto::Zxid;

use crate::limits::REPORTED_SESSIONS_MAX;
use crate::view::LiveView;

/// Logs the state. `inbox` is the number of messages that wait for the core, and `on_disk` is the
/// last zxid in the log on disk.
pub fn log_state(view: &LiveView, inbox: usize, on_disk: Zxid) {
    log_server(view, inbox, on_disk);
    for thread in threads::of_this_process() {
        let (id, state, cpu_ms) = (thread.id, thread.state.name(), thread.cpu_ms);
        tracing::info!(thread = thread.name, id, state, cpu_ms, "thread");
    }
    log_sessions(view);
}

fn log_server(view: &LiveView, inbox: usize, on_disk: Zxid) {
    let (role, state) = (view.role(), view.state());
    tracing::info!(
        mode = role.mode.name(),
        serves = role.is_serving,
        zxid = %view.last_zxid(),
        %on_disk,
        znodes = state.znode_count,
        watches = state.watch_count,
        sessions = state.global_sessions,
        local_sessions = state.local_sessions,
        connections = state.connections,
        "state of the server"
    );
    let waiting: usize = {
        let all = view.registry.all();
        all.iter().map(|one| one.lock().client.waiting()).sum()
    };
    tracing::info!(
        core = inbox,
        outstanding = state.outstanding_requests,
        unanswered = waiting,
        tls_handshakes = state.outstanding_tls_handshakes,
        free_bytes_of_connections = view.ledger.buffered.free(),
        "queues"
    );
}

/// Logs the sessions that are connected to this server, in descending order of their numbers of
/// requests in progress.
fn log_sessions(view: &LiveView) {
    let mut connected = view.clients();
    connected.sort_by_key(|client| {
        let connection = &client.connection;
        (std::cmp::Reverse(connection.queued), connection.session)
    });
    let more = connected.len().saturating_sub(REPORTED_SESSIONS_MAX);
    for client in connected.into_iter().take(REPORTED_SESSIONS_MAX) {
        let connection = &client.connection;
        tracing::info!(
            session = %connection.session,
            peer = %connection.peer,
            timeout_ms = connection.timeout_ms,
            unanswered = connection.queued,
            watches = client.watches,
            ephemerals = client.ephemerals,
            last_op = connection.figures.last_op,
            max_latency_ms = connection.figures.max_latency_ms,
            "session"
        );
    }
    if more > 0 {
        tracing::info!(more, "further sessions are not listed");
    }
}
