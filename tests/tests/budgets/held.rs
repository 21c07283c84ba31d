//! Watches and ephemerals.

use proto::request::{PathWatchRequest, ReadRequest, Request, SetWatchesRequest, flags};
use tests::requests::{create, delete, exists_watched, multi};
use tests::{Flavour, RawSession, Server, wait_for};

use super::{LIMIT, TIMEOUT, bystander, greedy, is_served, metric, start, write};

/// Error of a request beyond a budget.
pub(crate) const THROTTLED: i32 = -127;
const NO_NODE: i32 = -101;

const SETTINGS: [(&str, &str); 3] = [
    ("budget.greedy.who", "ip:127.0.0.2"),
    ("budget.greedy.watches", "3"),
    ("budget.greedy.ephemerals", "3"),
];

pub(crate) fn call(session: &mut RawSession, request: &Request) -> i32 {
    session.call(request).expect("an answer").err
}

pub(crate) fn ephemeral(path: &str) -> Request {
    Request::Write(create(path, "", flags::EPHEMERAL))
}

fn children_watched(path: &str) -> Request {
    Request::Read(ReadRequest::GetChildren(PathWatchRequest {
        path: Some(path.into()),
        watch: true,
    }))
}

/// Repeats the request until it is accepted, because the count of released resources may be stale.
pub(crate) fn wait_until_let_in(session: &mut RawSession, request: &Request, err: i32) {
    wait_for("a request that is let in again", LIMIT, || {
        let answered = call(session, request);
        assert!([err, THROTTLED].contains(&answered), "{answered}");
        (answered == err).then_some(())
    });
}

