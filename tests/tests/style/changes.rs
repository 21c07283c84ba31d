//! The patches in `docs/changes`. Each one makes a change of one kind, and so shows the files that
//! such a change touches.
//!
//! `ZOARIUM_BLESS=1 cargo test -p tests --test style changes` writes their table in
//! docs/ARCHITECTURE.md.

use std::process::Command;
use std::{env, fs};

use tests::{Missing, or_skip, workspace_root};

use super::pages::GENERATED;
use super::{at, text_of};

/// Lines before and after the table.
pub(super) const BEGIN: &str = "<!-- changes: made by `tests/tests/style/changes.rs` -->";
pub(super) const END: &str = "<!-- end of the changes -->";

const PAGE: &str = "docs/ARCHITECTURE.md";

/// Kind of change, name of its patch, and maximum number of files. The last six numbers are the
/// numbers of files that the same changes touched on 51ec785.
const KINDS: &[(&str, &str, usize)] = &[
    ("write opcode", "write-opcode", 8),
    ("configuration key", "configuration-key", 4),
    ("metric", "metric", 3),
    ("four-letter word", "four-letter-word", 4),
    ("admin command that changes something", "admin-command", 5),
    ("limit per identity", "limit-per-identity", 5),
    ("SASL mechanism", "sasl-mechanism", 7),
    ("TLS setting", "tls-setting", 5),
    ("section of a snapshot", "snapshot-section", 12),
    ("recipe", "recipe", 2),
    ("console page", "console-page", 3),
    ("command", "command", 4),
];

fn path_of(name: &str) -> String {
    format!("docs/changes/{name}.patch")
}

/// Returns the files in the summary of a patch. `git diff --stat` made the summary.
fn files_of(patch: &str) -> Vec<&str> {
    let summary = patch.lines().take_while(|line| !line.starts_with("diff "));
    summary
        .filter_map(|line| Some(line.split_once(" | ")?.0.trim()))
        .collect()
}

/// Returns the files that a patch changes, and whether it creates them.
fn changed_by(patch: &str) -> Vec<(&str, bool)> {
    let lines: Vec<&str> = patch.lines().collect();
    let mut files = Vec::new();
    for pair in lines.windows(2) {
        let file = pair[0].strip_prefix("diff --git ");
        let file = file.and_then(|names| names.split_once(" b/"));
        files.extend(file.map(|(_, file)| (file, pair[1].starts_with("new file mode "))));
    }
    files
}

#[test]
fn each_kind_of_change_has_a_patch_that_applies_and_touches_few_files() {
    let mut faults = Vec::new();
    for (_, name, most) in KINDS {
        let file = path_of(name);
        let patch = text_of(&file).unwrap_or_else(|| panic!("{file} is missing"));
        let files = files_of(&patch);
        assert!(!files.is_empty(), "{file} does not contain a change");
        if files.len() > *most {
            faults.push(format!("{file} touches more than {most} files: {files:?}"));
        }
        let changed = changed_by(&patch).into_iter().map(|(file, _)| file);
        let in_patch = files
            .iter()
            .copied()
            .filter(|file| !GENERATED.contains(file));
        if !in_patch.eq(changed) {
            faults.push(format!("{file}: the summary differs from the patch"));
        }
        let checked = Command::new("git")
            .args(["apply", "--check", &file])
            .current_dir(workspace_root())
            .output();
        let checked = checked.map_err(|error| Missing(format!("git: {error}")));
        let Some(checked) = or_skip("patches that show changes", checked) else {
            return;
        };
        if !checked.status.success() {
            let reason = String::from_utf8_lossy(&checked.stderr).into_owned();
            faults.push(format!(
                "{reason}{file} does not apply: renew it by .ci/change-patch"
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

fn rows() -> String {
    let rows = KINDS.iter().map(|(kind, name, _)| {
        let patch = text_of(&path_of(name)).unwrap_or_default();
        let files = files_of(&patch);
        let changed = changed_by(&patch);
        let names: Vec<String> = files
            .iter()
            .map(|file| {
                let sign = if changed.contains(&(file, true)) {
                    "+"
                } else {
                    ""
                };
                format!("`{sign}{}`", file.strip_prefix("crates/").unwrap_or(file))
            })
            .collect();
        let (count, names) = (files.len(), names.join(", "));
        format!("| [{kind}](changes/{name}.patch) | {count} | {names} |\n")
    });
    format!(
        "\n| Change | Files | |\n|---|--:|---|\n{}\n",
        rows.collect::<String>()
    )
}

#[test]
fn the_page_lists_the_files_of_each_change() {
    let page = text_of(PAGE).expect("a page");
    let split = |text: &str, mark: &str| {
        let (before, after) = text.split_once(mark).expect("a mark of the table");
        (before.to_owned(), after.to_owned())
    };
    let (before, rest) = split(&page, BEGIN);
    let (_, after) = split(&rest, END);
    let renewed = format!("{before}{BEGIN}\n{}{END}{after}", rows());
    if env::var_os("ZOARIUM_BLESS").is_some() {
        fs::write(at(PAGE), &renewed).expect("write the page");
    }
    let page = text_of(PAGE).expect("a page");
    assert!(
        page == renewed,
        "{PAGE} is not what the patches say: \
         run ZOARIUM_BLESS=1 cargo test -p tests --test style changes"
    );
}
