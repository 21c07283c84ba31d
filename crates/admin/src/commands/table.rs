//! Table of commands. Source: Commands, CommandAuthTest.

use http::Method;
use metrics::view::AdminView;

use super::command::{Access, Call, Command, Task};
use super::{clients, figures, listings, quorum, search};
use crate::answer::Answer;

/// Commands, and the prefix of their paths.
#[derive(Debug)]
pub(crate) struct Commands {
    url: String,
    commands: Vec<Command>,
}

impl Commands {
    /// Creates the table of ZooKeeper's commands and Zoarium's own commands, with the prefix `url`
    /// (`admin.commandURL`).
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
            commands: zookeepers().into_iter().chain(our_own()).collect(),
        }
    }

    /// Adds a command. It takes precedence over an existing command with the same name. Its name
    /// may contain slashes.
    pub(crate) fn add(&mut self, command: Command) {
        self.commands.insert(0, command);
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the command with this name or alias.
    pub(crate) fn find(&self, name: &str) -> Option<&Command> {
        self.commands.iter().find(|command| command.is_called(name))
    }

    /// Returns every command.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter()
    }

    /// Returns the sorted names of the listed commands: ZooKeeper's commands, and commands of
    /// enabled features.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let listed = self.commands.iter().filter(|command| command.is_listed);
        let mut names: Vec<&'static str> = listed.map(|command| command.name).collect();
        names.sort_unstable();
        names.into_iter()
    }
}

fn zookeepers() -> Vec<Command> {
    vec![
        look("configuration", &["conf", "config"], |view, _| {
            figures::configuration(view)
        }),
        look("connection_stat_reset", &["crst"], |view, _| {
            view.reset_connections();
            Answer::done()
        }),
        Command::list("connections", &["cons"], |_| figures::connections()),
        look("dirs", &[], |view, _| listings::dirs(view)),
        Command::list("dump", &[], listings::dump),
        look("environment", &["env", "envi"], |view, _| {
            listings::environment(view)
        })
        .always(),
        look("get_trace_mask", &["gtmk"], |view, _| {
            listings::trace_mask(view)
        })
        .always(),
        look("hash", &[], |view, _| listings::hash(view)),
        look("initial_configuration", &["icfg"], |view, _| {
            listings::initial_configuration(view)
        }),
        look("is_read_only", &["isro"], |view, _| {
            listings::is_read_only(view)
        }),
        look("last_snapshot", &["lsnp"], |view, _| {
            listings::last_snapshot(view)
        }),
        look("leader", &["lead"], |view, _| quorum::leader(view)),
        look("monitor", &["mntr"], |view, _| figures::monitor(view)).always(),
        look("observer_connection_stat_reset", &["orst"], |view, _| {
            view.reset_observers();
            Answer::done()
        }),
        look("observers", &["obsr"], |view, _| quorum::observers(view)),
        look("ruok", &[], |_, _| Answer::done()),
        look("server_stats", &["srvr"], |view, _| {
            figures::server_stats(view)
        }),
        look("set_trace_mask", &["stmk"], listings::set_trace_mask).always(),
        look("stat_reset", &["srst"], |view, _| {
            view.stats().reset();
            view.reset_proposal_sizes();
            Answer::done()
        }),
        Command::list("stats", &["stat"], figures::stats),
        look("system_properties", &["sysp"], |view, _| {
            listings::system_properties(view)
        })
        .always(),
        look("voting_view", &[], |view, _| quorum::voting_view(view)),
        look("watch_summary", &["wchs"], |view, _| {
            listings::watch_summary(view)
        }),
        Command::list("watches", &["wchc"], |_| listings::watches()),
        Command::list("watches_by_path", &["wchp"], |_| {
            listings::watches_by_path()
        }),
        look("zabstate", &[], |view, _| quorum::zabstate(view)).always(),
        for_the_host("snapshot", &["snap"], Method::GET, Task::Snapshot),
        for_the_host("restore", &["rest"], Method::POST, Task::Restore),
    ]
}

/// Returns the commands that ZooKeeper lacks. They are not listed, because tools compare the list
/// with ZooKeeper's list.
fn our_own() -> Vec<Command> {
    let unlisted = |name, access, task: Look| Command {
        access,
        is_listed: false,
        ..look(name, &[], task)
    };
    vec![
        Command {
            is_listed: false,
            ..for_the_host("backup/log", &[], Method::GET, Task::Log)
        },
        Command {
            method: Method::POST,
            ..unlisted("log_levels", Access::Administrator, |_, call| {
                listings::log_levels(call)
            })
        },
        unlisted("search", Access::Reader, search::search),
        unlisted("clients", Access::Caller, clients::clients),
        unlisted("slow_requests", Access::Caller, clients::slow_requests),
    ]
}

/// Creates a command for administrators that the admin server executes itself.
fn for_the_host(
    name: &'static str,
    aliases: &'static [&'static str],
    method: Method,
    task: Task,
) -> Command {
    Command {
        method,
        access: Access::Administrator,
        ..Command::of(name, aliases, task)
    }
}

type Look = fn(&dyn AdminView, &Call) -> Answer;

fn look(name: &'static str, aliases: &'static [&'static str], look: Look) -> Command {
    Command::look(name, aliases, look)
}
