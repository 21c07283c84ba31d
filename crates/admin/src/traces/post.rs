//! Client for single HTTP requests, for the exporter of traces.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::net::TcpStream;

/// Time limit for a request and its answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Maximum length of an answer, which contains the reasons for refusals.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Collector to which traces are sent.
#[derive(Debug)]
pub(super) struct Post {
    authority: String,
}

impl Post {
    /// Creates a client for `url`. The configuration has checked that `url` contains a host and a
    /// port.
    pub(super) fn new(url: &Uri) -> Self {
        let authority = url.authority().map(ToString::to_string);
        Self {
            authority: authority.unwrap_or_default(),
        }
    }

    /// Sends one request. Uses a new connection, because there is only one request per second.
    async fn ask(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let stream = TcpStream::connect(&self.authority).await?;
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken?;
        // The task ends with the request.
        let connection = tokio::spawn(connection);
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
        let host = HeaderValue::from_str(&self.authority)?;
        request.headers_mut().insert(HOST, host);
        let response = sender.send_request(request.map(Full::new)).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?;
        connection.abort();
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answered = tokio::time::timeout(LIMIT, self.ask(request)).await;
        answered.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
    }
}
