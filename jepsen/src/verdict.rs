//! What a checker says about a history.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether a history is one that the promises allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Validity {
    /// It is.
    Valid,
    /// The checker ran out of its budget before it knew.
    Unknown,
    /// It is not; the findings say why.
    Invalid,
}

/// One thing that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What is wrong, for a reader who has the history beside it.
    pub what: String,
    /// Indexes of the events that show it, in their order.
    pub events: Vec<u64>,
}

/// What a checker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The result.
    pub validity: Validity,
    /// What was found, the earliest first; bounded by the checker.
    pub findings: Vec<Finding>,
    /// What was counted, by name: operations, acknowledged, lost, steps of a search.
    pub figures: BTreeMap<String, u64>,
}

impl Verdict {
    /// Valid unless there are findings.
    pub fn of(findings: Vec<Finding>, figures: BTreeMap<String, u64>) -> Verdict {
        let validity = match findings.is_empty() {
            true => Validity::Valid,
            false => Validity::Invalid,
        };
        Verdict {
            validity,
            findings,
            figures,
        }
    }
}
