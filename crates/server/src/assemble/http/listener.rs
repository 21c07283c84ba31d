//! A port that answers over HTTP.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::ResponseBody;
use super::timed_stream::{Activity, TimedStream};
use crate::limits;

/// Waiting connections of a port.
const BACKLOG: i32 = 128;

/// Pause after a failed accept: it passes when files are closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who answers the requests of a port.
pub(crate) trait Answers: Send + Sync + 'static {
    /// The answer to a request of `peer`. `activity` says when its silence is no fault.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: SocketAddr,
        activity: Activity,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// Where a port is, and how long its callers may be silent.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
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
    let accepting = accept(answers.clone(), listener, place.idle);
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
async fn accept<A: Answers>(answers: Arc<A>, listener: TcpListener, idle: Duration) {
    let places = Arc::new(Semaphore::new(limits::HTTP_CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // Never closed.
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                let answers = answers.clone();
                connections.spawn(async move {
                    serve(answers, stream, peer, idle).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(err = %error, "cannot accept a connection over HTTP");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers the requests of a connection, whatever it runs over.
async fn serve<A, S>(answers: Arc<A>, stream: S, peer: SocketAddr, idle: Duration)
where
    A: Answers,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::default();
    let stream = TimedStream::new(stream, idle, activity.clone());
    let service = service_fn(move |request| {
        let answer = answers.clone().answer(request, peer, activity.clone());
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        .max_headers(limits::HTTP_HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, err = %error, "connection over HTTP ended");
    }
}
