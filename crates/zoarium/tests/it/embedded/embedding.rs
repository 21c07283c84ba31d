//! Servers inside this process.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::{Client, Create, Options};
use zoarium::{Server, ServerError};

/// Time limit for operations that take milliseconds on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Lock that serialises these tests, because they count the threads of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// State that a test must restore.
pub(crate) struct Alone {
    threads: BTreeSet<String>,
    _guard: MutexGuard<'static, ()>,
}

impl Alone {
    pub(crate) fn begin() -> Self {
        let guard = ONE_AT_A_TIME.lock();
        Self {
            _guard: guard.unwrap_or_else(PoisonError::into_inner),
            threads: threads(),
        }
    }

    /// Checks that no thread of a server remains. A joined thread may be listed for a moment
    /// longer.
    pub(crate) fn end(self) {
        let began = Instant::now();
        let left = || -> Vec<_> { threads().difference(&self.threads).cloned().collect() };
        while !left().is_empty() {
            assert!(began.elapsed() < PATIENCE, "threads are left: {:?}", left());
            std::thread::yield_now();
        }
    }
}

/// Returns the threads of this process that servers start, by number and name.
fn threads() -> BTreeSet<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let name = name.trim();
        let is_server = name.starts_with("zoarium-") || OF_SERVERS.contains(&name);
        is_server.then(|| format!("{} {name}", task.file_name().display()))
    });
    named.collect()
}

const OF_SERVERS: &[&str] = &["core", "log", "snapshot", "audit", "history"];

/// Waits for the number of core threads. A new thread briefly has the name of its creator.
fn wait_for_cores(count: usize) {
    let began = Instant::now();
    let cores = || threads().iter().filter(|t| t.ends_with(" core")).count();
    while cores() != count {
        assert!(began.elapsed() < PATIENCE, "{} cores", cores());
        std::thread::yield_now();
    }
}

/// Runs a test with a time limit, on a runtime with a single thread.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.unwrap() })
}

async fn write(server: &Server, path: &str, data: &'static str) {
    let client = connect(server).await;
    let created = client.create(path, data, &Create::persistent()).await;
    created.unwrap();
    client.close().await.unwrap();
}

async fn read(server: &Server, path: &str) -> Option<Vec<u8>> {
    let client = connect(server).await;
    let data = match client.exists(path).await.unwrap() {
        Some(_) => client.get_data(path).await.unwrap().0,
        None => None,
    };
    client.close().await.unwrap();
    data.map(|data| data.to_vec())
}

async fn connect(server: &Server) -> Client {
    let options = Options::new(&server.connect_string());
    Client::connect(options).await.unwrap()
}

async fn start(directory: &Path) -> Server {
    let starting = Server::builder().data_dir(directory).port(0).start();
    starting.await.unwrap()
}

fn is_refused(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err()
}

#[test]
fn several_servers_share_only_a_process() {
    let alone = Alone::begin();
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (directory.path().join("one"), directory.path().join("two"));
    run(async {
        let (first, second) = (start(&one).await, start(&two).await);
        assert!(first.is_serving() && second.is_serving());
        wait_for_cores(2);
        write(&first, "/of-the-first", "1").await;
        assert_eq!(read(&second, "/of-the-first").await, None);
        let address = first.client_address().unwrap();
        first.stop().await.unwrap();
        assert!(is_refused(address));
        write(&second, "/after", "2").await;
        // The same data can be used immediately, because its lock is free.
        let first = start(&one).await;
        assert_eq!(read(&first, "/of-the-first").await, Some(b"1".to_vec()));
    });
    alone.end();
}

#[test]
fn dropping_a_server_stops_it() {
    let alone = Alone::begin();
    let directory = tempfile::tempdir().unwrap();
    let address = run(async {
        let server = start(directory.path()).await;
        write(&server, "/kept", "yes").await;
        server.client_address().unwrap()
        // The server is dropped on the only thread of this runtime.
    });
    assert!(is_refused(address));
    alone.end();
    let alone = Alone::begin();
    let kept = run(async { read(&start(directory.path()).await, "/kept").await });
    assert_eq!(kept, Some(b"yes".to_vec()));
    alone.end();
}

#[test]
fn an_abandoned_start_leaves_no_files() {
    let alone = Alone::begin();
    let directory = tempfile::tempdir().unwrap();
    run(async {
        let starting = Server::builder().data_dir(directory.path()).start();
        // The future is polled once, which starts the server's thread.
        let given_up = tokio::time::timeout(Duration::ZERO, starting).await;
        drop(given_up);
        start(directory.path()).await.stop().await.unwrap();
    });
    alone.end();
}

#[test]
fn refusals_are_errors_with_a_reason() {
    let alone = Alone::begin();
    let directory = tempfile::tempdir().unwrap();
    let builder = || Server::builder().data_dir(directory.path());
    run(async {
        let refused = |builder: zoarium::ServerBuilder| async {
            builder.start().await.unwrap_err().to_string()
        };
        let nowhere = Server::builder().start().await;
        assert!(matches!(nowhere, Err(ServerError::NoDataDir)));
        let wrong = refused(builder().setting("tickTime", "soon")).await;
        assert!(
            wrong.contains("tickTime") && wrong.contains("soon"),
            "{wrong}"
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let taken = builder().port(port).start().await.unwrap_err();
        let text = taken.to_string();
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
        assert!(matches!(taken, ServerError::Start { exit_code: 1, .. }));
        let server = builder().start().await.unwrap();
        let locked = refused(builder()).await;
        assert!(locked.contains("is in use"), "{locked}");
        server.stop().await.unwrap();
    });
    alone.end();
}

#[test]
fn fatal_errors_are_errors_of_the_handle() {
    let alone = Alone::begin();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("myid"), "1").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let election = taken.local_addr().unwrap().port();
    let free = || {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port()
    };
    run(async {
        let starting = Server::builder()
            .data_dir(directory.path())
            .setting("server.1", format!("127.0.0.1:{}:{election}", free()))
            .setting("server.2", format!("127.0.0.1:{}:{}", free(), free()))
            .setting("initLimit", 5)
            .setting("syncLimit", 2)
            .property("zookeeper.electionPortBindRetry", 1)
            .start();
        let failed = starting.await.unwrap_err();
        assert!(
            matches!(failed, ServerError::Failed { exit_code: 14 | 1 }),
            "{failed:?}"
        );
    });
    alone.end();
}
