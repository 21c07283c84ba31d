//! Which changes are followed, from where on, and by whom.

use std::fmt;

use proto::position::Position;
use proto::{SessionId, Zxid};
use transport::tls::Connector;

/// Where a feed begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With what is committed from now on.
    Now,
    /// With the first change of this transaction, or the next one behind it.
    From(Zxid),
    /// With the change that follows this place.
    After(Position),
}

/// What is followed, and where.
#[derive(Clone)]
pub struct ChangeOptions {
    /// `host:port` of the admin servers, in the order in which they are tried.
    pub servers: Vec<String>,
    /// The top of the subtree.
    pub path: String,
    /// Whether changes below it count, too.
    pub recursive: bool,
    /// Where to begin.
    pub start: Start,
    /// Only by this identity (`scheme:id`) or from this host, where the member knows them.
    pub by: Option<String>,
    /// Only in this session.
    pub session: Option<SessionId>,
    /// Only these operations (`create`, `set`, `setAcl`, `delete`, `deleteByServer`, `closeSession`,
    /// `reconfig`); all if empty.
    pub operations: Vec<String>,
    /// Whether the znode before and after each change is wanted, too.
    pub with_states: bool,
    /// Who asks: scheme and data, such as `digest user:password`. Without, `world:anyone`.
    pub authorization: Option<String>,
    /// TLS, if the servers are to be reached by it.
    pub connector: Connector,
}

impl ChangeOptions {
    /// All changes of a path and below it from now on, told by the admin servers of a list like
    /// `10.0.0.1:8080,10.0.0.2:8080`.
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
        }
    }

    /// The same from another place on.
    #[must_use]
    pub fn with_start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// The same, asked by somebody: scheme and data.
    #[must_use]
    pub fn with_authorization(mut self, authorization: &str) -> Self {
        self.authorization = Some(authorization.to_owned());
        self
    }

    /// What a member is asked with by a feed that has come so far.
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
    // Not as whom: passwords are part of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeOptions")
            .field("servers", &self.servers)
            .field("path", &self.path)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
