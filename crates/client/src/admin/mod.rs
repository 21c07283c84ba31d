//! Asking the admin servers of members over HTTP or HTTPS: the first one that answers is believed.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use transport::Stream;
use transport::tls::Connector;

use crate::limits::ANSWER_BYTES_MAX;

/// How long a server may take to accept the connection, a handshake of TLS included.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long it may be silent: a feed sends a line every 5 seconds.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// The type of a feed: lines of JSON.
pub const LINES: &str = "application/x-ndjson";
/// The type of snapshots and logs.
pub const FILE: &str = "application/octet-stream";
/// The type of exports of the change history.
pub const PROTOBUF: &str = "application/x-protobuf";

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// Nobody is there, or the connection broke.
    #[error("{server}: {reason}")]
    Unreachable {
        /// Who.
        server: String,
        /// What the system says, or what was wrong.
        reason: String,
    },
    /// The server says why not.
    #[error("{server}: {text}")]
    Refused {
        /// Who.
        server: String,
        /// What kind of a refusal.
        status: StatusCode,
        /// Its reason.
        text: String,
        /// What it says besides.
        answer: Value,
    },
}

impl AdminError {
    /// Whether another member may have the answer.
    pub fn may_be_known_elsewhere(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            // With 200 a server says that it does not serve yet, or keeps no history.
            Self::Refused { status, .. } => {
                status.is_server_error() || matches!(*status, StatusCode::GONE | StatusCode::OK)
            }
        }
    }
}

/// Where to ask, and as whom.
#[derive(Clone, Default)]
pub struct AdminClient {
    /// `host:port` of each admin server, in the order in which they are tried.
    pub servers: Vec<String>,
    /// The header `Authorization`: scheme and data, such as `digest user:password`.
    pub authorization: Option<String>,
    /// TLS, if they are to be reached by it.
    pub connector: Connector,
}

impl fmt::Debug for AdminClient {
    // Not as whom: passwords are part of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminClient({:?})", self.servers)
    }
}

impl AdminClient {
    /// The answer of the first member that has one.
    ///
    /// # Errors
    /// That of the last member.
    pub async fn ask(
        &self,
        command: &str,
        parameters: &[(String, String)],
    ) -> Result<Value, AdminError> {
        let mut last = nobody();
        for server in &self.servers {
            let asked = self.ask_one(server, command, parameters);
            let answer = tokio::time::timeout(SILENCE_LIMIT, asked).await;
            match answer.unwrap_or_else(|_| Err(unreachable(server, &"no answer in time"))) {
                Ok(answer) => return Ok(answer),
                Err(error) if error.may_be_known_elsewhere() => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    async fn ask_one(
        &self,
        server: &str,
        command: &str,
        parameters: &[(String, String)],
    ) -> Result<Value, AdminError> {
        let response = self.get(server, command, parameters).await?;
        whole(server, response).await
    }

    /// The answer of the first member that has one, as it comes, and whose it is; `kind` is the content
    /// type that it has to have.
    ///
    /// # Errors
    /// If there is none, or a refusal: that of the last member.
    pub async fn open(
        &self,
        command: &str,
        parameters: &[(String, String)],
        kind: &str,
    ) -> Result<(String, Response<Incoming>), AdminError> {
        let mut last = nobody();
        for server in &self.servers {
            match self.open_one(server, command, parameters, kind).await {
                Ok(response) => return Ok((server.clone(), response)),
                Err(error) if error.may_be_known_elsewhere() => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// The same of one member.
    ///
    /// # Errors
    /// If there is none, or a refusal.
    pub async fn open_one(
        &self,
        server: &str,
        command: &str,
        parameters: &[(String, String)],
        kind: &str,
    ) -> Result<Response<Incoming>, AdminError> {
        let asked = self.get(server, command, parameters);
        let response = tokio::time::timeout(SILENCE_LIMIT, asked).await;
        let response =
            response.unwrap_or_else(|_| Err(unreachable(server, &"no answer in time")))?;
        let is_kind = response.headers().get(CONTENT_TYPE);
        let is_kind = is_kind.is_some_and(|found| found == kind);
        if response.status() != StatusCode::OK || !is_kind {
            whole(server, response).await?;
            let reason = format!("neither {kind} nor a refusal");
            return Err(unreachable(server, &reason));
        }
        Ok(response)
    }

    async fn get(
        &self,
        server: &str,
        command: &str,
        parameters: &[(String, String)],
    ) -> Result<Response<Incoming>, AdminError> {
        let connecting = tokio::time::timeout(CONNECT_LIMIT, self.connect(server));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(unreachable(server, &error)),
            Err(_) => return Err(unreachable(server, &"no connection in time")),
        };
        let io = TokioIo::new(stream);
        let shaken = hyper::client::conn::http1::handshake(io).await;
        let (mut sender, connection) = shaken.map_err(|error| unreachable(server, &error))?;
        // Ends with the connection; what breaks it shows in the body.
        tokio::spawn(connection);
        let query = encoded(parameters);
        let mut request = Request::get(format!("/commands/{command}?{query}")).header(HOST, server);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.as_bytes());
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| unreachable(server, &error))?;
        let answered = sender.send_request(request).await;
        answered.map_err(|error| unreachable(server, &error))
    }

    async fn connect(&self, server: &str) -> std::io::Result<Stream> {
        let stream = TcpStream::connect(server).await?;
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        self.connector.establish(stream, &[host]).await
    }
}

fn encoded(parameters: &[(String, String)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters).finish()
}

fn nobody() -> AdminError {
    unreachable("nobody", &"no server is named")
}

/// The object of an answer; a refusal as an error.
async fn whole(server: &str, response: Response<Incoming>) -> Result<Value, AdminError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let body = body.collect().await;
    let body = body
        .map_err(|error| unreachable(server, &error))?
        .to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = match answer["error"].as_str() {
        None if status == StatusCode::OK && answer.is_object() => return Ok(answer),
        Some(text) if text.starts_with("Unknown command: history/") => {
            "it keeps no change history (history.enabled)".to_owned()
        }
        Some(text) => text.to_owned(),
        None => format!("it answers {status}"),
    };
    Err(AdminError::Refused {
        server: server.to_owned(),
        status,
        text,
        answer,
    })
}

/// A server that gives no answer that can be used, and why.
pub fn unreachable(server: &str, reason: &dyn fmt::Display) -> AdminError {
    AdminError::Unreachable {
        server: server.to_owned(),
        reason: reason.to_string(),
    }
}
