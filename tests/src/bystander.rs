//! A client with normal requests during the misbehaviour of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::tls::Connector;
use proto::request::Request;

use crate::raw_session::{RawSession, handshake};
use crate::requests::{create, delete};
use crate::wait::wait_for;

/// Time limit for one call, because other tests run concurrently.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Number of calls after which the client is known to work.
const CALLS_MIN: u64 = 10;
const LIMIT: Duration = Duration::from_secs(60);

/// A session that creates and deletes a znode, one call after the other, in a separate thread.
#[derive(Debug)]
pub struct Bystander {
    is_over: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    longest: JoinHandle<Duration>,
}

impl Bystander {
    /// Starts the client, and returns when it works. Panics without a session.
    pub fn start(address: &str, connector: Connector) -> Bystander {
        let handshake = handshake(10_000).with_connector(connector);
        let session = RawSession::with_handshake(address, &handshake);
        let session = session.expect("a session of a bystander");
        let (is_over, calls) = (Arc::default(), Arc::default());
        let longest = {
            let (is_over, calls) = (Arc::clone(&is_over), Arc::clone(&calls));
            std::thread::spawn(move || work(session, &is_over, &calls))
        };
        let bystander = Bystander {
            is_over,
            calls,
            longest,
        };
        bystander.wait_for_more();
        bystander
    }

    /// Waits until it has completed more calls.
    pub fn wait_for_more(&self) {
        let wanted = self.calls.load(Ordering::Relaxed) + CALLS_MIN;
        wait_for("calls of a bystander", LIMIT, || {
            let is_stuck = self.longest.is_finished();
            assert!(!is_stuck, "a bystander was disturbed");
            (self.calls.load(Ordering::Relaxed) >= wanted).then_some(())
        });
    }

    /// Ends the client. Panics if it was disturbed: a call failed or took too long.
    pub fn finish(self) {
        self.wait_for_more();
        self.is_over.store(true, Ordering::Relaxed);
        let longest = self.longest.join().expect("a bystander was disturbed");
        assert!(longest < CALL_MAX, "a bystander waited {longest:?}");
    }
}

fn work(mut session: RawSession, is_over: &AtomicBool, calls: &AtomicU64) -> Duration {
    let path = format!("/bystander-{}", session.session().id.0);
    let mut longest = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        for request in [create(&path, "", 0), delete(&path, -1)] {
            let begun = Instant::now();
            let answer = session.call(&Request::Write(request)).expect("an answer");
            assert_eq!(answer.err, 0);
            longest = longest.max(begun.elapsed());
            calls.fetch_add(1, Ordering::Relaxed);
        }
    }
    session.close().expect("the end of the session");
    longest
}
