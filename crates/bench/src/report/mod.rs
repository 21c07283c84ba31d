//! Results as a table for human readers and as JSON for programs.

pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod table;

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::args::FsyncArgs;
use crate::machine::fsync::FsyncResult;
use crate::rounds::compare::{Ratios, Side};
use crate::rounds::process::Memory;
use crate::rounds::stats::Stats;

/// Reported percentiles.
const PERCENTILES: [(&str, f64); 4] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];
const MIB: f64 = 1024.0 * 1024.0;

/// Contents of the report about a run.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// Description of the load in words.
    pub(crate) title: String,
    /// Description of the load as JSON.
    pub(crate) load: Value,
    pub(crate) sides: &'a [Side],
    /// Kind of objects that cause the growth of the server's memory, such as `znode`, and their
    /// number.
    pub(crate) growth_by: Option<(&'static str, u64)>,
}

impl Report<'_> {
    fn ratios(&self) -> Option<Ratios> {
        match self.sides {
            [first, second] => Some(Ratios::of(first, second)),
            _ => None,
        }
    }

    /// Returns the report as text for human readers.
    pub(crate) fn text(&self) -> String {
        let mut table = Table::default();
        table.row([
            "server",
            "ops/s",
            "mean",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "cpu s/Mop",
            "rss MiB",
        ]);
        for side in self.sides {
            let stats = side.stats();
            let mut row = vec![side.name.clone(), format!("{:.0}", side.ops_per_second())];
            row.push(short(stats.mean()));
            row.extend(PERCENTILES.map(|(_, percent)| short(stats.percentile(percent))));
            row.push(short(stats.max()));
            row.push(optional(side.server_cpu_per_million(), 2));
            row.push(optional(
                side.memory().map(|memory| memory.resident as f64 / MIB),
                1,
            ));
            table.row(row);
        }
        let mut out = format!("{}\n{table}", self.title);
        if let Some(ratios) = self.ratios() {
            let optional = |name: &str, ratio: Option<f64>| {
                ratio
                    .map(|ratio| format!(", {name} {ratio:.3}x"))
                    .unwrap_or_default()
            };
            let _ = writeln!(
                out,
                "first / second: throughput {:.2}x (median of rounds {:.2}x), p50 {:.3}x, p99 {:.3}x{}{}",
                ratios.throughput,
                ratios.throughput_median,
                ratios.p50,
                ratios.p99,
                optional("cpu per op", ratios.server_cpu),
                optional("rss", ratios.memory),
            );
        }
        for side in self.sides {
            self.details(side, &mut out);
        }
        out
    }

    fn details(&self, side: &Side, out: &mut String) {
        if let [_, _, ..] = side.rounds.as_slice() {
            let rounds: Vec<String> = side
                .rounds
                .iter()
                .map(|round| format!("{:.0}", round.ops_per_second()))
                .collect();
            let _ = writeln!(out, "{}: ops/s by round: {}", side.name, rounds.join(" "));
        }
        if let Some(cpu) = side.own_cpu_per_million() {
            let _ = writeln!(out, "{}: generator {cpu:.2} cpu s/Mop", side.name);
        }
        if let Some((what, growth)) = self.growth(side) {
            let _ = writeln!(out, "{}: rss grew by {growth:.0} B per {what}", side.name);
        }
        for complaint in side.stats().complaints() {
            let _ = writeln!(out, "{}: {complaint}", side.name);
        }
    }

    fn growth(&self, side: &Side) -> Option<(&'static str, f64)> {
        let (what, count) = self.growth_by?;
        Some((what, side.growth_per(count)?))
    }

    /// Returns the report as JSON for programs. Latencies are in microseconds.
    pub(crate) fn json(&self) -> Value {
        let sides: Vec<Value> = self.sides.iter().map(|side| self.side_json(side)).collect();
        let mut report = json!({ "load": self.load, "servers": sides });
        if let (Some(ratios), Some(report)) = (self.ratios(), report.as_object_mut()) {
            let ratios = json!({
                "throughput": ratios.throughput,
                "throughput_median_of_rounds": ratios.throughput_median,
                "p50": ratios.p50,
                "throughput_interval_95": ratios.throughput_interval.map(|(low, high)| [low, high]),
                "p99": ratios.p99,
                "p99.9_median_of_rounds": ratios.p999_median,
                "cpu_per_op": ratios.server_cpu,
                "resident": ratios.memory,
            });
            report.insert("ratios".to_owned(), ratios);
        }
        report
    }

    fn side_json(&self, side: &Side) -> Value {
        let stats = side.stats();
        let rounds: Vec<Value> = side
            .rounds
            .iter()
            .map(|round| {
                json!({
                    "ops": round.stats.ops(),
                    "seconds": round.elapsed.as_secs_f64(),
                    "ops_per_second": round.ops_per_second(),
                    "latency_us": latency_json(&round.stats),
                })
            })
            .collect();
        let refused: Map<String, Value> = stats
            .refused
            .iter()
            .map(|(code, count)| (code.to_string(), json!(count)))
            .collect();
        json!({
            "server": side.name,
            "ops": stats.ops(),
            "seconds": side.elapsed().as_secs_f64(),
            "ops_per_second": side.ops_per_second(),
            "latency_us": latency_json(&stats),
            "errors": refused,
            "sessions_lost": stats.lost,
            "unanswered": stats.unanswered,
            "cpu_seconds_per_million_ops": side.server_cpu_per_million(),
            "generator_cpu_seconds_per_million_ops": side.own_cpu_per_million(),
            "memory": side.memory().map(memory_json),
            "resident_bytes_grown_each": self.growth(side).map(|(_, growth)| growth),
            "rounds": rounds,
        })
    }
}