fn log_tells(server: &Server, bound: &str) {
    let log = server.log();
    let mut lines = log.lines().filter(|line| line.contains("over a budget"));
    let line = lines.next().expect("a line in the log");
    for part in ["refusing a request", "who=ip:127.0.0.2", bound, "value=3"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(lines.next(), None, "it is told once a minute");
}

#[test]
fn ephemerals_of_an_address_share_a_bound_and_are_returned() {
    let Some(server) = start(&SETTINGS) else {
        return;
    };
    let (mut one, mut other) = (greedy(&server, TIMEOUT), greedy(&server, TIMEOUT));
    for path in ["/1", "/2"] {
        is_served(&mut one, &ephemeral(path));
    }
    is_served(&mut other, &ephemeral("/3"));
    for session in [&mut one, &mut other] {
        assert_eq!(call(session, &ephemeral("/4")), THROTTLED);
        // Nothing was changed, and other writes continue.
        assert_eq!(call(session, &exists_watched("/4")), NO_NODE);
    }
    is_served(&mut one, &write("/kept", 1));
    is_served(&mut bystander(&server), &ephemeral("/bystander"));
    assert_eq!(metric(&server, "zoarium_budget_requests_refused"), 2);
    log_tells(&server, "bound=\"ephemerals\"");
    // Another client may use a resource that one client has released.
    is_served(&mut one, &Request::Write(delete("/1", -1)));
    wait_until_let_in(&mut other, &ephemeral("/4"), 0);
    assert_eq!(call(&mut one, &ephemeral("/5")), THROTTLED);
    // The multi is executed completely or not at all.
    is_served(&mut one, &Request::Write(delete("/2", -1)));
    let two = ["/6", "/7"].map(|path| create(path, "", flags::EPHEMERAL));
    let two = Request::Write(multi(two.into()));
    assert_eq!(call(&mut one, &two), THROTTLED);
    is_served(&mut one, &ephemeral("/6"));
    assert_eq!(metric(&server, "ephemerals_count"), 4);
}

#[test]
fn ephemerals_of_a_lost_connection_still_count() {
    let Some(server) = start(&SETTINGS) else {
        return;
    };
    let mut one = greedy(&server, TIMEOUT);
    for path in ["/1", "/2", "/3"] {
        is_served(&mut one, &ephemeral(path));
    }
    drop(one);
    wait_for("the end of the connection", LIMIT, || {
        (metric(&server, "num_alive_connections") == 1).then_some(())
    });
    let mut other = greedy(&server, TIMEOUT);
    assert_eq!(
        metric(&server, "ephemerals_count"),
        3,
        "the session is alive"
    );
    assert_eq!(call(&mut other, &ephemeral("/4")), THROTTLED);
    // After the end of the session, its resources are free.
    wait_until_let_in(&mut other, &ephemeral("/4"), 0);
    assert_eq!(metric(&server, "ephemerals_count"), 1);
}

#[test]
fn watches_of_an_address_share_a_bound_and_are_returned() {
    let Some(server) = start(&SETTINGS) else {
        return;
    };
    let (mut one, mut other) = (greedy(&server, TIMEOUT), greedy(&server, TIMEOUT));
    let mut bystander = bystander(&server);
    assert_eq!(call(&mut one, &exists_watched("/a")), NO_NODE);
    is_served(&mut one, &children_watched("/"));
    assert_eq!(call(&mut other, &exists_watched("/b")), NO_NODE);
    for session in [&mut one, &mut other] {
        assert_eq!(call(session, &exists_watched("/c")), THROTTLED);
    }
    // Existing watches may be set again.
    assert_eq!(call(&mut one, &exists_watched("/a")), NO_NODE);
    assert_eq!(call(&mut bystander, &exists_watched("/c")), NO_NODE);
    assert_eq!(metric(&server, "watch_count"), 4);
    log_tells(&server, "bound=\"watches\"");
    // The watch fires, and is then removed.
    is_served(&mut bystander, &write("/b", 1));
    wait_until_let_in(&mut one, &exists_watched("/c"), NO_NODE);
}

#[test]
fn set_watches_over_the_bound_ends_the_connection() {
    let Some(server) = start(&SETTINGS) else {
        return;
    };
    let mut session = greedy(&server, TIMEOUT);
    let set = |paths: &[&str]| {
        let paths = paths.iter().map(|path| Some((*path).into()));
        Request::Read(ReadRequest::SetWatches(SetWatchesRequest {
            relative_zxid: 0,
            data: Some(Vec::new()),
            exist: Some(paths.collect()),
            child: Some(Vec::new()),
            persistent: Some(Vec::new()),
            persistent_recursive: Some(Vec::new()),
        }))
    };
    is_served(&mut session, &set(&["/1", "/2", "/3"]));
    assert_eq!(call(&mut session, &set(&["/2", "/4"])), THROTTLED);
    session.put(&exists_watched("/1"));
    assert!(session.take().is_err(), "the connection has ended");
    wait_for("the end of its watches", LIMIT, || {
        (metric(&server, "watch_count") == 0).then_some(())
    });
}

/// Length of each path in bytes.
const PATH_BYTES: usize = 1_000_000;
/// Number of paths, which together would take 300 MB.
const PATHS: usize = 300;
/// Capacity for the watched paths of one connection, and for pending requests.
const GROWTH_MAX: u64 = 128 << 20;

#[test]
fn bytes_of_watched_paths_are_bounded_without_a_budget() {
    let Some(server) = start(&[]) else {
        return;
    };
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let mut session = bystander(&server);
    let before = server.process().reset_peak_memory();
    let answers: Vec<i32> = (0..PATHS)
        .map(|number| {
            let name = format!("/{number:03}{}", "x".repeat(PATH_BYTES));
            call(&mut session, &exists_watched(&name))
        })
        .collect();
    let is_set = |answer: &&i32| **answer == NO_NODE;
    let set = answers.iter().filter(is_set).count();
    assert!(
        answers
            .iter()
            .all(|answer| [NO_NODE, THROTTLED].contains(answer))
    );
    assert!((60..=67).contains(&set), "{set} watches of a megabyte each");
    let growth = server.process().peak_memory() - before;
    assert!(growth <= GROWTH_MAX, "{growth} bytes");
}
