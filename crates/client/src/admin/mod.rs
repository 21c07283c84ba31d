//! Client of the members' admin servers, over HTTP or HTTPS. It queries the members in order and
//! uses the first answer.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use proto::Zxid;
use proto::position::Position;
use tokio::net::{TcpStream, lookup_host};
use transport::{Connector, Stream};

pub use hyper::body::Incoming;
pub use hyper::{Response, StatusCode};
pub use serde_json::Value;

use crate::limits::ANSWER_BYTES_MAX;
use crate::port::host_of;

/// Path prefix of the commands, unless a server's address contains another prefix.
const COMMANDS: &str = "/commands";
/// Time limit for the TCP connection and the TLS handshake together.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for an answer, and for each wait for data of a feed. A feed sends a line at least
/// every 5 seconds.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Content type of a feed: lines of JSON.
pub const LINES: &str = "application/x-ndjson";
/// Content type of snapshots and logs.
pub const FILE: &str = "application/octet-stream";
/// Content type of exports of the change history.
pub const PROTOBUF: &str = "application/x-protobuf";

/// Reason why a request to an admin server failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The server could not be reached, the connection broke, or the answer is unusable.
    #[error("{server}: {reason}")]
    Unreachable {
        /// Address of the server.
        server: String,
        /// Error of the operating system, or a description of the fault.
        reason: String,
    },
    /// The server refused the request.
    #[error("{server}: {text}")]
    Refused {
        /// Address of the server.
        server: String,
        /// HTTP status of the refusal.
        status: StatusCode,
        /// Reason that the server reported.
        text: String,
        /// Complete answer from the server.
        answer: Value,
    },
    /// The server has not yet recorded the position of a feed.
    #[error("{server}: its last transaction {head} is before the position {position} of the feed")]
    Lagging {
        /// Address of the server.
        server: String,
        /// Position of the feed.
        position: Position,
        /// Last transaction that the server has recorded.
        head: Zxid,
    },
    /// The server was not queried, because the connection would not protect the credentials.
    #[error("{server}: {reason}")]
    Unprotected {
        /// Address of the server.
        server: String,
        /// Rule for the connections over which the credentials may be sent.
        reason: &'static str,
    },
}

/// Connections over which an [`AdminClient`] sends its credentials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CredentialRule {
    /// Every connection, because the user named the servers.
    #[default]
    AnyConnection,
    /// TLS with a verified host, or the loopback interface.
    TlsOrLoopback,
    /// TLS with a verified host.
    Tls,
}

impl CredentialRule {
    /// Returns the rule for addresses of other members that `server` reported. If `server` is on
    /// another machine, a loopback address in its report would lead to this machine instead of a
    /// member.
    pub async fn for_members_of(server: &str) -> Self {
        let address = server.split('/').next().unwrap_or(server);
        let is_loopback = match lookup_host(address).await {
            Ok(mut found) => found.all(|address| address.ip().to_canonical().is_loopback()),
            Err(_) => false,
        };
        if is_loopback {
            Self::TlsOrLoopback
        } else {
            Self::Tls
        }
    }

    /// Returns a reason not to send credentials to these addresses, or `None` if they may be sent.
    fn refuse(self, addresses: &[SocketAddr], connector: &Connector) -> Option<&'static str> {
        let is_loopback = || {
            addresses
                .iter()
                .all(|address| address.ip().to_canonical().is_loopback())
        };
        let reason = match self {
            Self::AnyConnection => return None,
            Self::TlsOrLoopback if is_loopback() => return None,
            Self::TlsOrLoopback => {
                "credentials are sent only on loopback, or over TLS to a verified host"
            }
            Self::Tls => "credentials are sent only over TLS to a verified host",
        };
        (!connector.verifies_hosts()).then_some(reason)
    }
}

impl AdminError {
    /// Returns whether another member may be able to answer.
    pub fn may_be_known_elsewhere(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Unprotected { .. } | Self::Lagging { .. } => true,
            // A server that does not serve clients yet, or keeps no history, reports this error
            // with status 200.
            Self::Refused { status, .. } => {
                status.is_server_error() || matches!(*status, StatusCode::GONE | StatusCode::OK)
            }
        }
    }

    /// Returns whether the server refused the request because it keeps no change history.
    pub fn is_without_history(&self) -> bool {
        match self {
            Self::Refused { answer, .. } => answer["error"].as_str().is_some_and(is_unknown),
            _ => false,
        }
    }
}

/// Returns whether the reason of a refusal shows that the server keeps no change history.
fn is_unknown(text: &str) -> bool {
    text.starts_with("Unknown command: history/")
}

/// Addresses and credentials for requests to admin servers.
#[derive(Clone, Default)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct AdminClient {
    servers: Vec<String>,
    authorization: Option<String>,
    credential_rule: CredentialRule,
    connector: Connector,
}

impl fmt::Debug for AdminClient {
    // Omits `authorization`, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminClient({:?})", self.servers)
    }
}

