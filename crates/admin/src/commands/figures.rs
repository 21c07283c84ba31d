//! `configuration`, `connections`, `monitor`, `server_stats` and `stats`: counters of the server.

use std::fmt;

use http::StatusCode;
use metrics::role::{Mode, RoleView};
use metrics::version;
use metrics::view::{AdminView, ConnectionInfo};
use metrics::{BufferSizes, Number, mntr, read_all};
use proto::SessionId;

use crate::answer::{Answer, Json, Listing, Object};

pub(super) fn configuration(view: &dyn AdminView) -> Answer {
    let conf = view.configuration();
    let object = Object::new()
        .with("client_port", conf.client_port)
        .with("data_dir", conf.data_dir)
        .with("data_log_dir", conf.data_log_dir)
        .with("tick_time", conf.tick_time_ms)
        .with("max_client_cnxns", conf.max_client_cnxns)
        .with("min_session_timeout", conf.min_session_timeout_ms)
        .with("max_session_timeout", conf.max_session_timeout_ms)
        .with("server_id", conf.server_id)
        .with("client_port_listen_backlog", conf.listen_backlog);
    Answer::found(object)
}

pub(super) fn connections() -> Listing {
    each(Object::new(), full)
}

/// Number of connections in one part of the answer.
const CONNECTIONS: usize = 100;

/// Creates a listing of these fields, followed by the connections, oldest first.
fn each(fields: Object, describe: fn(&ConnectionInfo) -> Object) -> Listing {
    let mut left = None;
    Listing::new(fields)
        .with_array("connections", move |view| {
            let left = left.get_or_insert_with(|| {
                let mut all = view.connections();
                all.sort_by_key(|connection| connection.figures.established_ms);
                all.into_iter()
            });
            let some = left.by_ref().take(CONNECTIONS);
            let some: Vec<Json> = some
                .map(|connection| describe(&connection).into())
                .collect();
            (!some.is_empty()).then_some(some)
        })
        .with("secure_connections", Vec::<Json>::new())
}

/// Describes a connection briefly. Source: NIOServerCnxn.getConnectionInfo.
fn brief(connection: &ConnectionInfo) -> Object {
    let figures = &connection.figures;
    let peer = connection.peer;
    // Jackson writes the address without a slash, and an IPv6 address in brackets.
    Object::new()
        .with(
            "remote_socket_address",
            std::net::SocketAddr::new(peer.ip().to_canonical(), peer.port()).to_string(),
        )
        .with("interest_ops", i64::from(connection.interest.bits()))
        .with("outstanding_requests", connection.queued)
        .with("packets_received", figures.received)
        .with("packets_sent", figures.sent)
}

fn full(connection: &ConnectionInfo) -> Object {
    let figures = &connection.figures;
    if connection.session == SessionId::NONE {
        return brief(connection);
    }
    brief(connection)
        .with("session_id", connection.session.0)
        .with("last_operation", figures.last_op)
        .with("established", figures.established_ms)
        .with("session_timeout", connection.timeout_ms)
        .with("last_cxid", figures.last_cxid)
        .with("last_zxid", figures.last_zxid.0)
        .with("last_response_time", figures.last_response_ms)
        .with("last_latency", figures.last_latency_ms)
        .with("min_latency", figures.min_latency_ms)
        .with("avg_latency", figures.avg_latency_ms)
        .with("max_latency", figures.max_latency_ms)
}

pub(super) fn server_stats(view: &dyn AdminView) -> Answer {
    let role = view.role();
    Answer::found(totals(view, role.mode))
}

pub(super) fn stats(view: &dyn AdminView) -> Listing {
    each(totals(view, view.role().mode), brief)
}

fn totals(view: &dyn AdminView, mode: Mode) -> Object {
    let figures = view.stats().get(view.now().monotonic_ms);
    let state = view.state();
    let responses = buffers(figures.response_sizes);
    let mut object = Object::new()
        .with("version", version::FULL)
        .with("read_only", mode == Mode::ReadOnly)
        .with("server_stats", inner_stats(view, mode))
        .with("client_response", responses);
    if let Some(leader) = view.leader_figures() {
        object.put("proposal_stats", buffers(leader.proposal_sizes));
    }
    object.with("node_count", state.znode_count)
}

/// Returns the statistics in the field `server_stats`. In Java, their order depends on the JVM and
/// differs between processes. This function uses the order that was recorded from Java members.
fn inner_stats(view: &dyn AdminView, mode: Mode) -> Object {
    let figures = view.stats().get(view.now().monotonic_ms);
    let (state, sizes) = (view.state(), view.directory_sizes());
    Object::new()
        .with("packets_sent", figures.packets_sent)
        .with("packets_received", figures.packets_received)
        .with("fsync_threshold_exceed_count", figures.slow_fsyncs)
        .with("client_response_stats", buffers(figures.response_sizes))
        .with("provider_null", false)
        .with("server_state", mode.name())
        .with("outstanding_requests", state.outstanding_requests)
        .with("min_latency", figures.latency.min())
        .with("avg_latency", figures.latency.average())
        .with("max_latency", figures.latency.max())
        .with("data_dir_size", sizes.data)
        .with("log_dir_size", sizes.log)
        .with("last_processed_zxid", view.last_zxid().0)
        .with("num_alive_client_connections", state.connections)
        .with("uptime", figures.uptime_ms)
        .with("auth_failed_count", figures.auth_failed)
        .with("non_mtlsremote_conn_count", figures.non_mtls_remote)
        .with("non_mtlslocal_conn_count", figures.non_mtls_local)
}

fn buffers(sizes: BufferSizes) -> Object {
    Object::new()
        .with("last_buffer_size", sizes.last)
        .with("min_buffer_size", sizes.min)
        .with("max_buffer_size", sizes.max)
}

/// Lists all metrics under their names in `mntr`, without the prefix `zk_`.
pub(super) fn monitor(view: &dyn AdminView) -> Answer {
    let role = view.role();
    if role.served_mode().is_none() {
        // Java fails in this state, because its server object does not exist.
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        return Answer::page(status, "/commands/monitor", super::NOT_SERVING);
    }
    let mut object = Object::new();
    match put_metrics(view, &role, &mut object) {
        Ok(()) => Answer::found(object),
        Err(fmt::Error) => Answer::refused(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn put_metrics(view: &dyn AdminView, role: &RoleView, object: &mut Object) -> fmt::Result {
    object.put("version", version::FULL);
    object.put("server_state", role.mode.name());
    if let Some(state) = role.peer_state() {
        object.put("peer_state", state);
    }
    if let Mode::Observer { master } = role.mode {
        object.put("observer_master_id", master.0);
    }
    for (metric, reading) in read_all(view) {
        let mut put = |name: &str, figure: Number| {
            object.put(name, figure);
            Ok(())
        };
        mntr::figures(metric, &reading, &mut put)?;
    }
    Ok(())
}
