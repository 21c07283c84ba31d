//! Commands of the admin server, and the callers that may run them.

use testkit::Random;

use crate::operators::settings::Caller;

/// Callers that may run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Anyone,
    Administrator,
    /// The command always runs. Its answer contains results only for administrators.
    ResultsForAdministrators(&'static str),
}

/// Command, with its parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) method: &'static str,
    pub(super) access: Access,
    /// Queries to draw from. Those after the first may be invalid.
    queries: &'static [&'static str],
}

/// Commands without other parameters, which everybody may run.
const PLAIN: &[&str] = &[
    "configuration",
    "conf",
    "config",
    "connection_stat_reset",
    "crst",
    "connections",
    "cons",
    "dirs",
    "dump",
    "environment",
    "env",
    "envi",
    "get_trace_mask",
    "gtmk",
    "hash",
    "initial_configuration",
    "icfg",
    "is_read_only",
    "isro",
    "last_snapshot",
    "lsnp",
    "leader",
    "lead",
    "monitor",
    "mntr",
    "observer_connection_stat_reset",
    "orst",
    "observers",
    "obsr",
    "ruok",
    "server_stats",
    "srvr",
    "stat_reset",
    "srst",
    "stats",
    "stat",
    "system_properties",
    "sysp",
    "voting_view",
    "watch_summary",
    "wchs",
    "watches",
    "wchc",
    "watches_by_path",
    "wchp",
    "zabstate",
    "member",
    "members",
];

/// Other commands.
const OTHERS: &[Command] = &[
    Command::new(
        "set_trace_mask",
        &[
            "traceMask=306",
            "",
            "traceMask=x",
            "traceMask=-9223372036854775808",
        ],
    ),
    Command::new(
        "figures",
        &[
            "range=hour",
            "range=day",
            "",
            "range=hour&after=10",
            "range=x",
            "series=p99",
        ],
    ),
    Command::new(
        "search",
        &[
            "text=z",
            "text=z1&in=names",
            "text=1&path=/z0",
            "",
            "text=z&from=x",
            "text=z&from=99999999",
        ],
    ),
    Command::new(
        "clients",
        &["", "sort=writes&limit=2", "sort=x", "limit=x", "limit=0"],
    ),
    Command {
        access: Access::ResultsForAdministrators("clients"),
        ..Command::new(
            "clients",
            &[
                "by=identity",
                "by=connection&sort=max_latency",
                "by=connection&limit=10000",
            ],
        )
    },
    Command {
        access: Access::ResultsForAdministrators("requests"),
        ..Command::new("slow_requests", &["", "limit=3", "limit=x"])
    },
    Command {
        access: Access::Administrator,
        ..Command::new(
            "snapshot",
            &["", "streaming=true", "streaming=false", "streaming=x"],
        )
    },
    Command {
        access: Access::Administrator,
        ..Command::new(
            "backup/log",
            &[
                "after=0x0",
                "after=0x1",
                "after=0x100000001",
                "",
                "after=x",
                "after=0x7fffffffffffffff",
            ],
        )
    },
    Command {
        method: "POST",
        access: Access::Administrator,
        ..Command::new("log_levels", &["", "levels=%3D%3D%3D"])
    },
];

impl Command {
    const fn new(name: &'static str, queries: &'static [&'static str]) -> Self {
        Self {
            name,
            method: "GET",
            access: Access::Anyone,
            queries,
        }
    }

    pub(super) fn draw(random: &mut Random) -> Self {
        if random.percent(50) {
            Self::new(random.pick(PLAIN).unwrap_or("ruok"), &[""])
        } else {
            random.pick(OTHERS).unwrap_or(Self::new("ruok", &[""]))
        }
    }

    /// Returns the target of a request for the command.
    pub(super) fn target(&self, random: &mut Random) -> String {
        let query = random.pick(self.queries).unwrap_or_default();
        if query.is_empty() {
            return format!("/commands/{}", self.name);
        }
        format!("/commands/{}?{query}", self.name)
    }

    /// Returns whether the command resets counters.
    pub(super) fn is_reset(&self) -> bool {
        matches!(self.name, "stat_reset" | "srst")
    }

    /// Returns whether the caller may see the results.
    pub(super) fn permits(&self, caller: Caller) -> bool {
        self.access == Access::Anyone || caller.is_administrator()
    }
}
