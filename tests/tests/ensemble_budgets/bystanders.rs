//! Clients that must not be affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, SESSION_TIMEOUT_MS};
use tests::requests::{create, get_data, set_data};
use tests::{RawSession, wait_for};

/// Time between two calls.
const PACE: Duration = Duration::from_millis(5);
/// Longer than any call takes, even under attack.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of calls that prove progress.
const MORE: u64 = 10;

/// One client per member. Each writes and reads its own znode.
pub(crate) struct Bystanders {
    stopped: Arc<AtomicBool>,
    calls: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<Duration>>,
}

impl Bystanders {
    /// Starts the clients and waits until all of them work.
    pub(crate) fn start(ensemble: &Ensemble) -> Bystanders {
        Bystanders::start_at(ensemble, &ensemble.ids())
    }

    /// Starts clients on only these members.
    pub(crate) fn start_at(ensemble: &Ensemble, ids: &[u64]) -> Bystanders {
        let mut bystanders = Bystanders {
            stopped: Arc::default(),
            calls: ids.iter().map(|_| Arc::default()).collect(),
            threads: Vec::new(),
        };
        for (&id, calls) in ids.iter().zip(bystanders.calls.clone()) {
            let address = ensemble.member(id).client_address().to_string();
            let stopped = Arc::clone(&bystanders.stopped);
            let stand_by = move || stand_by(&address, id, &stopped, &calls);
            bystanders.threads.push(std::thread::spawn(stand_by));
        }
        bystanders.wait_for_more();
        bystanders
    }

    /// Waits until each client has completed some more calls.
    pub(crate) fn wait_for_more(&self) {
        let counts = || self.calls.iter().map(|calls| calls.load(Ordering::Relaxed));
        let before: Vec<u64> = counts().collect();
        wait_for("calls of bystanders", PATIENCE, || {
            let dead = self.threads.iter().any(JoinHandle::is_finished);
            assert!(!dead, "a bystander was cut off");
            let mut both = counts().zip(&before);
            both.all(|(now, before)| now >= before + MORE).then_some(())
        });
    }

    /// Stops the clients. Returns the duration of their longest call.
    pub(crate) fn finish(self) -> Duration {
        self.stopped.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter();
        let longest = threads.map(|thread| match thread.join() {
            Ok(longest) => longest,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        longest.max().unwrap_or_default()
    }
}

fn stand_by(address: &str, id: u64, stopped: &AtomicBool, calls: &AtomicU64) -> Duration {
    let mut session = RawSession::open(address, None, SESSION_TIMEOUT_MS).expect("a session");
    session.set_patience(PATIENCE);
    let path = format!("/bystander-{id}");
    let mut call = |request: &Request| {
        let begun = Instant::now();
        let answer = session.call(request);
        let answer = answer.unwrap_or_else(|lost| panic!("the one on member {id}: {lost:?}"));
        assert_eq!(answer.err, 0, "{request:?}");
        begun.elapsed()
    };
    call(&Request::Write(create(&path, "", flags::EPHEMERAL)));
    let mut longest = Duration::ZERO;
    while !stopped.load(Ordering::Relaxed) {
        let number = calls.load(Ordering::Relaxed).to_string();
        let write = call(&Request::Write(set_data(&path, number, -1)));
        let read = call(&get_data(&path));
        longest = longest.max(write).max(read);
        calls.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(PACE);
    }
    session.close().expect("the end of the session");
    longest
}
