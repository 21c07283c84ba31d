//! A port that answers over HTTP.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use transport::tls::certificate::Chain;
use transport::tls::{Acceptor, looks_like_tls};
use transport::{LogLimiter, Stream};

use super::ResponseBody;
use super::timed_stream::{Activity, TimedStream};
use crate::limits;

/// Waiting connections of a port.
const BACKLOG: i32 = 128;

/// Why a plain port does not take it.
const TLS: &str = "it speaks TLS, and this port takes plain connections";

/// What browsers are told that come by TLS. Source: JettyAdminServer.
const ONLY_TLS: &str = "max-age=86400; includeSubDomains";

/// Pause after a failed accept: it passes when files are closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who answers the requests of a port.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Somebody is connected.
    fn connected(&self, _caller: &Caller) {}

    /// The answer to a request. `activity` says when the caller's silence is no fault.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        caller: Caller,
        activity: Activity,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) peer: SocketAddr,
    pub(crate) is_tls: bool,
    /// What it has shown; empty without TLS.
    pub(crate) certificates: Arc<Chain>,
}

/// Where a port is, and how long its callers may be silent.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Whose port it is, for logs.
    pub(crate) of: &'static str,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What it takes.
    pub(crate) acceptor: Acceptor,
    pub(crate) idle: Duration,
}

/// A port at work; it ends with this, unless it was [kept](Self::keep).
pub(crate) struct PortTask<A> {
    /// Who answers.
    pub(crate) answers: Arc<A>,
    accepting: Option<AbortHandle>,
}

impl<A> PortTask<A> {
    /// It goes on until whoever has the handle ends it.
    pub(crate) fn keep(mut self) -> Option<AbortHandle> {
        self.accepting.take()
    }
}

impl<A> Drop for PortTask<A> {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

/// Listens and answers.
///
/// # Errors
/// If the address cannot be listened on.
pub(crate) async fn listen<A: Answers>(place: Place, answers: Arc<A>) -> io::Result<PortTask<A>> {
    let listener = bind(&place.host, place.port, BACKLOG).await?;
    let accepting = accept(answers.clone(), listener, place);
    Ok(PortTask {
        answers,
        accepting: Some(tokio::spawn(accepting).abort_handle()),
    })
}

/// Listens on a host by name or address; `0.0.0.0` is every address of this machine.
async fn bind(host: &str, port: u16, backlog: i32) -> io::Result<TcpListener> {
    let found = transport::resolve(host, port, limits::RESOLVE_TIMEOUT).await?;
    let address = found.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
    transport::bind_ip(address.ip(), port, backlog)
}

/// Accepts until the task is aborted, which ends its connections too.
async fn accept<A: Answers>(answers: Arc<A>, listener: TcpListener, place: Place) {
    let seats = Arc::new(Semaphore::new(limits::HTTP_CONNECTIONS_MAX));
    let port = Arc::new(Port {
        place,
        seats: seats.clone(),
        log_limiter: LogLimiter::default(),
    });
    let mut connections = JoinSet::new();
    loop {
        // Never closed.
        let Ok(seat) = seats.clone().acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Whoever only begins a handshake takes nobody's seat: how many do, is bounded by the acceptor.
                let seat = port.place.acceptor.is_plain().then_some(seat);
                let meeting = port.clone().meet(answers.clone(), stream, peer, seat);
                connections.spawn(meeting);
            }
            Err(error) => {
                tracing::warn!(err = %error, "cannot accept a connection over HTTP");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What the connections of a port share.
struct Port {
    place: Place,
    /// One for each connection that is answered.
    seats: Arc<Semaphore>,
    log_limiter: LogLimiter,
}

impl Port {
    /// A connection, from its handshake to its end.
    async fn meet<A: Answers>(
        self: Arc<Self>,
        answers: Arc<A>,
        stream: TcpStream,
        peer: SocketAddr,
        seat: Option<OwnedSemaphorePermit>,
    ) {
        let place = &self.place;
        let stream = match place.acceptor.establish(stream, peer).await {
            Ok(stream) => stream,
            Err(refused) => return refused.tell(place.of, peer, &self.log_limiter),
        };
        let _seat = match seat {
            Some(seat) => Ok(seat),
            None => self.seats.clone().acquire_owned().await,
        };
        // Whoever says nothing for so long is left, as later on.
        let Ok(speaks_tls) = timeout(place.idle, speaks_tls(&stream)).await else {
            return;
        };
        let refused = match speaks_tls {
            true => Some(TLS.to_owned()),
            false => {
                let served = serve(answers, stream, peer, place.idle).await;
                served.err().and_then(|error| wrong(&error, peer))
            }
        };
        if let Some(refused) = refused
            && let Some(left_out) = self.log_limiter.admit()
        {
            tracing::warn!(of = place.of, %peer, err = %refused, left_out, "connection refused");
        }
    }
}

/// Whether a plain stream begins so: waits for its first bytes.
async fn speaks_tls(stream: &Stream) -> bool {
    let Stream::Plain(stream) = stream else {
        return false;
    };
    let mut bytes = [0; 2];
    let len = stream.peek(&mut bytes).await.unwrap_or_default();
    bytes.get(..len).is_some_and(looks_like_tls)
}

/// What is wrong with the bytes. Others leave in the middle, or say nothing for too long.
fn wrong(error: &hyper::Error, peer: SocketAddr) -> Option<String> {
    if error.is_parse() {
        return Some(error.to_string());
    }
    tracing::debug!(%peer, err = %error, "connection over HTTP ended");
    None
}

/// Answers the requests of a connection, whatever it runs over.
async fn serve<A: Answers>(
    answers: Arc<A>,
    stream: Stream,
    peer: SocketAddr,
    idle: Duration,
) -> Result<(), hyper::Error> {
    let caller = Caller {
        peer,
        is_tls: stream.is_tls(),
        certificates: Arc::new(stream.peer_chain()),
    };
    answers.connected(&caller);
    let activity = Activity::default();
    let stream = TimedStream::new(stream, idle, activity.clone());
    let service = service_fn(move |request| {
        let is_tls = caller.is_tls;
        let answer = answers
            .clone()
            .answer(request, caller.clone(), activity.clone());
        async move {
            let mut response = answer.await;
            if is_tls {
                let only_tls = HeaderValue::from_static(ONLY_TLS);
                let headers = response.headers_mut();
                headers.insert(header::STRICT_TRANSPORT_SECURITY, only_tls);
            }
            Ok::<_, Infallible>(response)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        .max_headers(limits::HTTP_HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
