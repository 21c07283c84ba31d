//! Verdict on the findings.

use std::path::{Path, PathBuf};

use config::Origin;
use config::finding::{Finding, Severity};

use crate::data::DataSummary;
use crate::security::ChecklistItem;

/// Verdict on whether a server can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The server starts. There are only notes.
    Go,
    /// The server starts, but an operator should read the warnings.
    GoWithWarnings,
    /// The server does not start, or data would be lost.
    NoGo,
}

impl Verdict {
    /// Returns the verdict on the findings.
    pub fn of(findings: &[Finding]) -> Self {
        match findings.iter().map(|finding| finding.severity).min() {
            Some(Severity::Blocker) => Self::NoGo,
            Some(Severity::Warning) => Self::GoWithWarnings,
            Some(Severity::Note) | None => Self::Go,
        }
    }

    /// Returns the text of the verdict.
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::GoWithWarnings => "go with warnings",
            Self::NoGo => "no-go",
        }
    }
}

/// All findings, with the verdict.
#[derive(Debug)]
pub struct Report {
    /// Path of the checked zoo.cfg.
    pub config: PathBuf,
    /// Verdict on the findings.
    pub verdict: Verdict,
    /// Findings, most severe first. Within a severity, findings of zoo.cfg come first, in the order
    /// of its lines.
    pub findings: Vec<Finding>,
    /// Points of the security checklist. Empty unless the caller requested it.
    pub security: Vec<ChecklistItem>,
    /// Summary of the data, as far as it could be read.
    pub data: Option<DataSummary>,
}

/// Sorts the findings and determines the verdict.
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
