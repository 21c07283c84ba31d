//! The shared wire conformance suite, run with one server.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::command::{find_tool, run};
use crate::skip::Missing;

/// Time limit for all cases. Apache ZooKeeper needs half a minute.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// The suite's scripts, with their interpreter.
#[derive(Debug, Clone)]
pub struct Conformance {
    dir: PathBuf,
    python: PathBuf,
}

/// Comparison of a server's answers with the recorded ones.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Number of matching cases.
    pub matching: usize,
    /// Number of compared cases.
    pub all: usize,
    /// Names of the other cases.
    pub different: BTreeSet<String>,
    /// Complete report.
    pub report: String,
}

impl Conformance {
    /// Finds the suite.
    ///
    /// # Errors
    /// [`Missing`] if the suite or Python is missing.
    pub fn find() -> Result<Conformance, Missing> {
        let dir = testkit::recordings::find("conformance");
        Ok(Conformance {
            dir: dir.ok_or_else(|| Missing("its recorded cases are not there".to_owned()))?,
            python: find_tool("python3")?,
        })
    }

    /// Returns the zoo.cfg that the suite expects, with placeholders for port and directory.
    ///
    /// # Errors
    /// [`Missing`] if it cannot be read.
    pub fn template(&self) -> Result<String, Missing> {
        let template = self.dir.join("zoo.cfg.template");
        std::fs::read_to_string(&template)
            .map_err(|error| Missing(format!("{}: {error}", template.display())))
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(&self.python);
        // The shared folder may be read-only.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(self.dir.join(name));
        command
    }

    /// Runs the cases with the server at `address` and compares the answers. The other parameters
    /// are additional arguments for the two scripts. Panics if the suite does not end or prints
    /// nothing.
    pub fn compare(&self, address: &str, to_run: &[&str], to_compare: &[&str]) -> Comparison {
        let results = tempfile::NamedTempFile::new().expect("make a file for the results");
        let mut cases = self.script("run.py");
        cases.args(["--wait", "10", "--server", address]);
        cases.args(to_run).arg("--out").arg(results.path());
        if let Err(failure) = run(&mut cases, LIMIT) {
            panic!("the suite did not end: {failure}");
        }
        let mut comparison = self.script("diff.py");
        comparison.args(to_compare);
        comparison.arg(self.dir.join("golden/zk-3.9.5.json"));
        comparison.arg(results.path());
        // It ends with code 1 when cases differ. The report is read in both cases.
        let report = run(&mut comparison, LIMIT).unwrap_or_else(|report| report);
        let Some((matching, all)) = score(&report) else {
            panic!("no result:\n{report}")
        };
        let different: BTreeSet<String> = mismatches(&report).map(str::to_owned).collect();
        assert_eq!(
            matching + different.len(),
            all,
            "the report is not understood:\n{report}"
        );
        Comparison {
            matching,
            all,
            different,
            report,
        }
    }
}

impl Comparison {
    /// Panics unless exactly these cases differ. A difference that no longer exists must be removed
    /// from the list.
    pub fn assert_only_different(&self, deliberate: &[&str]) {
        let deliberate: BTreeSet<String> = deliberate.iter().map(|&name| name.to_owned()).collect();
        let Comparison {
            matching,
            all,
            report,
            ..
        } = self;
        assert_eq!(
            self.different, deliberate,
            "{matching} of {all} cases match:\n{report}"
        );
    }
}

/// Returns the names of the cases that `diff.py` lists as different.
fn mismatches(report: &str) -> impl Iterator<Item = &str> {
    let listed = report
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("MISMATCH "));
    listed.filter_map(|line| line.split_whitespace().next())
}

/// Returns the two numbers of the final line `N of M cases match`.
fn score(report: &str) -> Option<(usize, usize)> {
    let line = report
        .lines()
        .rev()
        .find_map(|line| line.strip_suffix(" cases match"))?;
    let (matching, all) = line.split_once(" of ")?;
    Some((matching.parse().ok()?, all.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_understood() {
        let report = "== acl\n  MISMATCH acl_order [cases]\n    x: reference 1\n\nacl  1 of   2\n\
                      1 of 2 cases match\n";
        assert_eq!(score(report), Some((1, 2)));
        assert_eq!(mismatches(report).collect::<Vec<_>>(), ["acl_order"]);
        assert_eq!(score("no session from 127.0.0.1:1\n"), None);
    }
}
