//! Queries to the admin ports of other members. The duration and size of an answer are bounded, and
//! redirects are not followed.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use config::members::HostPort;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use transport::tls::Connector;

use crate::limits::{MEMBER_ANSWER_BYTES_MAX, MEMBER_ANSWER_TIME};

/// Reason why a visitor's credentials are not sent.
const NOT_ENCRYPTED: &str = "the connection to its admin port is not encrypted, so the server does not send your credentials over it (admin.forceHttps)";

/// Background work that ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Running(AbortHandle);

impl Running {
    /// Starts work in the background.
    pub(crate) fn begin(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reason why a query failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QueryError {
    /// The port does not accept connections, or does not answer in time.
    Unreachable(String),
    /// A server refused the query or sent an invalid answer, or the query was not sent.
    Refused(String),
}

/// Request to an admin port.
#[derive(Clone, Copy)]
pub(super) struct MemberRequest<'a> {
    pub(super) path: &'a str,
    /// Value of the header `Authorization`. It is sent only over TLS or within this machine.
    pub(super) authorization: Option<&'a str>,
    /// Maximum size of the answer, in bytes.
    pub(super) bytes_max: usize,
}

/// Returns the JSON object at a path of an admin port. Does not send credentials.
pub(super) async fn get(
    port: &HostPort,
    path: &str,
    connector: &Connector,
) -> Result<Value, QueryError> {
    let request = MemberRequest {
        path,
        authorization: None,
        bytes_max: MEMBER_ANSWER_BYTES_MAX,
    };
    ask(port, request, connector).await
}

/// Returns the JSON object in the answer to a request.
pub(super) async fn ask(
    port: &HostPort,
    request: MemberRequest<'_>,
    connector: &Connector,
) -> Result<Value, QueryError> {
    let stream = connected(port).await?;
    let is_near = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    let is_private = connector.uses_tls() || stream.peer_addr().is_ok_and(is_near);
    if request.authorization.is_some() && !is_private {
        return Err(QueryError::Refused(NOT_ENCRYPTED.to_owned()));
    }
    let answering = answer(stream, request, port, connector);
    let answered = timeout(MEMBER_ANSWER_TIME, answering).await;
    answered.unwrap_or_else(|_| Err(QueryError::Unreachable("no answer in time".to_owned())))
}

/// Connects to a port. The time limit does not apply to the name lookup, so that one lookup ends
/// before the next begins.
async fn connected(port: &HostPort) -> Result<TcpStream, QueryError> {
    let unreachable = |error: io::Error| QueryError::Unreachable(error.to_string());
    let found = tokio::net::lookup_host((port.host.as_str(), port.port)).await;
    let addresses: Vec<_> = found.map_err(unreachable)?.collect();
    let connecting = timeout(MEMBER_ANSWER_TIME, TcpStream::connect(&addresses[..])).await;
    let connected = connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    connected.map_err(unreachable)
}

async fn answer(
    stream: TcpStream,
    member_request: MemberRequest<'_>,
    port: &HostPort,
    connector: &Connector,
) -> Result<Value, QueryError> {
    let refused = |error: io::Error| QueryError::Refused(error.to_string());
    let other = |error: hyper::Error| {
        if error.is_parse() {
            QueryError::Refused(format!("{error} (the port may not be an admin port)"))
        } else {
            QueryError::Unreachable(error.to_string())
        }
    };
    let stream = connector.establish(stream, &[port.host.as_str()]).await;
    let shaken = http1::Builder::new()
        .max_buf_size(MEMBER_ANSWER_BYTES_MAX)
        .handshake(TokioIo::new(stream.map_err(refused)?))
        .await;
    let (mut sender, connection) = shaken.map_err(other)?;
    let _connection = Running::begin(async {
        // The query itself reports the error.
        let _ = connection.await;
    });
    let mut request = Request::get(member_request.path).header(HOST, port.to_string());
    if let Some(authorization) = member_request.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|error| QueryError::Refused(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(other)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), member_request.bytes_max).collect();
    let body = body
        .await
        .map_err(|error| QueryError::Refused(format!("the answer is invalid: {error}")))?
        .to_bytes();
    let found: Value = serde_json::from_slice(&body).unwrap_or_default();
    match found.get("error").and_then(Value::as_str) {
        None if status == StatusCode::OK && found.is_object() => Ok(found),
        Some(error) => Err(QueryError::Refused(error.to_owned())),
        None => Err(QueryError::Refused(format!("the status is {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one request with these bytes. Returns the error of the query.
    async fn refusal(bytes: Vec<u8>) -> QueryError {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = HostPort::new("127.0.0.1", listener.local_addr().unwrap().port());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            assert!(request[..read].starts_with(b"GET /commands/member HTTP/1.1\r\n"));
            // The client may close the connection first.
            let _ = stream.write_all(&bytes).await;
        });
        let request = get(&port, "/commands/member", &Connector::plain()).await;
        serving.await.unwrap();
        request.unwrap_err()
    }

    #[tokio::test]
    async fn answers_of_other_servers_are_refused_with_a_reason() {
        let huge = MEMBER_ANSWER_BYTES_MAX + 1;
        let head = |length: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let long = [head(huge).into_bytes(), vec![b' '; huge]].concat();
        let redirect =
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n";
        let refused = |text: &str| {
            let length = text.len();
            format!("HTTP/1.1 421 Misdirected\r\nContent-Length: {length}\r\n\r\n{text}")
                .into_bytes()
        };
        let table = [
            (long, "the answer is invalid: length limit exceeded"),
            (redirect.to_vec(), "the status is 302 Found"),
            (refused("{\"error\":\"unknown Host\"}"), "unknown Host"),
            (refused("<html>"), "the status is 421 Misdirected Request"),
        ];
        for (bytes, wanted) in table {
            assert_eq!(refusal(bytes).await, QueryError::Refused(wanted.to_owned()));
        }
        let QueryError::Refused(text) = refusal(b"SSH-2.0-server\r\n\r\n".to_vec()).await else {
            panic!("another protocol")
        };
        assert!(text.contains("may not be an admin port"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_or_closed_port_is_unreachable() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = HostPort::new("127.0.0.1", listener.local_addr().unwrap().port());
        let is_unreachable = async || {
            let request = get(&port, "/", &Connector::plain()).await;
            matches!(request, Err(QueryError::Unreachable(_)))
        };
        assert!(is_unreachable().await);
        drop(listener);
        assert!(is_unreachable().await);
    }
}
