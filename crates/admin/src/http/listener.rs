//! HTTP port.

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
use log_limiter::LogLimiter;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use transport::Stream;
use transport::tls::certificate::Chain;
use transport::tls::{Acceptor, looks_like_tls};

use super::admission::{Admission, AdmittedConnection};
use super::body::{BUSY, Paced};
use super::response::{ResponseBody, respond};
use super::timed_stream::{Activity, TimedStream};
use crate::answer::Answer;
use crate::limits;

/// Size of the port's accept queue.
const BACKLOG: i32 = 512;

/// Reason why a plain port refuses a client that uses TLS.
const TLS: &str = "the client uses TLS, but this port accepts only plain connections";

/// Value of the header `Strict-Transport-Security` in all responses over TLS. Source:
/// JettyAdminServer.
const ONLY_TLS: &str = "max-age=86400; includeSubDomains";

/// Pause after a failed accept, so that other file descriptors can be closed meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Handler of a port's requests.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Handles a new connection.
    fn connected(&self, _caller: &Caller) {}

    /// Returns whether a request is answered without a slot. This is for requests that are fast and
    /// must always be answered.
    fn is_answered_always(&self, _path: &str) -> bool {
        false
    }

    /// Answers a request. `activity` marks the time during which the caller may be silent, and
    /// holds the request's slot for work that outlives the request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        caller: Caller,
        activity: Activity,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// Peer that sends a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) peer: SocketAddr,
    pub(crate) is_tls: bool,
    /// Certificates that the caller has presented. Empty without TLS.
    pub(crate) certificates: Arc<Chain>,
}

/// Address of a port, and the maximum idle time of its callers.
#[derive(Debug, Clone)]
pub(crate) struct PortSettings {
    /// Name of the port in log messages.
    pub(crate) name: &'static str,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Acceptor for the listener's connections.
    pub(crate) acceptor: Acceptor,
    pub(crate) idle: Duration,
}

/// Running port. Dropping the value closes the port. [`Self::keep`] lets the port run without the
/// value.
pub struct PortTask<A> {
    /// Handler of the requests.
    pub answers: Arc<A>,
    accepting: Option<AbortHandle>,
}

