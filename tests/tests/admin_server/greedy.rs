//! Many connections to the admin port and to the exporter. Probes and clients are still answered,
//! and memory and threads stay bounded.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use proto::request::{PathWatchRequest, ReadRequest, Request};
use rustix::process::{Resource, getrlimit};
use tests::requests::get_data;
use tests::{Flavour, Port, RawSession, http_get};

use crate::site::Site;

/// Two tests together would open more files than this process may open.
static ONE_CROWD: Mutex<()> = Mutex::new(());

/// Number of silent connections.
const SILENT: usize = 10_000;

/// Number of files that this test leaves for other tests of the process.
const FILES_LEFT: usize = 4000;

/// Number of connections of each other kind.
const CROWD: usize = 64;

/// Timeout of the client's session. The client sends nothing while the others connect.
const SESSION_MS: i32 = 600_000;

/// Maximum memory growth, MiB.
const MEMORY_MAX: u64 = 64;

/// Maximum growth of the number of threads.
const THREADS_MAX: usize = 16;

fn connect(port: u16, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connect");
    // The server may already have closed it.
    let _ = stream.write_all(sent.as_bytes());
    stream
}

fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
}

/// Opens connections that send nothing, or never complete their request, up to the limit of open
/// files.
fn silent(port: u16, sent: &str, count: usize) -> Vec<TcpStream> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let open_max = count.min(limit.saturating_sub(FILES_LEFT)).max(350);
    let mut open = Vec::new();
    for number in 0..count {
        let stream = connect(port, sent);
        // The server has closed most of the first connections in favour of newer ones.
        if number < open_max {
            open.push(stream);
        } else {
            open[number % open_max] = stream;
        }
    }
    open
}

/// Clients that send or receive one byte per second, until this value is dropped.
struct Slow {
    seconds: Arc<AtomicUsize>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Slow {
    fn start(port: u16, target: &str) -> Self {
        let request = request(target);
        let takers = (0..CROWD).map(|_| connect(port, &request));
        let mut takers: Vec<TcpStream> = takers.collect();
        let mut senders: Vec<TcpStream> = (0..CROWD).map(|_| connect(port, "")).collect();
        for stream in takers.iter().chain(&senders) {
            stream.set_nonblocking(true).expect("a socket");
        }
        let seconds = Arc::<AtomicUsize>::default();
        let passed = seconds.clone();
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut bytes = request.bytes().cycle();
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let byte = bytes.next().unwrap_or_default();
                // The server has closed some of them.
                senders.iter_mut().for_each(|sender| {
                    let _ = sender.write(&[byte]);
                });
                takers.iter_mut().for_each(|taker| {
                    let _ = taker.read(&mut [0]);
                });
                passed.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            seconds,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn seconds(&self) -> usize {
        self.seconds.load(Ordering::Relaxed)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.stop.take();
        let thread = self.thread.take().map(JoinHandle::join);
        assert!(thread.is_none_or(|ended| ended.is_ok()));
    }
}

/// Resources of a server under load.
struct Watched<'a> {
    site: &'a Site,
    session: RawSession,
    threads: usize,
    memory: u64,
}

fn threads(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    tasks.map_or(0, Iterator::count)
}

impl<'a> Watched<'a> {
    fn begin(site: &'a Site, session: RawSession) -> Self {
        let process = site.server.process();
        Self {
            site,
            session,
            threads: threads(process.id()),
            memory: process.reset_peak_memory(),
        }
    }

