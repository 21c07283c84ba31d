//! Report of a suite, in Markdown for human readers and in JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Suite;
use super::digests;
use super::events::Event;
use super::rows::{Row, SET};
use crate::report::table::{head, interval, line, number, percentile, seconds, worst};
use crate::report::{FsyncFigures, Report, fsync_json};
use crate::rounds::compare::{Ratios, Side};
use crate::session::workload::Mix;

impl Row {
    fn side(&self, index: usize) -> Option<&Side> {
        self.sides.as_ref().ok()?.get(index)
    }

    fn ratios(&self) -> Option<Ratios> {
        Some(Ratios::of(self.side(0)?, self.side(1)?))
    }

    /// Returns the failures, one per line.
    fn complaints(&self) -> Vec<String> {
        let name = self.load.name;
        let sides = match &self.sides {
            Ok(sides) => sides,
            Err(error) => return vec![format!("{name}: not measured: {error}")],
        };
        let of = |side: &Side| {
            let complaints = side.stats().complaints().into_iter();
            let named = complaints.map(|complaint| format!("{name}: {}: {complaint}", side.name));
            named.collect::<Vec<_>>()
        };
        sides.iter().flat_map(of).collect()
    }

    fn json(&self) -> Value {
        let load = json!({
            "name": self.load.name,
            "sessions": self.load.sessions,
            "pipeline": self.load.pipeline,
            "payload_bytes": self.load.payload,
        });
        match &self.sides {
            Err(error) => json!({ "load": load, "error": error.to_string() }),
            Ok(sides) => Report {
                title: String::new(),
                load,
                sides,
                growth_by: self.filled_with().map(|znodes| ("znode", znodes)),
            }
            .json(),
        }
    }

    fn filled_with(&self) -> Option<u64> {
        match self.load.mix {
            Mix::Fill { znodes, .. } => Some(znodes.into()),
            _ => None,
        }
    }
}

