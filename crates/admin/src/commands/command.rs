//! Definition of admin commands.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::Method;
use metrics::view::AdminView;
use proto::Id;

use crate::answer::{Answer, Listing};

/// Command of the admin server.
pub(crate) struct Command {
    /// Name of the command, which its answers repeat.
    pub(crate) name: &'static str,
    /// Alternative names.
    pub(crate) aliases: &'static [&'static str],
    /// HTTP method, GET or POST.
    pub(crate) method: Method,
    /// Whether the command is refused while the server does not serve clients.
    pub(crate) needs_server: bool,
    /// Clients that may call the command.
    pub(crate) access: Access,
    /// Whether the list of commands contains this command.
    pub(crate) is_listed: bool,
    /// Work of the command.
    pub(crate) task: Task,
}

/// Clients that may call a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// All clients, without authentication.
    Anyone,
    /// All clients, but the answer depends on their identities. An invalid header is refused.
    Caller,
    /// Callers that the client ports would accept, because the answer shows znodes. It depends on
    /// their read permissions. An invalid header is refused.
    Reader,
    /// Super users, and identities to which the ACL of `/` grants all permissions.
    Administrator,
}

/// Work of a command.
pub(crate) enum Task {
    /// Reads the state of the server, or changes a setting or counters. Runs on a worker thread.
    Look(Box<Look>),
    /// Lists resources of clients, part by part.
    List(List),
    /// Takes a snapshot. The admin server executes it.
    Snapshot,
    /// Replaces the tree. The admin server executes it.
    Restore,
    /// Sends changes when they occur. The admin server executes it.
    #[cfg(feature = "history")]
    Feed,
    /// Sends a part of the log. The admin server executes it.
    Log,
}

/// Function that reads a server's state and answers.
pub(crate) type Look = dyn Fn(&dyn AdminView, &Call) -> Answer + Send + Sync;

/// Function that starts a listing.
pub(crate) type List = fn(&dyn AdminView) -> Listing;

/// Arguments of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    /// Decoded parameters after the `?`, in the order of the request.
    pub(crate) parameters: Vec<(String, String)>,
    /// Identities of the client, for commands of [`Access::Caller`] and [`Access::Reader`]. Empty
    /// for an anonymous client.
    pub(crate) identities: Vec<Id>,
    /// Flag that is set when the client no longer waits. Long-running commands check it.
    pub(crate) is_abandoned: Arc<AtomicBool>,
}

impl Call {
    /// Parses the text after the `?`.
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self {
            parameters: pairs.into_owned().collect(),
            ..Self::default()
        }
    }

    /// Returns the first parameter with this name. Names are case-sensitive.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Command {
    /// Creates a command that reads the state of a serving server.
    pub(crate) fn look(
        name: &'static str,
        aliases: &'static [&'static str],
        look: impl Fn(&dyn AdminView, &Call) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::of(name, aliases, Task::Look(Box::new(look)))
    }

    /// Creates a command that lists resources of a serving server's clients.
    pub(super) fn list(name: &'static str, aliases: &'static [&'static str], list: List) -> Self {
        Self::of(name, aliases, Task::List(list))
    }

    pub(crate) fn of(name: &'static str, aliases: &'static [&'static str], task: Task) -> Self {
        Self {
            name,
            aliases,
            method: Method::GET,
            needs_server: true,
            access: Access::Anyone,
            is_listed: true,
            task,
        }
    }

    /// Makes the command available while the server does not serve clients.
    #[must_use]
    pub(crate) fn always(mut self) -> Self {
        self.needs_server = false;
        self
    }

    /// Returns whether the command requires an administrator, or changes a setting or counters.
    pub(crate) fn changes_something(&self) -> bool {
        self.access == Access::Administrator
            || self.name.ends_with("_reset")
            || self.name == "set_trace_mask"
    }

    /// Returns whether Apache ZooKeeper lacks the command. Existing tools do not call such
    /// commands.
    pub(crate) fn is_our_own(&self) -> bool {
        !self.is_listed || self.name.starts_with("history/")
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
