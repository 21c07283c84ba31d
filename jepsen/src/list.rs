//! The available workloads and faults.

use std::fmt::Write as _;

use crate::nemesis;
use crate::workload;

/// Returns the names of all workloads and faults, each with a description.
pub fn all() -> String {
    let workloads = workload::all().iter();
    let workloads = workloads.map(|workload| (workload.name(), workload.promise()));
    let nemeses = nemesis::ALL.iter().map(|kind| (kind.name, kind.what));
    format!(
        "workloads:\n{}\nnemeses:\n{}",
        table(workloads),
        table(nemeses)
    )
}

fn table<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    rows.fold(String::new(), |mut text, (name, what)| {
        writeln!(text, "  {name:<12} {what}").ok();
        text
    })
}
