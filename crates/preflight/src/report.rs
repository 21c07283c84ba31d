//! The verdict on what was found.

use std::path::{Path, PathBuf};

use config::Origin;
use config::finding::{Finding, Severity};

use crate::data::DataSummary;
use crate::security::Point;

/// Whether a server can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing but notes.
    Go,
    /// It starts, and somebody should have read the warnings.
    GoWithWarnings,
    /// It does not start, or data would be lost.
    NoGo,
}

impl Verdict {
    /// What the findings come to.
    pub fn of(findings: &[Finding]) -> Self {
        match findings.iter().map(|finding| finding.severity).min() {
            Some(Severity::Blocker) => Self::NoGo,
            Some(Severity::Warning) => Self::GoWithWarnings,
            Some(Severity::Note) | None => Self::Go,
        }
    }

    /// The words for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::GoWithWarnings => "go with warnings",
            Self::NoGo => "no-go",
        }
    }
}

/// All that was found, and what it comes to.
#[derive(Debug)]
pub struct Report {
    /// The zoo.cfg that was looked at.
    pub config: PathBuf,
    /// The verdict.
    pub verdict: Verdict,
    /// The worst first; those of zoo.cfg in the order of its lines.
    pub findings: Vec<Finding>,
    /// The points of the security checklist; none unless it was asked for.
    pub security: Vec<Point>,
    /// The data, as far as it could be read.
    pub data: Option<DataSummary>,
}

/// Puts findings into order and judges them.
pub fn judge(config: &Path, mut findings: Vec<Finding>, data: Option<DataSummary>) -> Report {
    let is_elsewhere = |finding: &Finding| !matches!(&finding.origin, Some(Origin::File { path, .. }) if path == config);
    findings.sort_by_key(|finding| (finding.severity, is_elsewhere(finding), finding.line()));
    findings.dedup();
    Report {
        config: config.to_owned(),
        verdict: Verdict::of(&findings),
        findings,
        security: Vec::new(),
        data,
    }
}
