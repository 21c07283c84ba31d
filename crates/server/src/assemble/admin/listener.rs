//! The admin port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use config::Config;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::Admin;
use super::timed_stream::{Activity, TimedStream};
use crate::error::StartError;
use crate::limits;

/// Waiting connections of the admin port. Source: Jetty's default, the system's.
const BACKLOG: i32 = 128;

/// Pause after a failed accept: it passes when files are closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The admin server at work; it ends with this, unless it was [kept](Self::keep).
pub(crate) struct AdminTask {
    /// The server.
    pub(crate) admin: Arc<Admin>,
    accepting: Option<AbortHandle>,
}

impl AdminTask {
    /// It goes on until whoever has the handle ends it.
    pub(crate) fn keep(mut self) -> Option<AbortHandle> {
        self.accepting.take()
    }
}

impl Drop for AdminTask {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

/// Listens and answers, if the configuration wants that.
///
/// # Errors
/// If the address cannot be listened on.
pub(crate) async fn begin(config: &Arc<Config>) -> Result<Option<AdminTask>, StartError> {
    if !config.admin.is_enabled {
        return Ok(None);
    }
    let settings = &config.admin;
    let bound = bind(&settings.address, settings.port, BACKLOG).await;
    let listener = bound.map_err(|source| StartError::BindAdmin {
        address: format!("{}:{}", settings.address, settings.port),
        source,
    })?;
    tracing::info!(
        address = settings.address,
        port = settings.port,
        url = settings.command_url,
        "admin server listens"
    );
    let admin = Arc::new(Admin::new(config.clone()));
    let accepting = tokio::spawn(accept(admin.clone(), listener)).abort_handle();
    Ok(Some(AdminTask {
        admin,
        accepting: Some(accepting),
    }))
}

/// Listens on a host by name or address; `0.0.0.0` is every address of this machine.
async fn bind(host: &str, port: u16, backlog: i32) -> io::Result<TcpListener> {
    let found = transport::resolve(host, port, limits::RESOLVE_TIMEOUT).await?;
    let address = found.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
    transport::bind_ip(address.ip(), port, backlog)
}

/// Accepts until the task is aborted, which ends its connections too.
async fn accept(admin: Arc<Admin>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(limits::ADMIN_CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // Never closed.
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                let admin = admin.clone();
                connections.spawn(async move {
                    serve(admin, stream, peer).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(err = %error, "cannot accept a connection to the admin server");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers the requests of a connection, whatever it runs over.
async fn serve<S>(admin: Arc<Admin>, stream: S, peer: SocketAddr)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let idle = Duration::from_millis(admin.config.admin.idle_timeout_ms.into());
    let activity = Activity::default();
    let stream = TimedStream::new(stream, idle, activity.clone());
    let service = service_fn(move |request| {
        let (admin, activity) = (admin.clone(), activity.clone());
        async move { admin.answer(request, peer, &activity).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        .max_headers(limits::HTTP_HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, err = %error, "connection to the admin server ended");
    }
}
