//! The result of a checker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether the guarantees allow a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Validity {
    /// The guarantees allow it.
    Valid,
    /// The checker exhausted its budget before it had a result.
    Unknown,
    /// The guarantees do not allow it; the findings contain the reasons.
    Invalid,
}

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Description of the violation, for a reader with access to the history.
    pub what: String,
    /// Indexes of the events that show it, in their order.
    pub events: Vec<u64>,
}

/// Result of a checker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The result.
    pub validity: Validity,
    /// Violations, the earliest first. The checker bounds their number.
    pub findings: Vec<Finding>,
    /// Counters by name: operations, acknowledged, lost, steps of a search.
    pub figures: BTreeMap<String, u64>,
}

impl Verdict {
    /// Returns a valid verdict unless there are findings.
    pub fn of(findings: Vec<Finding>, figures: BTreeMap<String, u64>) -> Verdict {
        let validity = if findings.is_empty() {
            Validity::Valid
        } else {
            Validity::Invalid
        };
        Verdict {
            validity,
            findings,
            figures,
        }
    }
}
