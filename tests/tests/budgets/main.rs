//! Budgets of addresses and identities (`budget.<name>.*`). A client over its budget waits or is
//! refused, and other clients are not affected.

mod held;
mod members;
mod rates;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use proto::request::{Request, flags};
use tests::requests::create;
use tests::{Flavour, RawSession, Server, ServerBuilder, handshake, or_skip};

const LIMIT: Duration = Duration::from_secs(60);
/// Time limit for an answer that does not wait for a budget, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Another address of this machine.
const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Shortest session timeout that a server here grants, ms.
const SHORT_TIMEOUT: i32 = 1000;
const TIMEOUT: i32 = 10_000;

fn builder(settings: &[(&str, &str)]) -> ServerBuilder {
    let builder = ServerBuilder::new(Flavour::under_test());
    let set = |builder: ServerBuilder, (key, value): &(&str, &str)| builder.setting(key, value);
    settings.iter().fold(builder, set)
}

fn start(settings: &[(&str, &str)]) -> Option<Server> {
    or_skip("a server with budgets", builder(settings).start())
}

/// Opens a session from [`GREEDY`].
fn greedy(server: &Server, timeout_ms: i32) -> RawSession {
    RawSession::open_from(GREEDY, &server.address(), &handshake(timeout_ms)).expect("a session")
}

fn bystander(server: &Server) -> RawSession {
    RawSession::open(&server.address(), None, TIMEOUT).expect("a session")
}

fn write(path: &str, bytes: usize) -> Request {
    Request::Write(create(path, vec![b'x'; bytes], flags::PERSISTENT))
}

/// Sends a request, and checks that it succeeds without a wait.
fn is_served(session: &mut RawSession, request: &Request) {
    let begun = Instant::now();
    assert_eq!(session.call(request).expect("an answer").err, 0);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}

/// Returns a metric. Metrics of budgets exist only after the first event.
fn metric(server: &Server, name: &str) -> u64 {
    let value = server.metric(name);
    value.map_or(0, |value| value.parse().expect("a number"))
}
