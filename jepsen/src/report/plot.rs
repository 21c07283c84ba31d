//! Drawings of a report, as SVG.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::escaped;
use super::gather::{BUCKETS, Bucket, Gathered};
use crate::history::{Event, Kind, Process};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 70.0;
const LANE: f64 = 22.0;
/// Maximum number of lanes in a drawing of calls.
const LANES_MAX: usize = 40;

/// A line in a plot: its name, its class and its value in a bucket.
pub(super) type Line<'a> = (&'a str, &'a str, &'a dyn Fn(&Bucket) -> Option<f64>);

/// Draws lines over time with a band for every fault.
pub(super) fn lines(
    gathered: &Gathered,
    unit: &str,
    is_logarithmic: bool,
    lines: &[Line<'_>],
) -> String {
    let scaled = |value: f64| {
        if is_logarithmic {
            (value + 1.0).log10()
        } else {
            value
        }
    };
    let values = lines
        .iter()
        .flat_map(|(_, _, value)| gathered.buckets.iter().filter_map(value));
    let top = values.fold(1.0, f64::max);
    let y = |value: f64| HEIGHT - scaled(value) / scaled(top) * HEIGHT;
    let mut svg = open(HEIGHT + 24.0);
    bands(gathered, HEIGHT, &mut svg);
    for (name, class, value) in lines {
        let mut points = String::new();
        for (at, bucket) in gathered.buckets.iter().enumerate() {
            if let Some(value) = value(bucket) {
                let x = LEFT + (small(at) + 0.5) / small(BUCKETS) * WIDTH;
                write!(points, "{x:.1},{:.1} ", y(value)).ok();
            }
        }
        write!(
            svg,
            "<polyline class=\"{class}\" points=\"{}\"><title>{}</title></polyline>",
            points.trim_end(),
            escaped(name)
        )
        .ok();
    }
    for part in [0.0, 0.25, 0.5, 1.0] {
        let value = top * part;
        write!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{value:.0} {}</text>",
            LEFT - 6.0,
            y(value).max(8.0),
            escaped(unit)
        )
        .ok();
    }
    axis(0, gathered.end_ns, HEIGHT + 16.0, &mut svg);
    svg.push_str("</svg>");
    svg
}

/// Draws the calls of these events, with a lane for each process.
pub(super) fn calls(events: &BTreeMap<u64, &Event>) -> String {
    let from = events.values().map(|event| event.time_ns).min();
    let to = events.values().map(|event| event.time_ns).max();
    let (Some(from), Some(to)) = (from, to) else {
        return String::new();
    };
    let x = |time_ns: u64| {
        let share = seconds(time_ns - from) / seconds((to - from).max(1));
        LEFT + share * WIDTH
    };
    let mut lanes: BTreeMap<Process, Vec<&Event>> = BTreeMap::new();
    for event in events.values() {
        lanes.entry(event.process).or_default().push(event);
    }
    let height = LANE * small(lanes.len().min(LANES_MAX)) + 24.0;
    let mut svg = open(height);
    for (lane, (process, events)) in lanes.iter().take(LANES_MAX).enumerate() {
        let top = LANE * small(lane) + 3.0;
        let who = match process {
            Process::Client(process) => format!("process {process}"),
            Process::Other(_) => "nemesis".to_owned(),
        };
        write!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{who}</text>",
            LEFT - 6.0,
            top + 12.0
        )
        .ok();
        let mut events = events.iter().peekable();
        while let Some(event) = events.next() {
            let end =
                events.next_if(|next| event.kind == Kind::Invoke && next.kind != Kind::Invoke);
            let right = end.map_or(to, |end| end.time_ns);
            let left = x(event.time_ns);
            let width = (x(right) - left).max(3.0);
            let (class, answer) = end.map_or(("info", *event), |end| (class(end.kind), *end));
            let key = event.key.as_deref().unwrap_or_default();
            let text = format!(
                "{} {} {key} {} -> {}",
                event.index,
                event.f,
                super::short(&event.value.to_string()),
                super::short(&answer.value.to_string()),
            );
            write!(
                svg,
                "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"16\"><title>{0}</title></rect><text class=\"on\" x=\"{1:.1}\" \
                 y=\"{2:.1}\">{0}</text>",
                escaped(&text),
                left + 2.0,
                top + 12.0,
            )
            .ok();
        }
    }
    axis(from, to, height - 6.0, &mut svg);
    svg.push_str("</svg>");
    svg
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Ok => "ok",
        Kind::Fail => "fail",
        Kind::Info | Kind::Invoke => "info",
    }
}

fn open(height: f64) -> String {
    let width = LEFT + WIDTH + 10.0;
    format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">")
}

fn bands(gathered: &Gathered, height: f64, svg: &mut String) {
    let end = seconds(gathered.end_ns.max(1));
    for fault in &gathered.faults {
        let left = LEFT + seconds(fault.from_ns) / end * WIDTH;
        let right = LEFT + seconds(fault.to_ns) / end * WIDTH;
        write!(
            svg,
            "<rect class=\"fault\" x=\"{left:.1}\" y=\"0\" width=\"{:.1}\" \
             height=\"{height:.0}\"><title>{}</title></rect>",
            (right - left).max(1.5),
            escaped(&format!("{} {}", fault.name, super::short(&fault.what)))
        )
        .ok();
    }
}

fn axis(from_ns: u64, to_ns: u64, y: f64, svg: &mut String) {
    for quarter in 0..=4_u32 {
        let share = f64::from(quarter) / 4.0;
        let time = seconds(from_ns) + share * seconds(to_ns - from_ns);
        write!(
            svg,
            "<text x=\"{:.0}\" y=\"{y:.0}\" text-anchor=\"middle\">{time:.3} s</text>",
            LEFT + share * (WIDTH - 30.0)
        )
        .ok();
    }
}

/// Converts nanoseconds to seconds.
pub(super) fn seconds(time_ns: u64) -> f64 {
    std::time::Duration::from_nanos(time_ns).as_secs_f64()
}

fn small(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
