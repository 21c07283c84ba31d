//! Figures of this member over the last hour and the last day. Their memory is bounded, and they
//! are recorded whether or not a page is open.

mod durations;

use std::sync::Arc;

use hyper::StatusCode;
use metrics::view::AdminView;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use self::durations::Durations;
use crate::answer::written;
use crate::commands::{Call, Command};
use crate::limits::{
    FIGURES_DAY, FIGURES_HOUR, FIGURES_MINUTE, FIGURES_PER_MINUTE, FIGURES_STEP, SERIES,
};

/// Name of the command.
const COMMAND: &str = "figures";

/// Names of the series. The first eight series are rates per second. Durations are in ms, sizes in
/// bytes.
const NAMES: [&str; SERIES] = [
    "reads",
    "writes",
    "packets_received",
    "packets_sent",
    "commits",
    "syncs",
    "slow_syncs",
    "failed_logins",
    "read_mean",
    "read_p50",
    "read_p99",
    "write_mean",
    "write_p50",
    "write_p99",
    "sync_mean",
    "sync_p50",
    "sync_p99",
    "propagation_mean",
    "propagation_p50",
    "propagation_p99",
    "connections",
    "outstanding",
    "sessions",
    "watches",
    "znodes",
    "ephemerals",
    "data_bytes",
    "tls_handshakes",
];

/// Values of all series at one time. A missing value is NaN.
type Row = [f64; SERIES];

const MISSING: Row = [f64::NAN; SERIES];

/// Ring of the last rows, at equal intervals.
#[derive(Debug)]
struct Ring {
    rows: Vec<Row>,
    length: usize,
    /// Total number of rows so far.
    count: usize,
}

/// Figures of the last hour and of the last day.
#[derive(Debug)]
pub(super) struct Kept {
    hour: Ring,
    day: Ring,
    /// Rows of the current minute.
    minute: Vec<Row>,
    last: Option<Totals>,
}

/// Counters since the start of this server.
#[derive(Debug, Clone)]
struct Totals {
    monotonic_ms: u64,
    packets_received: u64,
    packets_sent: u64,
    commits: u64,
    slow_syncs: u64,
    failed_logins: u64,
    reads: Durations,
    writes: Durations,
    syncs: Durations,
    propagation: Durations,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            hour: Ring::new(FIGURES_HOUR),
            day: Ring::new(FIGURES_DAY),
            minute: Vec::with_capacity(FIGURES_PER_MINUTE),
            last: None,
        }
    }
}

/// Returns the command that reports the kept figures. It is not listed among Apache ZooKeeper's
/// commands.
pub(super) fn command(kept: Arc<Mutex<Kept>>) -> Command {
    let mut command = Command::look(COMMAND, &[], move |view: &dyn AdminView, call: &Call| {
        let found = kept.lock().to_json(call, view.now().wall_ms);
        written(StatusCode::OK, COMMAND, found)
    });
    command.is_listed = false;
    command.always()
}

impl Kept {
    /// Adds the figures of a server. Figures of a server that does not serve are missing.
    pub(super) fn sample(&mut self, view: &dyn AdminView) {
        let now_ms = view.now().monotonic_ms;
        let totals = view.role().served_mode().map(|_| Totals::of(view, now_ms));
        let before = self.last.take();
        if let Some(before) = &before {
            let step_ms = u64::try_from(FIGURES_STEP.as_millis()).unwrap_or(u64::MAX);
            let elapsed_ms = now_ms.saturating_sub(before.monotonic_ms);
            let missed = (elapsed_ms / step_ms).saturating_sub(1);
            for _ in 0..missed.min(FIGURES_HOUR as u64) {
                self.push(MISSING);
            }
        }
        let row = before.zip(totals.as_ref());
        self.push(row.map_or(MISSING, |(before, now)| now.row(&before, view)));
        self.last = totals;
    }

    fn push(&mut self, row: Row) {
        self.hour.push(row);
        self.minute.push(row);
        if self.minute.len() == FIGURES_PER_MINUTE {
            let row = summary(&self.minute);
            self.minute.clear();
            self.day.push(row);
        }
    }