fn memory_json(memory: Memory) -> Value {
    json!({ "resident_bytes": memory.resident, "peak_bytes": memory.peak })
}

pub(crate) fn latency_json(stats: &Stats) -> Value {
    let mut latency = Map::new();
    latency.insert("mean".to_owned(), json!(micros(stats.mean())));
    for (name, percent) in PERCENTILES {
        latency.insert(name.to_owned(), json!(micros(stats.percentile(percent))));
    }
    latency.insert("max".to_owned(), json!(micros(stats.max())));
    Value::Object(latency)
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

/// Formats a duration with three significant figures and a unit.
pub(crate) fn short(duration: Duration) -> String {
    let us = micros(duration);
    let (value, unit) = match us {
        us if us < 1e3 => (us, "us"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let decimals = match value {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{unit}")
}

fn optional(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Table whose columns are as wide as their widest cell. The first column is left-aligned.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Returns the result of `bench fsync` as text for human readers.
pub(crate) fn fsync_text(args: &FsyncArgs, result: &FsyncResult) -> String {
    let figures = FsyncFigures::new(args, result);
    let stats = &result.stats;
    format!(
        "{} records of {} B for each fdatasync, {:.1} s\n\
         {:.0} records/s, {:.0} syncs/s, {:.1} MiB/s; sync mean {} p50 {} p99 {} max {}\n",
        args.group,
        args.bytes,
        result.elapsed.as_secs_f64(),
        figures.records_per_second,
        figures.syncs_per_second,
        figures.records_per_second * f64::from(args.bytes) / MIB,
        short(stats.mean()),
        short(stats.percentile(50.0)),
        short(stats.percentile(99.0)),
        short(stats.max()),
    )
}

/// Returns the result of `bench fsync` as JSON for programs.
pub(crate) fn fsync_json(args: &FsyncArgs, result: &FsyncResult) -> Value {
    let figures = FsyncFigures::new(args, result);
    json!({
        "load": {
            "workload": "fsync",
            "bytes": args.bytes,
            "group": args.group,
            "preallocate": format!("{:?}", args.preallocate).to_lowercase(),
        },
        "seconds": result.elapsed.as_secs_f64(),
        "records_per_second": figures.records_per_second,
        "syncs_per_second": figures.syncs_per_second,
        "latency_us": latency_json(&result.stats),
    })
}

/// Figures computed from a result of `bench fsync`.
pub(crate) struct FsyncFigures {
    syncs_per_second: f64,
    pub(crate) records_per_second: f64,
}

impl FsyncFigures {
    pub(crate) fn new(args: &FsyncArgs, result: &FsyncResult) -> Self {
        let seconds = result.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let syncs_per_second = result.stats.ops() as f64 / seconds;
        Self {
            syncs_per_second,
            records_per_second: syncs_per_second * f64::from(args.group),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::round::Round;
    use crate::rounds::snapshots::SnapshotResults;

    fn side(name: &str, ops: u64, latency_us: u64) -> Side {
        let mut stats = Stats::new();
        stats.record(latency_us * 1000, ops);
        stats.refuse(-101);
        let round = Round {
            stats,
            elapsed: Duration::from_secs(1),
            server_cpu: Some(Duration::from_secs(1)),
            own_cpu: Some(Duration::from_secs(1)),
            memory_before: None,
            memory: None,
            in_snapshots: SnapshotResults::none(),
        };
        Side {
            name: name.to_owned(),
            rounds: vec![round],
        }
    }

    #[test]
    fn the_table_is_aligned_and_the_ratios_follow() {
        let sides = [
            side("127.0.0.1:2181", 200_000, 900),
            side("b:1", 50_000, 4000),
        ];
        let report = Report {
            title: "get".to_owned(),
            load: json!({}),
            sides: &sides,
            growth_by: None,
        };
        let text = report.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("server           ops/s"), "{text}");
        assert!(
            lines[2].starts_with("127.0.0.1:2181  200000   900us"),
            "{text}"
        );
        assert!(lines[3].starts_with("b:1              50000 "), "{text}");
        assert!(
            lines[4].starts_with("first / second: throughput 4.00x"),
            "{text}"
        );
        assert!(
            text.contains("b:1: failed operations: 1, error: NoNode (-101)"),
            "{text}"
        );
    }

    #[test]
    fn json_has_the_figures_of_both_sides() {
        let sides = [side("a", 200, 1000), side("b", 100, 2000)];
        let report = Report {
            title: String::new(),
            load: json!({"x": 1}),
            sides: &sides,
            growth_by: None,
        };
        let json = report.json();
        assert_eq!(json["load"]["x"], 1);
        assert_eq!(json["servers"][0]["ops"], 200);
        assert_eq!(json["servers"][1]["errors"]["-101"], 1);
        assert_eq!(json["ratios"]["throughput"], 2.0);
        assert_eq!(json["ratios"]["resident"], Value::Null);
        let p99 = json["servers"][0]["latency_us"]["p99"].as_f64().unwrap();
        assert!((p99 - 1000.0).abs() < 2.0, "{p99}");
    }

    #[test]
    fn durations_are_short() {
        let all = [999, 12_345, 1_234_567, 2_500_000_000]
            .map(Duration::from_nanos)
            .map(short);
        assert_eq!(all, ["1.00us", "12.3us", "1.23ms", "2.50s"]);
    }
}
