//! Commands over HTTP.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::orders::{Orders, send};

/// Maximum number of open connections.
const CONNECTIONS_MAX: usize = 16;
/// Maximum size of the commands in one request, bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Time limit for a connection. It exceeds the time of the longest command.
const CONNECTION_LIMIT: Duration = Duration::from_secs(300);

/// Listens on a free port of 127.0.0.1. Returns its address.
///
/// # Errors
/// If the process cannot listen.
pub(super) async fn listen(orders: Orders) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(accept(listener, orders));
    Ok(address)
}

async fn accept(listener: TcpListener, orders: Orders) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // The process has no free file descriptor. A connection has to end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let orders = orders.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, orders.clone()));
            let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A failed connection only concerns its client.
            let _ = timeout(CONNECTION_LIMIT, serving).await;
            drop(permit);
        });
    }
}

type HttpAnswer = Response<Full<Bytes>>;

async fn answer(request: Request<Incoming>, orders: Orders) -> Result<HttpAnswer, Infallible> {
    if request.method() != Method::POST {
        let text = "send commands by POST, one on each line\n";
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    // A web page in a browser must not use a port of this machine.
    if request.headers().contains_key(ORIGIN) {
        let text = "this port does not serve browsers\n";
        return Ok(plain(StatusCode::FORBIDDEN, text));
    }
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    let Ok(body) = body.await.map(|body| body.to_bytes()) else {
        let text = "the request is incomplete or too long\n";
        return Ok(plain(StatusCode::BAD_REQUEST, text));
    };
    let (mut lines, mut is_ok) = (String::new(), true);
    let text = String::from_utf8_lossy(&body);
    let commands = text.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in commands {
        let Some(answer) = send(&orders, line.to_owned()).await else {
            let text = "the servers are stopping\n";
            return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, text));
        };
        is_ok &= answer.is_ok;
        lines.push_str(&answer.line());
    }
    let status = if is_ok {
        StatusCode::OK
    } else {
        StatusCode::BAD_REQUEST
    };
    Ok(response(status, "application/jsonl", lines))
}

fn plain(status: StatusCode, text: &str) -> HttpAnswer {
    response(status, "text/plain; charset=utf-8", text.to_owned())
}

fn response(status: StatusCode, kind: &'static str, body: String) -> HttpAnswer {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