    /// Returns the rows of the last `range` (`hour` or `day`), without the first `after` rows that
    /// were ever added. `series` contains the names of the returned series, separated by commas;
    /// the default is all.
    fn to_json(&self, call: &Call, now_ms: i64) -> Value {
        let is_day = call.parameter("range") == Some("day");
        let after = call.parameter("after").and_then(|after| after.parse().ok());
        let ring = if is_day { &self.day } else { &self.hour };
        let step = if is_day { FIGURES_MINUTE } else { FIGURES_STEP };
        let first = after.unwrap_or(0);
        let rows: Vec<&Row> = ring.after(first).collect();
        let wanted = call.parameter("series");
        let chosen = NAMES.iter().enumerate();
        let chosen = chosen.filter(|(_, name)| is_wanted(wanted, name));
        let series = chosen.map(|(at, name)| {
            let values = rows.iter().filter_map(|row| row.get(at)).copied();
            ((*name).to_owned(), values.map(rounded).collect::<Value>())
        });
        json!({
            "now": now_ms,
            "step_ms": u64::try_from(step.as_millis()).unwrap_or(u64::MAX),
            "length": ring.length,
            "count": ring.count,
            "series": series.collect::<Map<String, Value>>(),
        })
    }
}

/// Returns whether a list of names contains this name. Without a list, all names are wanted.
fn is_wanted(list: Option<&str>, name: &str) -> bool {
    list.is_none_or(|list| list.split(',').any(|wanted| wanted == name))
}

/// Returns the query for another member's figures. It contains only valid parameters of the
/// visitor.
pub(super) fn request(call: &Call) -> String {
    let is_day = call.parameter("range") == Some("day");
    let range = if is_day { "day" } else { "hour" };
    let after = call.parameter("after").and_then(|after| after.parse().ok());
    let after: usize = after.unwrap_or(0);
    let wanted = call.parameter("series");
    let series: Vec<&str> = NAMES
        .into_iter()
        .filter(|name| is_wanted(wanted, name))
        .collect();
    format!(
        "{COMMAND}?range={range}&after={after}&series={}",
        series.join(",")
    )
}

/// Returns a value with three decimals, or null if it is missing.
fn rounded(value: f64) -> Value {
    let rounded = (value * 1_000.0).round() / 1_000.0;
    serde_json::Number::from_f64(rounded).map_or(Value::Null, Value::Number)
}

/// Returns the maximum of each p99 series and the mean of every other series. Ignores missing
/// values.
fn summary(rows: &[Row]) -> Row {
    std::array::from_fn(|at| {
        let values = rows
            .iter()
            .filter_map(|row| row.get(at).copied())
            .filter(|value| !value.is_nan());
        if NAMES.get(at).is_some_and(|name| name.ends_with("_p99")) {
            return values.fold(f64::NAN, f64::max);
        }
        let (sum, count) =
            values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        sum / count
    })
}

impl Ring {
    fn new(length: usize) -> Self {
        Self {
            rows: Vec::with_capacity(length),
            length,
            count: 0,
        }
    }

    fn push(&mut self, row: Row) {
        match self.rows.get_mut(self.count % self.length) {
            Some(oldest) => *oldest = row,
            None => self.rows.push(row),
        }
        self.count += 1;
    }

    /// Returns the kept rows after the first `count` rows, oldest first, or all if `count` is too
    /// high.
    fn after(&self, count: usize) -> impl Iterator<Item = &Row> {
        let oldest = self.count - self.rows.len();
        let first = if count > self.count {
            oldest
        } else {
            count.max(oldest)
        };
        (first..self.count).filter_map(|number| self.rows.get(number % self.length))
    }
}

impl Totals {
    fn of(view: &dyn AdminView, monotonic_ms: u64) -> Self {
        let metrics = view.metrics();
        let stats = view.stats().get(monotonic_ms);
        Self {
            monotonic_ms,
            packets_received: stats.packets_received,
            packets_sent: stats.packets_sent,
            commits: metrics.commit_count.get(),
            slow_syncs: stats.slow_fsyncs,
            failed_logins: stats.auth_failed,
            reads: Durations::of(&metrics.readlatency.get()),
            writes: Durations::of(&metrics.updatelatency.get()),
            syncs: Durations::of_moments(&metrics.fsynctime.get()),
            propagation: Durations::of(&metrics.propagation_latency.get()),
        }
    }