impl<A> PortTask<A> {
    /// Keeps the port running until the returned handle aborts it.
    pub fn keep(mut self) -> Option<AbortHandle> {
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

/// Error for a port on which the server cannot listen.
#[derive(Debug)]
pub struct BindError {
    /// Address of the port.
    pub address: String,
    /// Error of the system.
    pub source: io::Error,
}

/// Listens on the port and answers requests.
///
/// # Errors
/// If the server cannot listen on the address.
pub(crate) async fn listen<A: Answers>(
    settings: PortSettings,
    answers: Arc<A>,
) -> Result<PortTask<A>, BindError> {
    let bound = bind(&settings.host, settings.port, BACKLOG).await;
    let listener = bound.map_err(|source| BindError {
        address: format!("{}:{}", settings.host, settings.port),
        source,
    })?;
    let accepting = accept(answers.clone(), listener, settings);
    Ok(PortTask {
        answers,
        accepting: Some(tokio::spawn(accepting).abort_handle()),
    })
}

/// Listens on a host, given by name or address. `0.0.0.0` means all addresses of this machine.
async fn bind(host: &str, port: u16, backlog: i32) -> io::Result<TcpListener> {
    let found = transport::resolve(host, port, limits::RESOLVE_TIMEOUT).await?;
    let address = found.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
    transport::bind_ip(address.ip(), port, backlog)
}

/// Accepts connections until the task is aborted, which also ends the connections.
async fn accept<A: Answers>(answers: Arc<A>, listener: TcpListener, settings: PortSettings) {
    let port = Arc::new(Port {
        admission: Admission::new(),
        log_limiter: LogLimiter::of(settings.name),
        settings,
    });
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                // If the port accepts TLS, a connection is admitted after its handshake. The
                // acceptor limits the number of handshakes.
                let connection = if port.settings.acceptor.is_plain() {
                    Some(port.admission.admit().await)
                } else {
                    None
                };
                connections.spawn(port.clone().serve_connection(
                    answers.clone(),
                    stream,
                    peer,
                    connection,
                ));
            }
            Err(error) => {
                log_limiter::limited!(in port.log_limiter => warn, err = %error, "cannot accept a connection over HTTP");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// State shared by the connections of a port.
struct Port {
    settings: PortSettings,
    admission: Arc<Admission>,
    log_limiter: LogLimiter,
}

impl Port {
    /// Serves a connection, from its handshake to its end.
    async fn serve_connection<A: Answers>(
        self: Arc<Self>,
        answers: Arc<A>,
        stream: TcpStream,
        peer: SocketAddr,
        connection: Option<Arc<AdmittedConnection>>,
    ) {
        let settings = &self.settings;
        let stream = match settings.acceptor.establish(stream, peer).await {
            Ok(stream) => stream,
            Err(refused) => return refused.log(settings.name, peer, &self.log_limiter),
        };
        let connection = match connection {
            Some(connection) => connection,
            None => self.admission.admit().await,
        };
        let refused = tokio::select! {
            refused = self.serve_stream(answers, stream, peer, connection.clone()) => refused,
            () = connection.must_close() => {
                tracing::debug!(%peer, of = settings.name, "closing an idle connection for a new one");
                return;
            }
        };
        if let Some(refused) = refused {
            log_limiter::limited!(in self.log_limiter => warn, of = settings.name, %peer, err = %refused, "connection refused");
        }
    }

    /// Serves a connection after its handshake. Returns the error text if the peer sent invalid
    /// HTTP.
    async fn serve_stream<A: Answers>(
        &self,
        answers: Arc<A>,
        stream: Stream,
        peer: SocketAddr,
        connection: Arc<AdmittedConnection>,
    ) -> Option<String> {
        let idle = self.settings.idle;
        // The idle timeout also applies to a peer that does not send a first byte.
        let speaks_tls = timeout(idle, speaks_tls(&stream)).await.ok()?;
        if speaks_tls {
            return Some(TLS.to_owned());
        }
        let served = serve(answers, stream, peer, connection, idle).await;
        served.err().and_then(|error| syntax_error(&error, peer))
    }
}

/// Returns whether a plain stream begins with TLS. Waits for the first bytes of the stream.
async fn speaks_tls(stream: &Stream) -> bool {
    let Stream::Plain(stream) = stream else {
        return false;
    };
    let mut bytes = [0; 2];
    let len = stream.peek(&mut bytes).await.unwrap_or_default();
    bytes.get(..len).is_some_and(looks_like_tls)
}

/// Returns the error text if the peer sent invalid HTTP. Other errors, such as disconnects and
/// timeouts, are only logged at debug level.
fn syntax_error(error: &hyper::Error, peer: SocketAddr) -> Option<String> {
    if error.is_parse() {
        return Some(error.to_string());
    }
    tracing::debug!(%peer, err = %error, "connection over HTTP ended");
    None
}

/// Answers the requests of a connection over any stream.
async fn serve<A: Answers>(
    answers: Arc<A>,
    stream: Stream,
    peer: SocketAddr,
    connection: Arc<AdmittedConnection>,
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
        connection.head_received();
        let answering = answer(
            answers.clone(),
            request,
            caller.clone(),
            connection.clone(),
            activity.clone(),
        );
        async move { Ok::<_, Infallible>(answering.await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        .max_headers(limits::HTTP_HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// Answers one request. The body of the response holds the slot until it is written.
async fn answer<A: Answers>(
    answers: Arc<A>,
    request: Request<Incoming>,
    caller: Caller,
    connection: Arc<AdmittedConnection>,
    activity: Activity,
) -> Response<ResponseBody> {
    let is_tls = caller.is_tls;
    let mut response = if answers.is_answered_always(request.uri().path()) {
        let response = answers.answer(request, caller, activity).await;
        response.map(|body| Paced::boxed(body, |_| connection.answer_at_once()))
    } else {
        let slot = {
            let _at_work = activity.begin();
            connection.slot().await
        };
        match slot {
            Some(slot) => {
                let activity = activity.with(&slot);
                let response = answers.answer(request, caller, activity).await;
                response.map(|body| Paced::boxed(body, |bytes| slot.answer(bytes)))
            }
            None => {
                let response = respond(Answer::busy(BUSY));
                response.map(|body| Paced::boxed(body, |_| connection.answer_at_once()))
            }
        }
    };
    if is_tls {
        let only_tls = HeaderValue::from_static(ONLY_TLS);
        let headers = response.headers_mut();
        headers.insert(header::STRICT_TRANSPORT_SECURITY, only_tls);
    }
    response
}
