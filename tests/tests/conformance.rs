//! The shared wire conformance suite: every case must match what Apache ZooKeeper 3.9.5 answered.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::{Flavour, Missing, Server, ServerBuilder, find_tool, or_skip, run, shared_dir};

/// Cases in which Zoarium answers otherwise on purpose; `docs/COMPATIBILITY.md` has the reasons.
const DELIBERATE_DIFFERENCES: &[&str] = &[];

/// Longest time for all cases; Apache ZooKeeper takes half a minute.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// A started server with the suite's own configuration.
fn server(suite: &Path) -> Result<Server, Missing> {
    let template = suite.join("zoo.cfg.template");
    let template = std::fs::read_to_string(&template)
        .map_err(|error| Missing(format!("{}: {error}", template.display())))?;
    ServerBuilder::new(Flavour::under_test())
        .template(&template)
        // Apache ZooKeeper takes this one only as a property.
        .property("znode.container.checkIntervalMs", "500")
        .start()
}

/// The names of the cases that `diff.py` lists as different.
fn mismatches(report: &str) -> BTreeSet<&str> {
    let listed = report
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("MISMATCH "));
    listed
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// The two numbers of the closing line `N of M cases match`.
fn score(report: &str) -> Option<(usize, usize)> {
    let line = report
        .lines()
        .rev()
        .find_map(|line| line.strip_suffix(" cases match"))?;
    let (matching, all) = line.split_once(" of ")?;
    Some((matching.parse().ok()?, all.parse().ok()?))
}

#[test]
fn every_shared_case_matches() {
    let found = shared_dir()
        .map(|dir| dir.join("conformance"))
        .filter(|dir| dir.is_dir());
    let found = found.ok_or_else(|| Missing("../shared/conformance is not there".to_owned()));
    let Some(suite) = or_skip("the conformance suite", found) else {
        return;
    };
    let Some(python) = or_skip("the conformance suite", find_tool("python3")) else {
        return;
    };
    let Some(server) = or_skip("the conformance suite", server(&suite)) else {
        return;
    };

    let results = tempfile::NamedTempFile::new().expect("make a file for the results");
    let script = |name: &str| {
        let mut command = Command::new(&python);
        // The shared folder may not be written to.
        command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .arg(suite.join(name));
        command
    };
    let mut cases = script("run.py");
    cases
        .args(["--wait", "10", "--server", &server.address(), "--out"])
        .arg(results.path());
    if let Err(failure) = run(&mut cases, LIMIT) {
        panic!("the suite did not end: {failure}");
    }
    let mut comparison = script("diff.py");
    comparison
        .arg(suite.join("golden/zk-3.9.5.json"))
        .arg(results.path());
    // It ends with code 1 when cases differ; its report is looked at either way.
    let report = run(&mut comparison, LIMIT).unwrap_or_else(|report| report);

    let Some((matching, all)) = score(&report) else {
        panic!("no result:\n{report}")
    };
    let different = mismatches(&report);
    assert_eq!(
        matching + different.len(),
        all,
        "the report is not understood:\n{report}"
    );
    let deliberate: BTreeSet<&str> = DELIBERATE_DIFFERENCES.iter().copied().collect();
    // Also a difference that is gone must leave the list.
    assert_eq!(
        different, deliberate,
        "{matching} of {all} cases match:\n{report}"
    );
    assert!(all >= 300, "only {all} cases were compared");
}

#[test]
fn reports_are_understood() {
    let report = "== acl\n  MISMATCH acl_order [cases]\n    x: reference 1\n\nacl  1 of   2\n\
                  1 of 2 cases match\n";
    assert_eq!(score(report), Some((1, 2)));
    assert_eq!(mismatches(report), BTreeSet::from(["acl_order"]));
    assert_eq!(score("no session from 127.0.0.1:1\n"), None);
}
