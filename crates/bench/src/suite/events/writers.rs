//! Sessions that write continuously, and move to another server if their server fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use client::{Error, RawConnection};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::error::{BenchError, Result};
use crate::rounds::threads::runtime;
use crate::session::bulk::Bulk;
use crate::session::close_session;
use crate::session::template::{Payload, Template};
use crate::target::Target;

/// Number of sessions. In an ensemble of three, each member is the first server of one session.
const SESSIONS: usize = 3;
/// Session timeout. It is longer than the election.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for a connection and for an answer. When it is exceeded, the session disconnects from
/// the server.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// Pause before the next server is tried.
const PAUSE: Duration = Duration::from_millis(5);
/// Time before the kill in which writes also count, so that the gap begins with a write.
const BEFORE: Duration = Duration::from_secs(1);

/// Writers in a separate thread.
#[derive(Debug)]
pub(super) struct Writers {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    ends: AtomicBool,
    /// Times of acknowledged writes, for each session.
    acknowledged: [Mutex<Vec<Instant>>; SESSIONS],
}

/// Times of acknowledged writes, in order.
#[derive(Debug)]
pub(super) struct Acknowledged(Vec<Instant>);

impl Writers {
    /// Starts writing the data of the existing znode `path`.
    pub(super) fn start(target: &Target, path: &str) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let runtime = runtime()?;
        let template = Arc::new(Template::set_data(path, &Payload::new(100)));
        let mut tasks = JoinSet::new();
        for index in 0..SESSIONS {
            let writer = Writer {
                target: target.clone(),
                template: Arc::clone(&template),
                shared: Arc::clone(&shared),
                index,
            };
            tasks.spawn_on(writer.run(), runtime.handle());
        }
        let builder = thread::Builder::new().name("writers".to_owned());
        let spawned = builder.spawn(move || {
            runtime.block_on(async { while tasks.join_next().await.is_some() {} });
        });
        Ok(Self {
            shared,
            thread: Some(spawned.map_err(BenchError::io("start a thread"))?),
        })
    }

    pub(super) fn all_wrote(&self) -> bool {
        let mut all = self.shared.acknowledged.iter();
        all.all(|times| !times.lock().is_empty())
    }

    pub(super) fn all_wrote_after(&self, time: Instant) -> bool {
        let mut all = self.shared.acknowledged.iter();
        all.all(|times| times.lock().last().is_some_and(|last| *last > time))
    }

    /// Stops the writers, and returns the times of all acknowledged writes.
    pub(super) fn stop(mut self) -> Acknowledged {
        self.end();
        let all = self.shared.acknowledged.iter();
        let mut times: Vec<Instant> = all.flat_map(|times| times.lock().clone()).collect();
        times.sort_unstable();
        Acknowledged(times)
    }

    fn end(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed the reason.
            let _ = thread.join();
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.end();
    }
}

impl Acknowledged {
    /// Returns the longest time between two successive acknowledged writes, from shortly before
    /// `killed` until the end.
    pub(super) fn longest_gap(&self, killed: Instant) -> Duration {
        let is_counted = |time: &&Instant| **time + BEFORE >= killed;
        let counted: Vec<&Instant> = self.0.iter().filter(is_counted).collect();
        let gaps = counted.windows(2).filter_map(|pair| match pair {
            [one, next] => Some(next.duration_since(**one)),
            _ => None,
        });
        gaps.max().unwrap_or_default()
    }
}

struct Writer {
    target: Target,
    template: Arc<Template>,
    shared: Arc<Shared>,
    index: usize,
}

impl Writer {
    fn ends(&self) -> bool {
        self.shared.ends.load(Ordering::Relaxed)
    }

    async fn run(self) {
        let mut session = None;
        let servers = Arc::clone(&self.target.servers);
        for server in servers.iter().cycle().skip(self.index) {
            if self.ends() {
                return;
            }
            let handshake = self.target.handshake();
            let handshake = handshake
                .with_session_timeout(SESSION_TIMEOUT)
                .with_session(session.clone())
                .with_connect_timeout(ANSWER_MAX);
            match RawConnection::open(server, &handshake).await {
                Ok(mut connection) => {
                    session = Some(connection.accepted.session.clone());
                    if self.write(&mut connection, server).await.is_ok() {
                        return close_session(&mut connection).await;
                    }
                }
                Err(Error::SessionExpired { .. }) => session = None,
                // The server is down or does not have a leader.
                Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }

    /// Writes until the end of the measurement, or until the server fails.
    async fn write(&self, connection: &mut RawConnection, server: &Arc<str>) -> Result<()> {
        let mut bulk = Bulk::new(connection, Arc::clone(server));
        while !self.ends() {
            let put = |_, xid, out: &mut Vec<u8>| self.template.put(xid, out, || 0);
            let take = |_, code, _: &[u8]| if code == 0 { Ok(()) } else { Err(code) };
            let written = timeout(ANSWER_MAX, bulk.run("write a znode", 1, put, take)).await;
            written.map_err(|_| BenchError::Stalled(ANSWER_MAX.as_secs()))??;
            if let Some(times) = self.shared.acknowledged.get(self.index) {
                times.lock().push(Instant::now());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_is_the_longest_one_around_the_kill() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let times = [0, 5000, 9500, 9900, 10_400, 10_450].map(at).to_vec();
        let gap = Acknowledged(times).longest_gap(at(10_000));
        assert_eq!(gap, Duration::from_millis(500));
        assert_eq!(Acknowledged(vec![at(1)]).longest_gap(at(0)), Duration::ZERO);
    }
}
