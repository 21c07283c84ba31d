//! The thread that contains the runtime of a server inside another program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use config::Config;
use server::{Service, Started};
use testkit::faults::Faults;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};

use super::error::ServerError;
use super::pause::Pause;

/// Number of worker threads. It is low because a server's tasks are short, and a program may run
/// many servers.
const WORKERS: usize = 2;

/// Time for the remaining tasks after the server has stopped, such as a lookup at a name server
/// that does not respond. Their results no longer matter.
const LEFT_BEHIND_MAX: Duration = Duration::from_secs(1);

/// State of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The server is starting, or does not know a leader.
    Waiting,
    /// The server accepts reads and writes.
    Serving {
        /// Whether the server decides on writes, as a leader or a standalone server.
        leads: bool,
    },
    /// The server has stopped, either on request or with this exit code after a failure. Only the
    /// thread that reports this still exists.
    Ended(Option<u8>),
}

/// Number of threads in a pause: the workers, and the thread that runs the core.
pub(super) const PAUSED_THREADS: usize = WORKERS + 1;

/// Way in which a server has to end.
#[derive(Debug)]
pub(super) enum RequestedEnd {
    /// Pending proposals are first made durable and answered.
    Stop,
    /// The server ends as if its process had been killed.
    Kill,
}

/// A running thread, with the channels to and from it.
pub(super) struct Host {
    pub(super) thread: JoinHandle<()>,
    pub(super) stop: oneshot::Sender<RequestedEnd>,
    pub(super) pauses: mpsc::UnboundedSender<Pause>,
    pub(super) state: watch::Receiver<State>,
    pub(super) started: oneshot::Receiver<Result<Started, ServerError>>,
}

/// Receivers of requests to a running server.
struct Requests {
    stop: oneshot::Receiver<RequestedEnd>,
    pauses: mpsc::UnboundedReceiver<Pause>,
}

/// The thread's ends of the channels in [`Host`].
struct ThreadChannels {
    requests: Requests,
    state: watch::Sender<State>,
    started: oneshot::Sender<Result<Started, ServerError>>,
}

impl Host {
    pub(super) fn spawn(config: Arc<Config>, faults: Option<Faults>) -> io::Result<Self> {
        // Number that distinguishes the threads of several servers.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("zoarium-{number}");
        let (stop, stop_request) = oneshot::channel();
        let (pauses, paused) = mpsc::unbounded_channel();
        let (shown, state) = watch::channel(State::Waiting);
        let (start, started) = oneshot::channel();
        let ends = ThreadChannels {
            requests: Requests {
                stop: stop_request,
                pauses: paused,
            },
            state: shown,
            started: start,
        };
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || host(&name, config, faults, ends))?;
        Ok(Self {
            thread,
            stop,
            pauses,
            state,
            started,
        })
    }
}

fn host(name: &str, config: Arc<Config>, faults: Option<Faults>, ends: ThreadChannels) {
    let ThreadChannels {
        requests,
        state,
        started,
    } = ends;
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name(name)
        .enable_all()
        .on_thread_start(blocking::arm)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(ServerError::Threads(error)));
            return;
        }
    };
    let end = runtime.block_on(run(config, faults, requests, &state, started));
    // This closes all connections.
    runtime.shutdown_timeout(LEFT_BEHIND_MAX);
    let failed = match end {
        ServerEnd::Stopped => None,
        ServerEnd::Failed(exit_code) => Some(exit_code),
        ServerEnd::Killed(server) => {
            server.abandon();
            None
        }
    };
    state.send_replace(State::Ended(failed));
}

/// Way in which a server has ended.
enum ServerEnd {
    Stopped,
    /// The server failed with this exit code.
    Failed(u8),
    /// The threads of the server still exist.
    Killed(Box<server::Server>),
}

async fn run(
    config: Arc<Config>,
    faults: Option<Faults>,
    mut requests: Requests,
    state: &watch::Sender<State>,
    started: oneshot::Sender<Result<Started, ServerError>>,
) -> ServerEnd {
    let starting = async {
        match &faults {
            Some(faults) => server::Server::start_with(config, faults.disk(), faults.cuts()).await,
            None => server::Server::start(config).await,
        }
    };
    let server = match starting.await {
        Ok(server) => server,
        Err(error) => {
            // If the start was cancelled, no task waits for the result.
            let _ = started.send(Err(error.into()));
            return ServerEnd::Stopped;
        }
    };
    let mut serving = server.serving();
    show(state, *serving.borrow_and_update());
    let _ = started.send(Ok(server.started().clone()));
    let end = loop {
        tokio::select! {
            stop_request = &mut requests.stop => match stop_request {
                Ok(RequestedEnd::Kill) => {
                    faults.iter().for_each(Faults::switch_disk_off);
                    return ServerEnd::Killed(Box::new(server));
                }
                // A stop was requested, or the handle was dropped.
                Ok(RequestedEnd::Stop) | Err(_) => break ServerEnd::Stopped,
            },
            Some(pause) = requests.pauses.recv() => {
                for _ in 0..WORKERS {
                    let pause = pause.clone();
                    tokio::spawn(async move { pause.hold() });
                }
                pause.entered(WORKERS).await;
                server.block_core(move || pause.hold());
            }
            exit_code = server.failed() => break ServerEnd::Failed(exit_code),
            changed = serving.changed() => match changed {
                Ok(()) => show(state, *serving.borrow_and_update()),
                Err(_) => break ServerEnd::Stopped,
            },
        }
    };
    server.stop().await;
    end
}

fn show(state: &watch::Sender<State>, service: Service) {
    state.send_replace(match service {
        Service::Deciding => State::Serving { leads: true },
        Service::Forwarding => State::Serving { leads: false },
        Service::None | Service::ReadOnly => State::Waiting,
    });
}