impl AdminClient {
    /// Creates a client for admin servers, each as `host:port`, in the order of the attempts. A
    /// path after the port is the path prefix of the commands (`admin.commandURL`), if it differs
    /// from `/commands`.
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            servers: servers.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Sets the value of the header `Authorization`: scheme and data, such as `digest
    /// user:password`.
    pub fn with_authorization<'a>(mut self, authorization: impl Into<Option<&'a str>>) -> Self {
        self.authorization = authorization.into().map(str::to_owned);
        self
    }

    /// Sets the connections over which the credentials are sent.
    pub fn with_credential_rule(mut self, credential_rule: CredentialRule) -> Self {
        self.credential_rule = credential_rule;
        self
    }

    /// Sets the connector, usually for TLS.
    pub fn with_connector(mut self, connector: Connector) -> Self {
        self.connector = connector;
        self
    }

    /// Returns a client with the same settings for another server.
    pub fn for_server(&self, server: &str) -> Self {
        Self {
            servers: vec![server.to_owned()],
            ..self.clone()
        }
    }

    /// Returns the admin servers.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// Queries the members in order, and returns the first answer.
    ///
    /// # Errors
    /// If no member answers, or a member refuses for a reason that applies to all members. Returns
    /// the error of the last member that was queried.
    pub async fn ask(
        &self,
        command: &str,
        parameters: &[(String, String)],
    ) -> Result<Value, AdminError> {
        let mut last = nobody();
        for server in &self.servers {
            let answering = self.ask_one(server, command, parameters);
            let answer = tokio::time::timeout(SILENCE_LIMIT, answering).await;
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

    /// Queries the members in order. Returns the first answer as a stream, with the member's
    /// address. `kind` is the content type that the answer must have.
    ///
    /// # Errors
    /// If no member answers, or a member refuses for a reason that applies to all members. Returns
    /// the error of the last member that was queried.
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

    /// Opens the answer from one member, like [`open`](Self::open).
    ///
    /// # Errors
    /// If the member is unreachable or refuses.
    pub async fn open_one(
        &self,
        server: &str,
        command: &str,
        parameters: &[(String, String)],
        kind: &str,
    ) -> Result<Response<Incoming>, AdminError> {
        let answering = self.get(server, command, parameters);
        let response = tokio::time::timeout(SILENCE_LIMIT, answering).await;
        let response =
            response.unwrap_or_else(|_| Err(unreachable(server, &"no answer in time")))?;
        let is_kind = response.headers().get(CONTENT_TYPE);
        let is_kind = is_kind.is_some_and(|found| found == kind);
        if response.status() != StatusCode::OK || !is_kind {
            whole(server, response).await?;
            let reason = format!("the content type of the reply is not {kind}");
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
        let (address, path) = server.split_at(server.find('/').unwrap_or(server.len()));
        let path = match path {
            "" => COMMANDS,
            path => path.trim_end_matches('/'),
        };
        let connecting = tokio::time::timeout(CONNECT_LIMIT, self.connect(server, address));
        let stream = connecting.await;
        let stream =
            stream.unwrap_or_else(|_| Err(unreachable(server, &"no connection in time")))?;
        let io = TokioIo::new(stream);
        let shaken = hyper::client::conn::http1::handshake(io).await;
        let (mut sender, connection) = shaken.map_err(|error| unreachable(server, &error))?;
        // The task ends with the connection. Any error of the connection also appears when the body
        // is read.
        tokio::spawn(connection);
        let query = encoded(parameters);
        let mut request = Request::get(format!("{path}/{command}?{query}")).header(HOST, address);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.as_bytes());
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| unreachable(server, &error))?;
        let answered = sender.send_request(request).await;
        answered.map_err(|error| {
            if error.is_parse() || error.is_incomplete_message() {
                let reason = format!("{error} (the port may not be an admin port)");
                return unreachable(server, &reason);
            }
            unreachable(server, &error)
        })
    }

    async fn connect(&self, server: &str, address: &str) -> Result<Stream, AdminError> {
        let failed = |error: std::io::Error| unreachable(server, &error);
        let addresses = lookup_host(address).await.map_err(failed)?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let refusal = self.credential_rule.refuse(&addresses, &self.connector);
        if let Some(reason) = refusal.filter(|_| self.authorization.is_some()) {
            let server = server.to_owned();
            return Err(AdminError::Unprotected { server, reason });
        }
        let stream = TcpStream::connect(addresses.as_slice()).await;
        let stream = stream.map_err(failed)?;
        let hosts = [host_of(address)];
        let established = self.connector.establish(stream, &hosts).await;
        established.map_err(failed)
    }
}

fn encoded(parameters: &[(String, String)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters).finish()
}

fn nobody() -> AdminError {
    unreachable("no server", &"the list of admin servers is empty")
}

/// Reads the JSON object of an answer. A refusal becomes an error.
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
        Some(text) if is_unknown(text) => {
            "the server's change history is off (history.enabled)".to_owned()
        }
        Some(text) => text.to_owned(),
        None => format!("the server replied with status {status}"),
    };
    Err(AdminError::Refused {
        server: server.to_owned(),
        status,
        text,
        answer,
    })
}

/// Constructs the error for a server without a usable answer.
pub fn unreachable(server: &str, reason: &dyn fmt::Display) -> AdminError {
    AdminError::Unreachable {
        server: server.to_owned(),
        reason: reason.to_string(),
    }
}
