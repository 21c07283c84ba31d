//! What a command is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::Method;
use proto::Id;

use super::answer::Answer;
use super::listing::Listing;
use super::view::AdminView;

/// A command of the admin server.
pub struct Command {
    /// Its name, and that in its answers.
    pub name: &'static str,
    /// Other names it can be called by.
    pub aliases: &'static [&'static str],
    /// GET or POST.
    pub method: Method,
    /// Whether it is refused while clients are not served.
    pub needs_server: bool,
    /// Who may call it.
    pub access: Access,
    /// Whether the list of commands names it.
    pub is_listed: bool,
    /// What it does.
    pub task: Task,
}

/// Who may call a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody; who it is does not matter.
    Anyone,
    /// Anybody; what is answered depends on what they may read. A header that proves nothing is
    /// refused.
    Caller,
    /// Somebody who may do anything with `/`.
    Administrator,
}

/// What a command does.
pub enum Task {
    /// Looks at the server or changes a figure of it; takes no longer than that.
    Look(Box<Look>),
    /// Lists what clients hold, part by part.
    List(List),
    /// Takes a snapshot. The host does it.
    Snapshot,
    /// Replaces the tree. The host does it.
    Restore,
    /// Sends changes as they come. The host does it.
    Feed,
    /// Sends a part of the log. The host does it.
    Log,
}

/// Looks at a server and answers.
pub type Look = dyn Fn(&dyn AdminView, &Call) -> Answer + Send + Sync;

/// Begins a listing.
pub type List = fn(&dyn AdminView) -> Listing;

/// What a command is called with.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The parameters behind the `?`, decoded, in their order.
    pub parameters: Vec<(String, String)>,
    /// Who asks, for commands of [`Access::Caller`]; nobody in particular if it is empty.
    pub identities: Vec<Id>,
    /// Set when nobody waits for the answer any more: what takes long looks at it.
    pub is_abandoned: Arc<AtomicBool>,
}

impl Call {
    /// By the text behind the `?`.
    pub fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self {
            parameters: pairs.into_owned().collect(),
            ..Self::default()
        }
    }

    /// The first parameter of this name; names are case-sensitive.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Command {
    /// One that looks at a server that serves.
    pub fn look(
        name: &'static str,
        aliases: &'static [&'static str],
        look: impl Fn(&dyn AdminView, &Call) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::of(name, aliases, Task::Look(Box::new(look)))
    }

    /// One that lists what clients of a server hold that serves.
    pub(super) fn list(name: &'static str, aliases: &'static [&'static str], list: List) -> Self {
        Self::of(name, aliases, Task::List(list))
    }

    fn of(name: &'static str, aliases: &'static [&'static str], task: Task) -> Self {
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

    /// The same while nobody is served.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.needs_server = false;
        self
    }

    /// The same for whoever asks, as far as they may read.
    #[must_use]
    pub fn for_the_caller(mut self) -> Self {
        self.access = Access::Caller;
        self
    }

    /// Whether it changes something at the server, if only a figure.
    pub fn changes_something(&self) -> bool {
        self.access == Access::Administrator
            || self.name.ends_with("_reset")
            || self.name == "set_trace_mask"
    }

    /// Whether Apache ZooKeeper has no such command: nothing that is made for its port calls it.
    pub fn is_our_own(&self) -> bool {
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
