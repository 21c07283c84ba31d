//! Limits for sentences with habits that make English hard to read, as `.ci/plain` finds them.

use std::process::Command;

use super::at;
use tests::{find_tool, or_skip};

/// Kinds of text, most findings per 1,000 sentences, and the folders and files with such texts.
const LIMITS: &[(&str, &str, &[&str])] = &[
    ("doc", "50", &["docs", "README.md"]),
    ("message", "20", &["crates"]),
    ("comment", "20", &["crates", "tests", "jepsen"]),
];

#[test]
fn sentences_have_few_findings() {
    let Some(python) = or_skip("the counter of findings", find_tool("python3")) else {
        return;
    };
    for (kind, max, paths) in LIMITS {
        let mut counter = Command::new(&python);
        counter.current_dir(at("")).arg(at(".ci/plain"));
        counter.args(["--text", kind, "--max", max]).args(*paths);
        let output = counter.output().expect("the counter runs");
        let found = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind}: {found}{errors}");
        assert!(found.contains(" per 1,000\n"), "{kind}: {found}");
    }
}
