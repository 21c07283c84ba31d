//! Log lines that a stranger can cause are limited. For the code that strangers reach, this file
//! lists each line without a limit, with the reason.

use super::{committed, rust_files};

/// Code that serves peers before they have proved an identity, or handles what they send.
const REACHED: &[&str] = &[
    "crates/admin/src/commands/",
    "crates/admin/src/console/",
    "crates/admin/src/http/",
    "crates/admin/src/ports/",
    "crates/admin/src/server/",
    "crates/admission/src/",
    "crates/metrics/src/",
    "crates/quorum/src/",
    "crates/frontend/src/",
    "crates/transport/src/",
    "crates/tree/src/",
    "crates/replica/src/elections/results.rs",
    "crates/replica/src/elections/mod.rs",
    "crates/replica/src/members/plan.rs",
    "crates/replica/src/order/proposals.rs",
    "crates/replica/src/elections/guard.rs",
];

const AT_START: &str = "once, when a server starts, listens or stops";
const FAILURE: &str = "a fault of this machine or of Zoarium, which no peer causes";
const ADMINISTRATOR: &str = "behind the check that the caller is an administrator";
const SIGNAL: &str = "on SIGQUIT, which only the user of this process sends";
const PROVED: &str = "the peer has proved an identity";
const OWN_LEADER: &str = "once for each connection to the leader that was elected";
const FILES: &str = "once for each change of the stores of this server";
const BOUNDED: &str = "bounded by a rule of its own, which counts the others";

/// Files with lines that are not limited, their number, and the reasons.
const UNLIMITED: &[(&str, usize, &str)] = &[
    ("crates/admin/src/commands/listings.rs", 1, ADMINISTRATOR),
    ("crates/admin/src/http/workers.rs", 1, FAILURE),
    ("crates/admin/src/ports/exporter.rs", 1, AT_START),
    ("crates/admin/src/ports/health.rs", 1, AT_START),
    ("crates/admin/src/server/console.rs", 1, AT_START),
    ("crates/admin/src/server/log.rs", 2, ADMINISTRATOR),
    ("crates/admin/src/server/mod.rs", 2, AT_START),
    ("crates/admin/src/server/restore.rs", 5, ADMINISTRATOR),
    ("crates/admin/src/server/members/secrets.rs", 2, AT_START),
    ("crates/admin/src/server/snapshots.rs", 2, ADMINISTRATOR),
    ("crates/metrics/src/fourlw/mod.rs", 1, FAILURE),
    ("crates/metrics/src/requests/slow.rs", 2, BOUNDED),
    ("crates/quorum/src/auth.rs", 1, PROVED),
    ("crates/quorum/src/mesh/actor.rs", 1, AT_START),
    ("crates/quorum/src/mesh/listener.rs", 2, AT_START),
    ("crates/quorum/src/mesh/mod.rs", 1, FAILURE),
    ("crates/quorum/src/peer/connection.rs", 1, OWN_LEADER),
    ("crates/quorum/src/peer/port/listen.rs", 1, AT_START),
    ("crates/quorum/src/peer/port/mod.rs", 2, AT_START),
    ("crates/quorum/src/peer/receive.rs", 1, OWN_LEADER),
    ("crates/quorum/src/ports.rs", 3, OWN_LEADER),
    ("crates/replica/src/elections/mod.rs", 1, OWN_LEADER),
    (
        "crates/frontend/src/requests/request_throttle.rs",
        1,
        AT_START,
    ),
    ("crates/frontend/src/login/sasl.rs", 2, PROVED),
    ("crates/frontend/src/login/x509.rs", 1, PROVED),
    ("crates/frontend/src/view/report.rs", 5, SIGNAL),
    ("crates/transport/src/connect/dial.rs", 2, OWN_LEADER),
    ("crates/transport/src/tls/context.rs", 1, FILES),
    ("crates/transport/src/tls/rules.rs", 2, AT_START),
    ("crates/transport/src/tls/store/source.rs", 3, FILES),
    ("crates/transport/src/tls/store/revocations.rs", 1, FILES),
    ("crates/transport/src/tls/certificates/verify.rs", 2, FILES),
];

/// Counts the lines of a file that are written without a limiter, without its tests.
fn unlimited_lines(text: &str) -> usize {
    const MACROS: [&str; 3] = ["tracing::info!(", "tracing::warn!(", "tracing::error!("];
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = code.unwrap_or_default().lines();
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.filter(|line| MACROS.iter().any(|name| line.contains(name)))
        .count()
}

#[test]
fn log_lines_that_strangers_cause_are_limited() {
    let Some(files) = committed() else { return };
    let mut wrong = Vec::new();
    for (file, text) in rust_files(&files) {
        let is_reached = REACHED.iter().any(|place| file.starts_with(place));
        if !is_reached || file.contains("/tests/") {
            continue;
        }
        let named = UNLIMITED.iter().find(|(name, ..)| *name == file);
        let (found, expected) = (
            unlimited_lines(&text),
            named.map_or(0, |(_, count, _)| *count),
        );
        if found != expected {
            wrong.push(format!("{file}: {found} lines, {expected} are named"));
        }
        // Imported macros have another name.
        if text.contains("use tracing::{") || text.contains("use tracing::warn") {
            wrong.push(format!("{file}: name macros of the log by `tracing::`"));
        }
    }
    assert!(
        wrong.is_empty(),
        "limit these lines by log_limiter::limited!, or name them here with a reason: {wrong:#?}"
    );
    for (name, _, reason) in UNLIMITED {
        assert!(files.iter().any(|file| file == name), "{name} is gone");
        assert!(!reason.is_empty());
    }
}