impl Suite<'_> {
    pub(super) fn is_clean(&self) -> bool {
        self.complaints().is_empty()
    }

    /// Returns the failures, one per line.
    fn complaints(&self) -> Vec<String> {
        let rows = self.rows.iter().chain(&self.events.filled);
        let mut complaints: Vec<String> = rows.flat_map(Row::complaints).collect();
        complaints.extend(self.events.happened.iter().flat_map(Event::complaints));
        complaints.extend(self.events.complaints.iter().cloned());
        for row in &self.limits.servers {
            let of_limit = |complaint| format!("limit: {complaint}");
            complaints.extend(row.complaints().into_iter().map(of_limit));
        }
        for (_, args, result) in &self.limits.syncs {
            if let Err(error) = result {
                let what = format!("{} records per sync", args.group);
                complaints.push(format!("{what}: not measured: {error}"));
            }
        }
        complaints
    }

    fn is_comparison(&self) -> bool {
        !self.args.servers.versus.is_empty()
    }

    pub(super) fn json(&self) -> Value {
        let syncs = self.limits.syncs.iter().map(|(load, args, result)| {
            let mut figures = match result {
                Ok(result) => fsync_json(args, result),
                Err(error) => json!({ "error": error.to_string() }),
            };
            if let Some(figures) = figures.as_object_mut() {
                figures.insert("of".to_owned(), json!(load));
            }
            figures
        });
        let left_out = self.events.left_out.iter();
        let left_out = left_out.map(|kind| json!({ "event": kind.name(), "needs": kind.needs() }));
        json!({
            "generator_profile": self.profile,
            "server": self.args.servers.server,
            "versus": self.args.servers.versus,
            "connections": self.args.servers.access.description(),
            "rounds": self.args.turns.rounds,
            "seconds": self.args.turns.duration.as_secs_f64(),
            "warmup_seconds": self.args.turns.warmup.as_secs_f64(),
            "loads": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "fill": self.events.filled.as_ref().map(Row::json),
            "events": self.events.happened.iter().map(Event::json).collect::<Vec<_>>(),
            "digest_comparison_ns": self.digest_ns,
            "left_out": left_out.collect::<Vec<_>>(),
            "limits": {
                "members": self.limits.members,
                "servers": self.limits.servers.iter().map(Row::json).collect::<Vec<_>>(),
                "fsync": syncs.collect::<Vec<_>>(),
            },
        })
    }

    pub(super) fn markdown(&self) -> String {
        let args = self.args;
        let mut out = format!("server: {}\n", args.servers.server.join(","));
        if self.is_comparison() {
            let _ = writeln!(out, "versus: {}", args.servers.versus.join(","));
        }
        let _ = writeln!(
            out,
            "\nGenerator: built with the profile {}. Turns: {}, each of {} s after {} s of warmup; connections: {}.\n",
            self.profile,
            args.turns.rounds,
            args.turns.duration.as_secs_f64(),
            args.turns.warmup.as_secs_f64(),
            args.servers.access.description(),
        );
        self.loads(&mut out);
        self.memory(&mut out);
        self.events(&mut out);
        self.ceilings(&mut out);
        self.digest_comparison(&mut out);
        let complaints = self.complaints();
        if !complaints.is_empty() {
            let _ = writeln!(out, "\nProblems:\n");
        }
        for complaint in complaints {
            let _ = writeln!(out, "- {complaint}");
        }
        out
    }

    fn loads(&self, out: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let of_a_side = ["ops/s", "p50", "p99", "p99.9", "worst", "CPU s/Mop"];
        let mut columns = vec!["load"];
        columns.extend(of_a_side);
        if self.is_comparison() {
            columns.push("versus ops/s");
            columns.extend(&of_a_side[1..]);
            columns.extend([
                "ratio",
                "95 % interval",
                "p99 ratio",
                "p99.9 ratio",
                "CPU ratio",
            ]);
        }
        head(out, &columns);
        for row in &self.rows {
            let mut cells = vec![row.load.name.to_owned()];
            cells.extend(side_cells(row.side(0)));
            if self.is_comparison() {
                cells.extend(side_cells(row.side(1)));
                let ratios = row.ratios();
                cells.push(number(ratios.map(|ratios| ratios.throughput_median), 2));
                cells.push(interval(
                    ratios.and_then(|ratios| ratios.throughput_interval),
                ));
                cells.push(number(ratios.map(|ratios| ratios.p99), 2));
                cells.push(number(ratios.map(|ratios| ratios.p999_median), 2));
                cells.push(number(ratios.and_then(|ratios| ratios.server_cpu), 2));
            }
            line(out, &cells);
        }
    }

    fn memory(&self, out: &mut String) {
        let Some(filled) = &self.events.filled else {
            return;
        };
        let Some(znodes) = filled.filled_with() else {
            return;
        };
        let _ = writeln!(
            out,
            "\nFilled with {znodes} znodes of {} bytes:\n",
            filled.load.payload
        );
        head(
            out,
            &["server", "creates/s", "resident MiB", "bytes per znode"],
        );
        for side in filled.sides.iter().flatten() {
            let resident = side.memory().map(|memory| memory.resident as f64 / MIB);
            line(
                out,
                &[
                    side.name.clone(),
                    number(Some(side.ops_per_second()), 0),
                    number(resident, 1),
                    number(side.growth_per(znodes), 0),
                ],
            );
        }
    }

    fn events(&self, out: &mut String) {
        let found = self
            .events
            .happened
            .iter()
            .filter_map(|event| event.found.as_ref().ok());
        let mut lines = found.flat_map(|found| &found.lines).peekable();
        if lines.peek().is_some() {
            let _ = writeln!(out, "\nEvents:\n");
            let mut columns = vec!["event", "server"];
            if self.is_comparison() {
                columns.extend(["versus", "ratio"]);
            }
            head(out, &columns);
        }
        for event in lines {
            let mut cells = vec![event.what.clone()];
            cells.extend(event.seconds.iter().map(|time| seconds(*time)));
            if self.is_comparison() {
                cells.push(number(event.ratio(), 2));
            }
            line(out, &cells);
        }
        if !self.events.left_out.is_empty() {
            let _ = writeln!(out, "\nNot measured, with the required options:\n");
        }
        for kind in &self.events.left_out {
            let _ = writeln!(out, "- {}: {}", kind.name(), kind.needs());
        }
    }

    fn digest_comparison(&self, out: &mut String) {
        let Some(ns) = self.digest_ns else {
            return;
        };
        let set = self.rows.iter().find(|row| row.load.name == SET);
        let cpu_s = set.and_then(|row| row.side(0)?.server_cpu_per_million());
        // Seconds per million requests are microseconds per request.
        let percent = cpu_s.map(|us| ns / 10.0 / us);
        let _ = writeln!(
            out,
            "\nCost of a digest comparison per committed transaction:\n"
        );
        head(
            out,
            &["work", "ns", "percent of the servers' CPU time of a set"],
        );
        let cells = [
            digests::NAME.to_owned(),
            number(Some(ns), 1),
            number(percent, 3),
        ];
        line(out, &cells);
    }

    fn ceilings(&self, out: &mut String) {
        let row = |name: &str| self.rows.iter().find(|row| row.load.name == name);
        let reached = |name: &str, index: usize| Some(row(name)?.side(index)?.ops_per_second());
        let mut rows = Vec::new();
        for limit in &self.limits.servers {
            let name = limit.load.name;
            if let Some(side) = limit.side(0) {
                let p99 = percentile(Some(side), 99.0);
                let what = self.limits.server_text(&limit.load);
                rows.push((what, "ops/s", name, side.ops_per_second(), p99));
            }
        }
        for (load, args, result) in &self.limits.syncs {
            if let Ok(result) = result {
                let what = format!("{} records of {} B per sync", args.group, args.bytes);
                let figures = FsyncFigures::new(args, result);
                let figure = figures.records_per_second;
                rows.push((what, "records/s", *load, figure, "-".to_owned()));
            }
        }
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(out, "\nLimits of this machine:\n");
        let mut columns = vec!["load", "limit", "figure", "p99", "share reached"];
        if self.is_comparison() {
            columns.push("limit / versus");
        }
        head(out, &columns);
        for (what, unit, load, figure, p99) in rows {
            let share = reached(load, 0).map(|ops| ops / figure);
            let mut cells = vec![load.to_owned(), what, format!("{figure:.0} {unit}"), p99];
            cells.push(number(share, 2));
            if self.is_comparison() {
                cells.push(number(reached(load, 1).map(|ops| figure / ops), 2));
            }
            line(out, &cells);
        }
    }
}

/// Returns the figures of one side in the table of loads.
fn side_cells(side: Option<&Side>) -> [String; 6] {
    [
        number(side.map(Side::ops_per_second), 0),
        percentile(side, 50.0),
        percentile(side, 99.0),
        percentile(side, 99.9),
        worst(side),
        number(side.and_then(Side::server_cpu_per_million), 2),
    ]
}

const MIB: f64 = 1024.0 * 1024.0;
