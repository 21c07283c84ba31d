//! The table of changed log lines in the changelog: complete since 51ec785, and up to date.

use super::{committed, rust_files, text_of};

/// Log texts of 51ec785, each with the text that replaced it and a remark, separated by tabs. A text without a
/// replacement is unchanged. `dropped:` begins the reason for a text that no longer exists.
const ROWS: &str = include_str!("rows/LOG.tsv");

const CHANGELOG: &str = "docs/CHANGELOG.md";
pub(crate) const BEGIN: &str =
    "<!-- changed log lines: made by ZOARIUM_BLESS=1 cargo test -p tests --test style -->";
pub(crate) const END: &str = "<!-- end of the changed log lines -->";

/// Columns of a row: the old text, and unless the text is unchanged the new one and a remark.
fn columns(row: &str) -> (&str, Option<(&str, &str)>) {
    let mut columns = row.splitn(3, '\t');
    let old = columns.next().unwrap_or_default();
    let new = columns.next();
    (
        old,
        new.map(|new| (new, columns.next().unwrap_or_default())),
    )
}

/// A text as code in a cell of a table.
fn cell(text: &str) -> String {
    let text = text.replace("\\\"", "\"").replace('`', "'");
    format!("`{}`", text.replace('|', "\\|"))
}

fn table() -> String {
    let mut table = String::from("| Old | New |\n|---|---|\n");
    for row in ROWS.lines() {
        let (old, Some((new, remark))) = columns(row) else {
            continue;
        };
        let new = match new.strip_prefix("dropped: ") {
            Some(reason) => format!("no longer logged: {reason}"),
            None if new == old => remark.to_owned(),
            None => format!("{} {remark}", cell(new)),
        };
        table.push_str(&format!("| {} | {} |\n", cell(old), new.trim_end()));
    }
    table
}

#[test]
fn the_changelog_lists_all_changed_log_lines() {
    let Some(page) = text_of(CHANGELOG) else {
        return;
    };
    let (head, rest) = page.split_once(BEGIN).expect("the table");
    let (_, tail) = rest.split_once(END).expect("the end of the table");
    let expected = format!("{head}{BEGIN}\n\n{}\n{END}{tail}", table());
    if std::env::var_os("ZOARIUM_BLESS").is_some() {
        std::fs::write(super::at(CHANGELOG), &expected).expect("the changelog is writable");
    }
    let current = text_of(CHANGELOG).expect("the changelog");
    assert_eq!(
        current, expected,
        "run this test with ZOARIUM_BLESS=1, and add changed texts to rows/LOG.tsv"
    );
}

/// The source without line breaks in texts.
fn joined(source: &str) -> String {
    let mut parts = source.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

#[test]
fn log_lines_of_51ec785_are_logged_or_in_the_table() {
    let Some(files) = committed() else { return };
    let sources: Vec<String> = rust_files(&files)
        .filter(|(file, _)| file.starts_with("crates/") && file.contains("/src/"))
        .map(|(_, text)| joined(&text))
        .collect();
    let (mut olds, mut lost) = (Vec::new(), Vec::new());
    for row in ROWS.lines() {
        let (old, new) = columns(row);
        olds.push(old);
        let text = new.map_or(old, |(new, _)| new);
        let literal = format!("\"{text}");
        let is_logged = || sources.iter().any(|source| source.contains(&literal));
        if !text.starts_with("dropped: ") && !is_logged() {
            lost.push(text);
        }
    }
    assert!(olds.len() > 300, "only {} texts", olds.len());
    let mut sorted = olds.clone();
    sorted.sort_by_key(|old| old.to_lowercase());
    sorted.dedup();
    assert_eq!(olds, sorted, "sorted, and each text once");
    assert!(lost.is_empty(), "name the new texts of {lost:#?}");
}