    /// Checks that probes and a client of the client port are answered, and that the server has not
    /// grown.
    fn check(&mut self, by: &str) {
        assert_eq!(http_get(self.site.port, "/health/live").status, 200, "{by}");
        let answer = self.session.call(&get_data("/"));
        assert_eq!(answer.expect("an answer").err, 0, "{by}");
        let process = self.site.server.process();
        let grown = process.peak_memory().saturating_sub(self.memory) >> 20;
        assert!(grown <= MEMORY_MAX, "{grown} MiB more by {by}");
        let more = threads(process.id()).saturating_sub(self.threads);
        assert!(more <= THREADS_MAX, "{more} threads more by {by}");
    }
}

fn session(site: &Site) -> RawSession {
    RawSession::open(&site.server.address(), None, SESSION_MS).expect("a session")
}

/// Runs every kind of greedy client on a port simultaneously.
fn load(watched: &mut Watched<'_>, port: u16, target: &str) {
    for _ in 0..10 * CROWD {
        drop(connect(port, &request(target)));
    }
    watched.check("clients that hang up");
    let unread: Vec<_> = (0..CROWD)
        .map(|_| connect(port, &request(target)))
        .collect();
    watched.check("clients that do not read");
    let slow = Slow::start(port, target);
    watched.check("slow clients");
    let unfinished = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    for (sent, count) in [("", SILENT), (unfinished, SILENT / 10)] {
        let silent = silent(port, sent, count);
        watched.check("silent clients");
        let begun = slow.seconds();
        while slow.seconds() < begun + 2 {
            watched.check("all of them");
        }
        drop(silent);
    }
    drop(unread);
}

#[test]
fn greedy_clients_of_the_exporter_do_not_block_others() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let _one = ONE_CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    let exporter = Port::take();
    let exporter_port = exporter.number().to_string();
    let provider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    let settings = [
        ("metricsProvider.className", provider),
        ("metricsProvider.httpHost", "127.0.0.1"),
        ("metricsProvider.httpPort", &exporter_port),
        ("maxSessionTimeout", "600000"),
    ];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    // One request, so that its permanent resources exist before the measurement.
    assert_eq!(http_get(exporter.number(), "/metrics").status, 200);
    let mut watched = Watched::begin(&site, session(&site));
    load(&mut watched, exporter.number(), "/metrics");
    assert_eq!(http_get(exporter.number(), "/metrics").status, 200);
}

/// The connections to the admin port do not affect the port for probes.
#[test]
fn greedy_clients_of_the_admin_port_do_not_block_others() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let _one = ONE_CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    let health = Port::take();
    let health_port = health.number().to_string();
    // The result must not depend on timeouts of silent connections.
    let settings = [
        ("admin.idleTimeout", "600000"),
        ("zoarium.health.port", &health_port),
        ("maxSessionTimeout", "600000"),
    ];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    let mut session = session(&site);
    watch(&mut session);
    // One listing, so that its permanent resources exist before the measurement.
    let listing = http_get(site.port, "/commands/watches_by_path").text();
    let parsed: serde_json::Value = serde_json::from_str(&listing).expect("JSON");
    let paths = parsed["path_to_session_ids"].as_object().expect("paths");
    assert_eq!(
        (paths.len(), &parsed["error"]),
        (WATCHES, &serde_json::Value::Null)
    );
    assert!(
        paths
            .values()
            .all(|ids| ids.as_array().is_some_and(|ids| ids.len() == 1))
    );
    let listing = http_get(site.port, "/commands/watches").text();
    let parsed: serde_json::Value = serde_json::from_str(&listing).expect("JSON");
    let sessions = parsed["session_id_to_watched_paths"]
        .as_object()
        .expect("sessions");
    let paths: Vec<usize> = sessions
        .values()
        .filter_map(|paths| Some(paths.as_array()?.len()))
        .collect();
    assert_eq!(paths, [WATCHES]);

    let mut watched = Watched::begin(&site, session);
    let unread: Vec<_> = (0..CROWD)
        .map(|_| connect(site.port, &request("/commands/watches_by_path")))
        .collect();
    for _ in 0..20 {
        // Only few listings may wait for their turn, so that other requests find a slot.
        assert_eq!(http_get(site.port, "/commands/watch_summary").status, 200);
        let short = http_get(site.port, "/commands/connections");
        assert_eq!(short.status, 200);
        watched.check("listings that nobody reads");
    }
    drop(unread);
    load(&mut watched, site.port, "/commands/watches");
    for target in ["/health/live", "/health/ready"] {
        assert_eq!(http_get(health.number(), target).status, 200);
    }
    assert_eq!(http_get(health.number(), "/commands/ruok").status, 404);
    let silent: Vec<_> = (0..CROWD * 8)
        .map(|_| connect(health.number(), ""))
        .collect();
    assert_eq!(http_get(health.number(), "/health/live").status, 200);
    drop(silent);
    assert_eq!(http_get(site.port, "/commands/ruok").status, 200);
}

/// Watches of one session, with paths that make their listing some MiB long.
const WATCHES: usize = 20_000;

fn watch(session: &mut RawSession) {
    let path = |number: usize| format!("/{}-{number}", "watched".repeat(40));
    for chunk in (0..WATCHES).collect::<Vec<_>>().chunks(500) {
        for number in chunk {
            let watch = PathWatchRequest {
                path: Some(path(*number).into()),
                watch: true,
            };
            session.put(&Request::Read(ReadRequest::Exists(watch)));
        }
        session.flush().expect("sent");
        for _ in chunk {
            session.take().expect("an answer");
        }
    }
}
