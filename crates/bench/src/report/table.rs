//! Tables in Markdown.

use std::fmt::Write;
use std::time::Duration;

use crate::report::short;
use crate::rounds::compare::Side;

/// Writes the header of a table.
pub fn head(out: &mut String, columns: &[&str]) {
    line(out, columns);
    line(out, &vec!["---"; columns.len()]);
}

/// Writes a row of a table.
pub fn line(out: &mut String, cells: &[impl AsRef<str>]) {
    for cell in cells {
        let _ = write!(out, "| {} ", cell.as_ref());
    }
    out.push_str("|\n");
}

/// Formats a number. A missing number becomes `-`.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

pub(crate) fn seconds(value: Option<f64>) -> String {
    let duration = value.and_then(|value| Duration::try_from_secs_f64(value).ok());
    duration.map_or_else(|| "-".to_owned(), short)
}

/// Formats the latency within which `percent` of a side's operations completed. A missing side
/// becomes `-`.
pub fn percentile(side: Option<&Side>, percent: f64) -> String {
    side.map_or_else(|| "-".to_owned(), |side| short(side.percentile(percent)))
}

/// Formats the duration of the slowest operation of a side. A missing side becomes `-`.
pub(crate) fn worst(side: Option<&Side>) -> String {
    side.map_or_else(|| "-".to_owned(), |side| short(side.stats().max()))
}

/// Formats a confidence interval. A missing interval becomes `-`.
pub(crate) fn interval(bounds: Option<(f64, f64)>) -> String {
    bounds.map_or_else(
        || "-".to_owned(),
        |(low, high)| format!("{low:.2} to {high:.2}"),
    )
}
