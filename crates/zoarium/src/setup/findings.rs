//! Output of `preflight` and `config`: findings as text and as JSON, and the flags that the two
//! commands share.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use config::Origin;
use config::finding::{Finding, Severity};
use preflight::{Report, Verdict};
use serde_json::{Map, Value, json};

use crate::tool::NO_GO;

/// System properties on the command line.
#[derive(Debug, Clone, Args)]
pub(crate) struct DefinitionArgs {
    /// System property, as for `zoarium server`
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) definitions: Vec<String>,
}

/// Returns an environment variable if it is set and is valid text.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the exit code. It is 0 for a valid configuration, even with warnings unless `is_strict`
/// is set. It is 1 for warnings with `is_strict`, and 3 for a configuration that prevents a start.
pub(crate) fn exit_code(verdict: Verdict, is_strict: bool) -> ExitCode {
    match verdict {
        Verdict::Go => ExitCode::SUCCESS,
        Verdict::GoWithWarnings if is_strict => ExitCode::FAILURE,
        Verdict::GoWithWarnings => ExitCode::SUCCESS,
        Verdict::NoGo => ExitCode::from(NO_GO),
    }
}

/// Writes a paragraph for each finding, a line for each security point, and the verdict.
pub(crate) fn write_text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        let mut text = format!("{:8} {}: ", finding.severity, finding.id);
        if let Some(origin) = &finding.origin {
            text.push_str(&format!("{origin}: "));
        }
        if let Some(key) = &finding.key {
            text.push_str(&format!("{key}: "));
        }
        text.push_str(&finding.problem);
        write_wrapped("", &text, out)?;
        if let Some(way_out) = &finding.way_out {
            write_wrapped(INDENT, &format!("-> {way_out}"), out)?;
        }
    }
    for point in &report.security {
        let state = if point.open.is_some() { "open" } else { "ok" };
        writeln!(out, "security {state:4} {}", point.id)?;
    }
    let count = |severity: Severity| {
        let of_it = |finding: &&Finding| finding.severity == severity;
        let count = report.findings.iter().filter(of_it).count();
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {severity}{plural}")
    };
    writeln!(
        out,
        "{}: {}, {}, {}",
        report.verdict.name(),
        count(Severity::Blocker),
        count(Severity::Warning),
        count(Severity::Note)
    )
}

/// Indentation of all lines of a finding except the first.
const INDENT: &str = "         ";
/// Line width. A longer path or word is written on a separate line.
const COLUMNS: usize = 100;

fn write_wrapped(beginning: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut line = beginning.to_owned();
    let mut has_word = false;
    for word in printable(text).split(' ') {
        let is_full = line.chars().count() + 1 + word.chars().count() > COLUMNS;
        if is_full && has_word {
            writeln!(out, "{}", line.trim_end())?;
            INDENT.clone_into(&mut line);
        } else if has_word {
            line.push(' ');
        }
        line.push_str(word);
        has_word = true;
    }
    writeln!(out, "{}", line.trim_end())
}

/// Escapes control characters. Names and values come from files, and a terminal might interpret
/// them.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns one object that contains `verdict`, `config`, `findings`, the points of `security`, and
/// `data` if available.
pub(crate) fn as_json(report: &Report) -> Value {
    let mut object = Map::new();
    object.insert("verdict".to_owned(), report.verdict.name().into());
    let config = report.config.display().to_string();
    object.insert("config".to_owned(), config.into());
    let findings: Vec<Value> = report.findings.iter().map(finding_json).collect();
    object.insert("findings".to_owned(), findings.into());
    if !report.security.is_empty() {
        let points = report.security.iter();
        let points: Vec<Value> = points
            .map(|point| json!({ "id": point.id, "is_open": point.open.is_some() }))
            .collect();
        object.insert("security".to_owned(), points.into());
    }
    if let Some(data) = &report.data {
        let data = json!({
            "snapshots": data.snapshots,
            "logs": data.logs,
            "bytes": data.bytes,
            "newest_snapshot_bytes": data.newest_snapshot_bytes,
            "memory_bytes": data.memory_bytes,
            "last_zxid": data.last_zxid.map(|zxid| zxid.to_string()),
            "current_epoch": data.current_epoch,
            "accepted_epoch": data.accepted_epoch,
            "znodes": data.znodes,
            "sessions": data.sessions,
            "newest_ms": data.newest_ms,
            "is_loaded": data.is_loaded,
        });
        object.insert("data".to_owned(), data);
    }
    object.into()
}

fn finding_json(finding: &Finding) -> Value {
    let (file, line, flags) = match &finding.origin {
        Some(Origin::File { path, line }) => (Some(path.display().to_string()), *line, None),
        Some(Origin::Flags(source)) => (None, None, Some(source)),
        None => (None, None, None),
    };
    json!({
        "id": finding.id,
        "severity": finding.severity.name(),
        "file": file,
        "line": line,
        "flags": flags,
        "key": finding.key,
        "problem": finding.problem,
        "way_out": finding.way_out,
    })
}