    /// Returns the figures of the time since earlier totals.
    fn row(&self, before: &Self, view: &dyn AdminView) -> Row {
        let seconds = self.monotonic_ms.saturating_sub(before.monotonic_ms) as f64 / 1_000.0;
        // A counter can decrease, because an operator can reset it, and it restarts when the role
        // changes.
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let state = view.state();
        let reads = self.reads.since(&before.reads);
        let writes = self.writes.since(&before.writes);
        let syncs = self.syncs.since(&before.syncs);
        let propagation = self.propagation.since(&before.propagation);
        let sessions = state.global_sessions + state.local_sessions;
        [
            rate(reads.count, 0),
            rate(writes.count, 0),
            rate(self.packets_received, before.packets_received),
            rate(self.packets_sent, before.packets_sent),
            rate(self.commits, before.commits),
            rate(syncs.count, 0),
            rate(self.slow_syncs, before.slow_syncs),
            rate(self.failed_logins, before.failed_logins),
            reads.mean(),
            reads.quantile(0.5),
            reads.quantile(0.99),
            writes.mean(),
            writes.quantile(0.5),
            writes.quantile(0.99),
            syncs.mean(),
            syncs.quantile(0.5),
            syncs.quantile(0.99),
            propagation.mean(),
            propagation.quantile(0.5),
            propagation.quantile(0.99),
            state.connections as f64,
            state.outstanding_requests as f64,
            sessions as f64,
            state.watch_count as f64,
            state.znode_count as f64,
            state.ephemerals_count as f64,
            state.approximate_data_size as f64,
            state.outstanding_tls_handshakes as f64,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64) -> Row {
        [value; SERIES]
    }

    fn values(kept: &Kept, range: &str, after: usize) -> Vec<Option<f64>> {
        let query = format!("range={range}&after={after}");
        let found = kept.to_json(&Call::parse(Some(&query)), 0);
        let values = found["series"]["reads"].as_array().unwrap().iter();
        values.map(Value::as_f64).collect()
    }

    #[test]
    fn the_last_hour_and_the_last_day_are_kept() {
        let mut kept = Kept::default();
        let day = FIGURES_DAY * FIGURES_PER_MINUTE;
        for number in 0..day + 5 * FIGURES_PER_MINUTE {
            kept.push(row((number / FIGURES_PER_MINUTE) as f64));
        }
        let hour = values(&kept, "hour", 0);
        assert_eq!(
            (hour.len(), hour.last()),
            (FIGURES_HOUR, Some(&Some(1_444.0)))
        );
        let day = values(&kept, "day", 0);
        assert_eq!(
            (day.len(), day[0], day[1_439]),
            (FIGURES_DAY, Some(5.0), Some(1_444.0))
        );
        assert_eq!(values(&kept, "day", FIGURES_DAY + 3).len(), 2);
        // A server that has restarted has fewer rows than the page has received.
        assert_eq!(values(&kept, "day", 2 * FIGURES_DAY).len(), FIGURES_DAY);
        let rows = kept.hour.rows.capacity() + kept.day.rows.capacity() + kept.minute.capacity();
        assert!(rows * size_of::<Row>() <= 1 << 20, "{rows}");
    }

    #[test]
    fn only_valid_parameters_reach_another_member() {
        let request = |query: &str| request(&Call::parse(Some(query)));
        let found = request("range=day%26x=1&after=7+HTTP/1.1&series=reads,%0D%0Awrites,writes");
        assert_eq!(found, "figures?range=hour&after=0&series=reads,writes");
        let found = request("range=day&after=7&series=x");
        assert_eq!(found, "figures?range=day&after=7&series=");
        assert!(request("").ends_with("tls_handshakes"));
    }

    #[test]
    fn a_minute_is_the_mean_and_the_largest_p99() {
        let p99 = NAMES.iter().position(|name| *name == "read_p99").unwrap();
        let found = summary(&[row(1.0), row(4.0), MISSING, row(1.0)]);
        assert_eq!((found[0], found[p99]), (2.0, 4.0));
        assert!(summary(&[MISSING])[0].is_nan() && summary(&[MISSING])[p99].is_nan());
        let mut kept = Kept::default();
        kept.push(MISSING);
        assert_eq!(values(&kept, "hour", 0), [None]);
    }
}
