//! Many idle sessions.

use std::process::Command;
use std::thread;
use std::time::Duration;

use tests::{Flavour, ServerBuilder, run, wait_for, zoarium_binary};

const SESSIONS: usize = 2000;
/// Each session pings a few times meanwhile, and would expire if the server missed the pings.
const TIMEOUT_MS: u64 = 4000;
const HELD_MS: u64 = 2 * TIMEOUT_MS;
/// Maximum memory of the server per connection with a session, without sockets. A read buffer that
/// is kept while the connection is idle would reach this limit alone.
const BYTES_EACH_MAX: f64 = 8192.0;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn two_thousand_idle_sessions_survive_in_little_memory() {
    let server = ServerBuilder::new(Flavour::Zoarium)
        .setting("maxClientCnxns", "0")
        .start()
        .expect("our server");
    let process = server.process_id().expect("it runs").to_string();
    let mut bench = Command::new(zoarium_binary());
    bench
        .args(["bench", "idle", "--json", "--server", &server.address()])
        .args(["--sessions", &SESSIONS.to_string(), "--warmup", "0"])
        .args(["--session-timeout", &format!("{TIMEOUT_MS}ms")])
        .args(["--duration", &format!("{HELD_MS}ms"), "--pid", &process]);
    let held = thread::spawn(move || run(&mut bench, LIMIT));
    let is = |name: &str, wanted: usize| {
        let figure = server.metric(name).and_then(|figure| figure.parse().ok());
        figure == Some(wanted)
    };
    wait_for("all sessions", LIMIT, || {
        is("global_sessions", SESSIONS).then_some(())
    });
    let report = held.join().expect("a thread that waits");
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    for nothing in [
        r#""errors": {}"#,
        r#""sessions_lost": {}"#,
        r#""unanswered": 0"#,
    ] {
        assert!(report.contains(nothing), "not {nothing}:\n{report}");
    }
    assert!(is("stale_sessions_expired", 0) && is("connection_drop_count", 0));
    let grown = report.split(r#""resident_bytes_grown_each": "#).nth(1);
    let grown = grown.and_then(|rest| rest.split(',').next()?.parse::<f64>().ok());
    let grown = grown.unwrap_or_else(|| panic!("no memory in:\n{report}"));
    assert!(grown < BYTES_EACH_MAX, "{grown} bytes each");
    server.wait_until_idle();
}
