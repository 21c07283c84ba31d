//! A server that lacks an open file for a connection continues once one is free.
//!
//! The limit of open files applies to a process, so the server runs in a separate process: this
//! test, started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use log_limiter::LogLimiter;
use rustix::process::{Resource, getrlimit, setrlimit};
use zoarium_transport::{
    Accepting, Listener, ReservedDescriptors, SocketOptions, accept_each, bind,
};

/// Log line for each connection that cannot be accepted, limited to a few per minute.
const COMPLAINT: &str = "cannot accept a connection";
const COMPLAINTS: u32 = LogLimiter::LINES_MAX;
/// Minimum pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(50);
/// Timeout for events that should occur immediately. Generous, because machines may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Environment variable of the process that is the server.
const IS_SERVER: &str = "ZOARIUM_ACCEPT_SERVER";

/// Not a test, but the server in a separate process. It prints its port, and greets each connection
/// that it accepts. `less` on its standard input removes the open files, and `more` restores them.
#[test]
fn server() {
    if std::env::var_os(IS_SERVER).is_none() {
        return;
    }
    tracing_subscriber::fmt().with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    let bound = {
        let _inside = runtime.enter();
        bind((Ipv4Addr::LOCALHOST, 0).into(), 8).unwrap()
    };
    println!("port {}", bound.local_addr().unwrap().port());
    runtime.spawn(async move {
        let accepting = Accepting {
            of: "tests",
            options: SocketOptions::default(),
            reserved_descriptors: ReservedDescriptors::ByClients,
        };
        accept_each(&Listener::new(bound), accepting, |stream, _| {
            let mut stream = stream.into_std().unwrap();
            stream.set_nonblocking(false).unwrap();
            stream.write_all(b"!").unwrap();
        })
        .await;
    });
    let before = getrlimit(Resource::Nofile);
    for order in std::io::stdin().lines() {
        let mut limit = before;
        if order.unwrap() == "less" {
            // The system assigns the lowest free number next.
            let free = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
            limit.current = u64::try_from(free).ok();
        }
        setrlimit(Resource::Nofile, limit).unwrap();
        println!("done");
    }
}

struct Server {
    child: Child,
    orders: ChildStdin,
    said: mpsc::Receiver<String>,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let arguments = ["accept::server", "--exact", "--nocapture"];
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .env(IS_SERVER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut server = Self {
            child,
            orders,
            said,
            port: 0,
        };
        let line = server.wait_for("port ");
        server.port = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        server
    }

    fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(error) => panic!("the server does not say {text:?}: {error}"),
            }
        }
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
        self.wait_for("done");
    }

    /// Connects a client. The system completes the connection even if the server does not accept
    /// it.
    fn connect(&self) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads up to the end. After that, the server's number for this connection is free again, and
/// `less` does not count it as used.
fn is_greeted(mut client: TcpStream) {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut greeting = Vec::new();
    client.read_to_end(&mut greeting).unwrap();
    assert_eq!(greeting, b"!");
}

#[test]
fn fd_exhaustion_delays_accept_without_spinning() {
    let mut server = Server::start();
    is_greeted(server.connect());
    server.order("less");
    let begun = Instant::now();
    let waiting = server.connect();
    // The accept is retried repeatedly, but with pauses.
    for _ in 0..COMPLAINTS {
        server.wait_for(COMPLAINT);
    }
    let took = begun.elapsed();
    assert!(took >= PAUSE * (COMPLAINTS - 1), "{COMPLAINTS} in {took:?}");
    server.order("more");
    is_greeted(waiting);
    is_greeted(server.connect());
}
