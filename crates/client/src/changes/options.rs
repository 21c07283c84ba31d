//! Options of a feed: filters, start and credentials.

use std::fmt;
use std::time::Duration;

use proto::position::Position;
use proto::{SessionId, Zxid};
use transport::Connector;

use crate::admin::AdminClient;

/// Start of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Start with the changes that are committed from now on.
    Now,
    /// Start with the first change of this transaction or, if the transaction does not contain one,
    /// of the next transaction that does.
    From(Zxid),
    /// Start with the change that follows this position.
    After(Position),
}

/// Options of a feed.
#[derive(Clone)]
#[must_use = "it only contains settings, and `Changes::new` uses them"]
pub struct ChangeOptions {
    /// `host:port` of the admin servers, in the order in which they are tried.
    pub(super) servers: Vec<String>,
    /// Path at the top of the subtree.
    pub(super) path: String,
    /// Whether the feed includes changes of all descendants.
    pub(super) recursive: bool,
    /// Start of the feed.
    pub(super) start: Start,
    /// Filter: only changes by this identity (`scheme:id`) or from this host. Changes whose origin
    /// the member does not know are omitted.
    pub(super) by: Option<String>,
    /// Filter: only changes by this session.
    pub(super) session: Option<SessionId>,
    /// Filter: only these operations (`create`, `set`, `setAcl`, `delete`, `deleteByServer`,
    /// `closeSession`, `reconfig`). An empty list means all operations.
    pub(super) operations: Vec<String>,
    /// Whether each change includes the states of the znode before and after it.
    pub(super) with_states: bool,
    /// Credentials of the reader: scheme and data, such as `digest user:password`. Without them,
    /// the reader is `world:anyone`.
    pub(super) authorization: Option<String>,
    /// TLS settings, if the servers require TLS.
    pub(super) connector: Connector,
    /// Time without a usable member after which [`Changes::next`](super::Changes::next) returns
    /// [`ChangesError::Unreachable`](super::ChangesError::Unreachable), once each member has been
    /// tried. The default is one minute, and `None` means no limit.
    pub(super) failure_limit: Option<Duration>,
}

const FAILURE_LIMIT: Duration = Duration::from_secs(60);

impl ChangeOptions {
    /// Returns options for all changes of a path and its descendants from now on. `servers` lists
    /// admin servers, such as `10.0.0.1:8080,10.0.0.2:8080`.
    pub fn new(servers: &str, path: &str) -> Self {
        let named = servers.split(',').map(str::trim);
        Self {
            servers: named
                .filter(|server| !server.is_empty())
                .map(str::to_owned)
                .collect(),
            path: path.to_owned(),
            recursive: true,
            start: Start::Now,
            by: None,
            session: None,
            operations: Vec::new(),
            with_states: false,
            authorization: None,
            connector: Connector::plain(),
            failure_limit: Some(FAILURE_LIMIT),
        }
    }

    /// Sets the start of the feed.
    pub fn with_start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Sets the time without a usable member after which the feed fails. `None` means no limit.
    pub fn with_failure_limit(mut self, failure_limit: Option<Duration>) -> Self {
        self.failure_limit = failure_limit;
        self
    }

    /// Omits the changes of descendants.
    pub fn without_descendants(mut self) -> Self {
        self.recursive = false;
        self
    }

    /// Sets the filter by identity (`scheme:id`) or host.
    pub fn with_author(mut self, by: &str) -> Self {
        self.by = Some(by.to_owned());
        self
    }

    /// Sets the filter by session.
    pub fn with_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Adds an operation to the filter by operations.
    pub fn with_operation(mut self, operation: &str) -> Self {
        self.operations.push(operation.to_owned());
        self
    }

    /// Includes the states of the znode before and after each change.
    pub fn with_states(mut self) -> Self {
        self.with_states = true;
        self
    }

    /// Sets the connector, usually for TLS.
    pub fn with_connector(mut self, connector: Connector) -> Self {
        self.connector = connector;
        self
    }

    /// Sets the credentials of the reader: scheme and data. `None` means `world:anyone`.
    pub fn with_authorization<'a>(mut self, authorization: impl Into<Option<&'a str>>) -> Self {
        self.authorization = authorization.into().map(str::to_owned);
        self
    }

    /// Returns a client for the admin servers, with the same credentials.
    pub fn admin_client(&self) -> AdminClient {
        AdminClient::new(self.servers.clone())
            .with_authorization(self.authorization.as_deref())
            .with_connector(self.connector.clone())
    }

    /// Returns the parameters of the request for a feed that has reached `position`, or that has
    /// not received a position yet.
    pub(super) fn parameters(&self, position: Option<Position>) -> Vec<(String, String)> {
        let mut parameters = vec![("path".to_owned(), self.path.clone())];
        let mut put = |name: &str, value: String| parameters.push((name.to_owned(), value));
        if !self.recursive {
            put("recursive", false.to_string());
        }
        if let Some(who) = &self.by {
            put("by", who.clone());
        }
        if let Some(session) = self.session {
            put("session", format!("{:#x}", session.0));
        }
        for operation in &self.operations {
            put("op", operation.clone());
        }
        if self.with_states {
            put("diff", true.to_string());
        }
        match (position, self.start) {
            (Some(position), _) => put("after", position.to_string()),
            (None, Start::From(zxid)) => put("from", format!("{:#x}", zxid.0)),
            (None, Start::After(position)) => put("after", position.to_string()),
            (None, Start::Now) => {}
        }
        parameters
    }
}

impl fmt::Debug for ChangeOptions {
    // Omits `authorization`, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeOptions")
            .field("servers", &self.servers)
            .field("path", &self.path)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
