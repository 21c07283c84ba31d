//! Configuration of a simulated server, drawn from the seed.

use std::sync::Arc;
use std::time::Duration;

use config::{Config, NoSurroundings, RawConfig, SystemProperties};
use host::ScheduleSettings;
use testkit::Random;

/// Longest session timeout, ms. It is longer than any wait that a check permits.
pub(crate) const PATIENT_MS: i32 = 9_000_000;

/// Drawn settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Lines of the configuration file.
    lines: String,
    /// Maximum size of a request, in bytes.
    pub(crate) frame_bytes_max: usize,
    pub(crate) core: CoreSettings,
    pub(crate) schedule: ScheduleSettings,
    /// Whether the host needs the origins of requests, as for a change history.
    pub(crate) keeps_origins: bool,
    pub(crate) is_audited: bool,
    /// Whether the server closes connections because of `largeRequestMaxBytes`.
    pub(crate) closes_large: bool,
    /// Whether the server closes connections whose setWatches exceed a budget.
    pub(crate) bounds_watches: bool,
    /// Number of clients.
    pub(crate) clients: usize,
    /// Share of long requests and long replies, in percent.
    pub(crate) long_percent: usize,
    /// Share of clients that stop on their last connection, in percent.
    pub(crate) stops_percent: usize,
    /// Share of clients that request long replies and do not read them, in percent.
    pub(crate) hoards_percent: usize,
    /// Length of the data of the long znodes, in bytes.
    pub(crate) long_bytes: usize,
}

/// Delays of the core and of the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoreSettings {
    /// Share of messages after which the sending task runs the core, in percent.
    pub(crate) inline_percent: usize,
    /// Share of turns that begin without a delay, in percent.
    prompt_percent: usize,
    turn_ms_max: i64,
    sync_ms_max: i64,
    /// Share of syncs that take a second or longer, in percent.
    stall_percent: usize,
}

impl CoreSettings {
    /// Returns the delay before a turn of the core's task. `None` means that other tasks run first,
    /// and that no time passes.
    pub(crate) fn turn_delay(self, random: &mut Random) -> Option<Duration> {
        if random.percent(self.prompt_percent) {
            return random.percent(50).then_some(Duration::ZERO);
        }
        Some(millis(random.range(0, self.turn_ms_max)))
    }

    pub(crate) fn sync_delay(self, random: &mut Random) -> Duration {
        if random.percent(self.stall_percent) {
            return millis(random.range(1000, 20_000));
        }
        millis(random.range(0, self.sync_ms_max))
    }
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}

/// Adds a budget for each address. Returns whether the budget limits watches.
fn draw_budget(lines: &mut String, random: &mut Random) -> bool {
    lines.push_str("budget.all.who=ip:*\n");
    let mut add = |key: &str, value: i64| lines.push_str(&format!("budget.all.{key}={value}\n"));
    add("requestsPerSecond", random.range(1, 50));
    if random.percent(50) {
        add("bytesPerSecond", random.range(200_000, 2_000_000));
    }
    let bounds_watches = random.percent(30);
    if bounds_watches {
        add("watches", random.range(1, 10));
        add("ephemerals", random.range(1, 5));
    }
    bounds_watches
}

impl Settings {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut lines = String::new();
        let mut add = |key: &str, value: i64| lines.push_str(&format!("{key}={value}\n"));
        add("tickTime", random.range(100, 3000));
        add("minSessionTimeout", 200);
        add("maxSessionTimeout", PATIENT_MS.into());
        add("zoarium.slowRequestThresholdMs", random.range(0, 3) * 100);
        if random.percent(40) {
            add("request_throttle_max_requests", random.range(1, 12));
            add("request_throttle_stall_time", random.range(10, 2000));
            let drops = random.percent(50);
            lines.push_str(&format!("request_throttle_drop_stale={drops}\n"));
        }
        let mut add = |key: &str, value: i64| lines.push_str(&format!("{key}={value}\n"));
        if random.percent(30) {
            add("globalOutstandingLimit", random.range(1, 200));
        }
        if random.percent(20) {
            add("throttled_op_wait_time", random.range(1, 3000));
        }
        let bounds_watches = random.percent(30) && draw_budget(&mut lines, random);
        let closes_large = random.percent(15);
        if closes_large {
            lines.push_str("largeRequestThreshold=10000\nlargeRequestMaxBytes=1500000\n");
        }
        let is_audited = random.percent(30);
        lines.push_str(&format!("audit.enable={is_audited}\n"));
        lines.push_str("4lw.commands.whitelist=*\n");
        let sizes = [20_000, 200_000, 1_048_575, 1_048_575, 4 << 20, 6 << 20];
        let clients_max = random.pick(&[4, 8, 12]).unwrap_or(4);
        let frame_bytes_max = random.pick(&sizes).unwrap_or(1 << 20);
        Self {
            frame_bytes_max,
            core: CoreSettings {
                inline_percent: random.pick(&[0, 30, 100]).unwrap_or(0),
                prompt_percent: random.pick(&[0, 50, 100]).unwrap_or(50),
                turn_ms_max: random.pick(&[2, 30, 500]).unwrap_or(2),
                sync_ms_max: random.pick(&[2, 30, 500]).unwrap_or(2),
                stall_percent: random.pick(&[0, 0, 5]).unwrap_or(0),
            },
            schedule: ScheduleSettings {
                processors: random.below(4) + 1,
                visitors: random.below(4) + 1,
                has_members: false,
                syncs_at_once: random.percent(50),
            },
            keeps_origins: random.percent(50),
            is_audited,
            closes_large,
            bounds_watches,
            clients: 2 + random.below(clients_max),
            long_percent: random.pick(&[0, 10, 40, 70]).unwrap_or(0),
            hoards_percent: random.pick(&[0, 20, 50]).unwrap_or(0),
            stops_percent: random.pick(&[20, 60, 90]).unwrap_or(60),
            long_bytes: random
                .pick(&[100_000, 400_000, 900_000, 2_000_000])
                .unwrap_or(0),
            lines,
        }
    }

    /// Parses the lines as a server does.
    pub(crate) fn config(&self) -> Arc<Config> {
        let file = format!("dataDir=data\n{}", self.lines);
        let raw = RawConfig::parse("zoo.cfg".as_ref(), file.as_bytes()).expect("valid lines");
        let mut properties = SystemProperties::new();
        let buffer = format!("jute.maxbuffer={}", self.frame_bytes_max);
        properties.define("the seed", &buffer);
        let config = Config::parse(raw, properties, &mut NoSurroundings);
        Arc::new(config.expect("a valid configuration"))
    }
}
