//! `clients` and `slow_requests`: resource usage of clients. Apache ZooKeeper lacks these commands.

use std::collections::HashMap;

use metrics::usage::{ClientInfo, Usage};
use metrics::view::AdminView;

use super::command::Call;
use crate::answer::{Answer, Object};

/// Default number of rows in an answer.
const ROWS: usize = 100;
const ROWS_MAX: usize = 10_000;

/// Error text for clients that are not administrators. Only administrators may see identities and
/// paths.
const NOT_ALLOWED: &str = "only administrators may see identities, connections and slow requests: \
    super users, and identities to which the ACL of / grants all permissions. Send credentials in \
    the header Authorization";

/// Figure by which rows are sorted, largest first.
type Figure = fn(&Usage) -> u64;

const FIGURES: &[(&str, Figure)] = &[
    ("requests", Usage::requests),
    ("reads", |usage| usage.reads),
    ("writes", |usage| usage.writes),
    ("received_bytes", |usage| usage.received_bytes),
    ("sent_bytes", |usage| usage.sent_bytes),
    ("outstanding", |usage| usage.outstanding),
    ("watches", |usage| usage.watches),
    ("ephemerals", |usage| usage.ephemerals),
    ("connections", |usage| usage.connections),
    ("throttled", |usage| usage.throttled),
    ("max_latency", |usage| usage.max_latency_ms),
];

/// Lists the usage of clients by `address`, `identity` or `connection`.
pub(super) fn clients(view: &dyn AdminView, call: &Call) -> Answer {
    let by = call.parameter("by").unwrap_or("address");
    let sort = call.parameter("sort").unwrap_or("requests");
    let Some((_, figure)) = FIGURES.iter().find(|(name, _)| *name == sort) else {
        let names: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
        return Answer::error(format!("`sort` must be one of {}", names.join(", ")));
    };
    let Some(limit) = limit(call) else {
        return Answer::error(format!("`limit` must be a number up to {ROWS_MAX}"));
    };
    if by != "address" && !view.is_administrator(&call.identities) {
        return Answer::error(NOT_ALLOWED);
    }
    let open = view.clients();
    let (rows, earlier) = match by {
        "address" => by_address(view, &open),
        "identity" => by_identity(view, &open),
        "connection" => (open.iter().map(connection).collect(), Usage::default()),
        _ => return Answer::error("`by` must be address, identity or connection"),
    };
    let mut total = earlier;
    rows.iter().for_each(|(_, usage)| total += *usage);
    Answer::found(answer(by, rows, total, earlier, *figure, limit))
}

fn limit(call: &Call) -> Option<usize> {
    let limit = match call.parameter("limit") {
        Some(text) => text.parse().ok()?,
        None => ROWS,
    };
    (limit <= ROWS_MAX).then_some(limit)
}

fn answer(
    by: &str,
    mut rows: Vec<(Object, Usage)>,
    total: Usage,
    earlier: Usage,
    figure: Figure,
    limit: usize,
) -> Object {
    // Rows with equal figures are sorted by name.
    rows.sort_by_cached_key(|(name, usage)| (std::cmp::Reverse(figure(usage)), name.print()));
    let left_out = rows.len().saturating_sub(limit) as u64;
    rows.truncate(limit);
    let rows = rows
        .into_iter()
        .map(|(name, usage)| with_figures(name, &usage));
    let mut object = Object::new()
        .with("by", by)
        .with("clients", rows.collect::<Vec<Object>>())
        .with("left_out", left_out);
    // A connection with several identities is counted for each of them, so the sum would be wrong.
    if by != "identity" {
        object.put("earlier", with_figures(Object::new(), &earlier));
        object.put("total", with_figures(Object::new(), &total));
    }
    object
}

fn with_figures(name: Object, usage: &Usage) -> Object {
    FIGURES.iter().fold(name, |object, (name, figure)| {
        object.with(*name, figure(usage))
    })
}

fn by_address(view: &dyn AdminView, open: &[ClientInfo]) -> (Vec<(Object, Usage)>, Usage) {
    let (closed_usage, earlier) = view.closed_usage().by_address.into_parts();
    let mut sums: HashMap<_, Usage> = closed_usage.collect();
    for client in open {
        *sums.entry(client.address()).or_default() += client.usage();
    }
    let named = |address: std::net::IpAddr| Object::new().with("address", address.to_string());
    let rows = sums
        .into_iter()
        .map(|(address, usage)| (named(address), usage));
    (rows.collect(), earlier)
}

fn by_identity(view: &dyn AdminView, open: &[ClientInfo]) -> (Vec<(Object, Usage)>, Usage) {
    let (closed_usage, earlier) = view.closed_usage().by_identity.into_parts();
    let mut sums: HashMap<_, Usage> = closed_usage.collect();
    for client in open {
        for name in &client.names {
            *sums.entry(name.clone()).or_default() += client.usage();
        }
    }
    let named = |name: String| Object::new().with("identity", name);
    let rows = sums.into_iter().map(|(name, usage)| (named(name), usage));
    (rows.collect(), earlier)
}

fn connection(client: &ClientInfo) -> (Object, Usage) {
    let peer = std::net::SocketAddr::new(client.address(), client.connection.peer.port());
    let object = Object::new()
        .with("remote_socket_address", peer.to_string())
        .with("session_id", client.connection.session.0)
        .with("identities", client.names.clone())
        .with("budgets", client.budgets.clone())
        .with("last_operation", client.connection.figures.last_op);
    (object, client.usage())
}

/// Lists the newest slow requests.
pub(super) fn slow_requests(view: &dyn AdminView, call: &Call) -> Answer {
    let Some(limit) = limit(call) else {
        return Answer::error(format!("`limit` must be a number up to {ROWS_MAX}"));
    };
    if !view.is_administrator(&call.identities) {
        return Answer::error(NOT_ALLOWED);
    }
    let slow = view.slow_requests();
    let (newest, count) = slow.newest();
    let rows = newest.into_iter().take(limit).map(|request| {
        Object::new()
            .with("at", request.at_ms)
            .with("took", request.took_ms)
            .with("operation", request.op.name())
            .with("path", request.path)
            .with("remote_socket_address", request.peer.to_string())
            .with("session_id", request.session.0)
            .with("xid", i64::from(request.xid.0))
            .with("zxid", request.zxid.0)
    });
    let threshold = slow.threshold_ms();
    let object = Object::new()
        .with("threshold", threshold)
        .with("count", count)
        .with("requests", rows.collect::<Vec<Object>>());
    Answer::found(object)
}
