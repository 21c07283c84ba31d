//! House rules that a program can check, for all committed files.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

#[path = "style/changelog.rs"]
mod changelog;
#[path = "style/changes.rs"]
mod changes;
#[path = "style/log_lines.rs"]
mod log_lines;
#[path = "style/maintenance.rs"]
mod maintenance;
#[path = "style/pages.rs"]
mod pages;
#[path = "style/plain.rs"]
mod plain;
#[path = "style/readmes.rs"]
mod readmes;
#[path = "style/signatures.rs"]
mod signatures;
#[path = "style/structure.rs"]
mod structure;

use tests::{Missing, or_skip, workspace_root};

/// Lines above which a Rust file must give a reason for its length.
const LINES_MAX: usize = 600;
/// Prefix of the reason in the header.
const REASON: &str = "//! Length: ";

/// Permitted entries of the top directory, and whether each is required.
const TOP: &[(&str, bool)] = &[
    (".cargo", false),
    (".ci", false),
    (".clippy.toml", true),
    (".deny.toml", false),
    (".editorconfig", true),
    (".gitattributes", false),
    (".github", true),
    (".gitignore", true),
    (".rustfmt.toml", true),
    ("Cargo.lock", true),
    ("Cargo.toml", true),
    ("LICENSE", true),
    ("NOTICE", false),
    ("README.md", true),
    ("conf", true),
    ("crates", true),
    ("docs", true),
    ("jepsen", false),
    ("tests", true),
];

/// Files for the hosting service, which requires these names.
const GITHUB: &[&str] = &[
    ".github/CODEOWNERS",
    ".github/ISSUE_TEMPLATE/bug.yml",
    ".github/ISSUE_TEMPLATE/config.yml",
    ".github/ISSUE_TEMPLATE/feature.yml",
    ".github/pull_request_template.md",
];

/// Places that exist on only one machine, split here so that this file does not contain them.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tm", "p/"),
];

/// Files that contain such a place deliberately.
const MAY_NAME_PATHS: &[&str] = &[
    // ZooKeeper's own sample has its data there, and states that it is an example.
    "conf/zoo_sample.cfg",
];

/// Apache ZooKeeper's own documents, which comments may cite. (`table.md` is made by
/// `jepsen matrix`, `report.md` by `bench suite`, `growth.md` by `zoarium-lab`.)
const FOREIGN_DOCUMENTS: &[&str] = &["zookeeperAdmin.md", "table.md", "report.md", "growth.md"];

/// Longest line of a document, except for tables: a row of a table cannot be wrapped.
const DOCUMENT_COLUMNS_MAX: usize = 120;

/// Returns the committed files that exist, relative to the root.
fn committed() -> Option<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(workspace_root())
        .output();
    let found = match listed {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(Missing(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )),
        Err(error) => Err(Missing(format!("git: {error}"))),
    };
    let bytes = or_skip("rules for committed files", found)?;
    let names = String::from_utf8(bytes).expect("names are UTF-8");
    let mut files: Vec<String> = names.split_terminator('\0').map(str::to_owned).collect();
    files.retain(|file| at(file).is_file());
    assert!(
        files.len() > 100,
        "only {} files are committed",
        files.len()
    );
    Some(files)
}

fn at(file: &str) -> PathBuf {
    workspace_root().join(file)
}

/// Returns the file's text, or `None` if it is not text.
fn text_of(file: &str) -> Option<String> {
    String::from_utf8(fs::read(at(file)).ok()?).ok()
}

fn rust_files(files: &[String]) -> impl Iterator<Item = (&str, String)> {
    let rust = files.iter().filter(|file| file.ends_with(".rs"));
    rust.filter_map(|file| Some((file.as_str(), text_of(file)?)))
}

#[test]
fn long_files_give_a_reason() {
    let Some(files) = committed() else { return };
    let too_long = |(_, text): &(&str, String)| text.lines().count() > LINES_MAX;
    let without_reason = rust_files(&files).filter(too_long).filter(|(_, text)| {
        let mut header = text.lines().take_while(|line| line.starts_with("//!"));
        !header.any(|line| line.starts_with(REASON) && line.len() > REASON.len())
    });
    let names: Vec<_> = without_reason.map(|(file, _)| file.to_owned()).collect();
    assert!(
        names.is_empty(),
        "over {LINES_MAX} lines, no \"{REASON}\": {names:#?}"
    );
}

#[test]
fn every_crate_uses_the_workspace_lints() {
    let Some(files) = committed() else { return };
    let root = text_of("Cargo.toml").expect("the root has a manifest");
    assert!(root.contains("unsafe_code = \"forbid\""));
    let is_manifest = |file: &&String| {
        (file.starts_with("crates/") || *file == "tests/Cargo.toml")
            && file.ends_with("/Cargo.toml")
    };
    for manifest in files.iter().filter(is_manifest) {
        let text = text_of(manifest).unwrap_or_default();
        assert!(text.contains("[lints]\nworkspace = true"), "{manifest}");
    }
}

/// Code that writes data, history and backups. `blocking::files` gives new files their modes.
const CREATES_DATA: &[&str] = &[
    "crates/admin/src/",
    "crates/datadir/src/",
    "crates/history/src/",
    "crates/host/src/",
    "crates/recovery/src/",
    "crates/server/src/",
    "crates/storage/src/",
    "crates/zoarium/src/",
];

/// Files in these folders that create something different: log output, and manual pages.
const CREATES_NO_DATA: &[&str] = &[
    "crates/admin/src/audit/file.rs",
    "crates/zoarium/src/cli/pages.rs",
    "crates/zoarium/src/start/quickstart/members.rs",
];

#[test]
fn data_is_created_with_its_mode() {
    let Some(files) = committed() else { return };
    let calls = [
        "File::create",
        "File::options",
        "OpenOptions::new",
        "fs::write(",
        "fs::copy(",
        "fs::create_dir",
        "DirBuilder::new",
    ];
    let mut found = Vec::new();
    for (file, text) in rust_files(&files) {
        let is_data = CREATES_DATA.iter().any(|dir| file.starts_with(dir));
        let is_test = file.ends_with("tests.rs") || file.contains("/tests/");
        if !is_data || is_test || CREATES_NO_DATA.contains(&file) {
            continue;
        }
        let code = text
            .split("\n#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        for (line, number) in code.lines().zip(1..) {
            if calls.iter().any(|call| line.contains(call)) {
                found.push(format!("{file}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "not by `blocking::files`: {found:#?}");
}

/// Code of tools, whose output may contain data.
const PRINTS_DATA: &[&str] = &[
    "crates/bench/src/",
    "crates/cli/src/",
    "crates/lab/src/",
    "crates/zoarium/src/",
];

/// The log library formats the log for standard error.
const PRINTS_LOG: &str = "crates/zoarium/src/start/logging.rs";

#[test]
fn tools_print_with_the_crate_terminal() {
    let Some(files) = committed() else { return };
    let calls = ["print!(", "println!(", "io::stdout", "io::stderr"];
    let mut found = Vec::new();
    for (file, text) in rust_files(&files) {
        let is_tool = PRINTS_DATA.iter().any(|dir| file.starts_with(dir));
        if !is_tool || file == PRINTS_LOG {
            continue;
        }
        for (line, number) in text.lines().zip(1..) {
            let is_code = !line.trim_start().starts_with("//");
            if is_code && calls.iter().any(|call| line.contains(call)) {
                found.push(format!("{file}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "not by the crate terminal: {found:#?}");
}

#[test]
fn no_rust_file_is_unsafe() {
    let Some(files) = committed() else { return };
    let keyword = concat!("un", "safe ");
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let names: Vec<_> = rust_files(&files)
        .filter(|(_, text)| {
            text.lines()
                .filter(is_code)
                .any(|line| line.contains(keyword))
        })
        .map(|(file, _)| file.to_owned())
        .collect();
    assert!(names.is_empty(), "{names:#?}");
}

#[test]
fn every_rust_file_says_what_it_is() {
    let Some(files) = committed() else { return };
    let silent = rust_files(&files).filter(|(_, text)| !text.starts_with("//!"));
    // Sibling files of tests are described by the file they test.
    let silent = silent.filter(|(file, _)| !file.ends_with("tests.rs"));
    // A generator begins its files with this line.
    let silent = silent.filter(|(_, text)| !text.starts_with("// This file is @generated"));
    // `include!` does not accept inner documentation.
    let silent = silent.filter(|(file, _)| !file.starts_with("tests/outside/programs/"));
    let names: Vec<_> = silent.map(|(file, _)| file.to_owned()).collect();
    assert!(names.is_empty(), "no module documentation: {names:#?}");
}

#[test]
fn the_top_level_has_the_planned_entries() {
    let Some(files) = committed() else { return };
    let top: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file.split('/').next())
        .collect();
    let stray: Vec<_> = top
        .iter()
        .filter(|entry| !TOP.iter().any(|(name, _)| name == *entry))
        .collect();
    assert!(stray.is_empty(), "not in the plan: {stray:?}");
    for (name, is_required) in TOP {
        assert!(!is_required || top.contains(name), "{name} is missing");
    }
}

#[test]
fn the_hosting_service_has_the_files_that_it_looks_for() {
    let Some(files) = committed() else { return };
    let found: Vec<&str> = files
        .iter()
        .map(String::as_str)
        .filter(|file| file.starts_with(".github/"))
        .collect();
    assert_eq!(found, GITHUB);
}

#[test]
fn no_committed_file_names_a_place_on_one_machine() {
    let Some(files) = committed() else { return };
    let mut faults = Vec::new();
    for file in files
        .iter()
        .filter(|file| !MAY_NAME_PATHS.contains(&file.as_str()))
    {
        let text = text_of(file).unwrap_or_default();
        for (line, number) in text.lines().zip(1..) {
            let path = MACHINE_PATHS.iter().find(|path| names_path(line, path));
            faults.extend(path.map(|path| format!("{file}:{number}: {path}")));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Returns whether the line contains the path from the root of the file system, and not as a part
/// of another path.
fn names_path(line: &str, path: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || "._-}~)".contains(c);
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(joins))
}

#[test]
fn cited_documents_exist() {
    let Some(files) = committed() else { return };
    let documents: BTreeSet<&str> = files
        .iter()
        .filter(|file| file.ends_with(DOCUMENT))
        .filter_map(|file| file.rsplit('/').next())
        .chain(FOREIGN_DOCUMENTS.iter().copied())
        .collect();
    let mut faults = Vec::new();
    for file in &files {
        let text = text_of(file).unwrap_or_default();
        for (line, number) in text.lines().zip(1..) {
            let missing = cited(line).filter(|name| !documents.contains(name));
            faults.extend(missing.map(|name| format!("{file}:{number}: {name}")));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn paths_in_documents_exist() {
    let Some(files) = committed() else { return };
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(DOCUMENT)) {
        let text = text_of(file).unwrap_or_default();
        for (line, number) in text.lines().zip(1..) {
            let missing = named_paths(line)
                .filter(|path| !at(path).exists() && !at("crates").join(path).exists());
            faults.extend(missing.map(|path| format!("{file}:{number}: {path}")));
        }
    }
    assert!(
        faults.is_empty(),
        "neither from the root nor from `crates`: {faults:#?}"
    );
}

#[test]
fn lines_of_documents_are_not_too_long() {
    let Some(files) = committed() else { return };
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(DOCUMENT)) {
        let text = text_of(file).unwrap_or_default();
        let is_too_long =
            |line: &str| !line.starts_with('|') && line.chars().count() > DOCUMENT_COLUMNS_MAX;
        let long = text.lines().zip(1..).filter(|(line, _)| is_too_long(line));
        faults.extend(long.map(|(_, number)| format!("{file}:{number}")));
    }
    assert!(
        faults.is_empty(),
        "over {DOCUMENT_COLUMNS_MAX} columns: {faults:#?}"
    );
}

/// Suffix of the names of documents.
const DOCUMENT: &str = concat!(".m", "d");

/// Returns the names of documents in a line.
fn cited(line: &str) -> impl Iterator<Item = &str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let words = line.split(move |c| !is_of_name(c));
    let names = words.map(|word| word.trim_end_matches('.'));
    names.filter(|name| name.len() > DOCUMENT.len() && name.ends_with(DOCUMENT))
}

/// Returns the project's paths between backticks: Rust files, and paths in a folder of the top
/// directory.
fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_ours = move |path: &&str| {
        let is_below = ["crates/", "tests/", "docs/"]
            .iter()
            .any(|folder| path.starts_with(folder));
        path.contains('/') && path.chars().all(is_plain) && (path.ends_with(".rs") || is_below)
    };
    line.split('`').skip(1).step_by(2).filter(is_ours)
}

#[test]
fn paths_are_found_between_backticks() {
    let line =
        "see `crates/zab/src`, `zab/src/lib.rs`, `a/{b,c}.rs`, `1/2`, crates/zab and `lib.rs`";
    let found: Vec<&str> = named_paths(line).collect();
    assert_eq!(found, ["crates/zab/src", "zab/src/lib.rs"]);
}

#[test]
fn names_of_documents_are_found_in_sentences() {
    let name = format!("ABC-d{DOCUMENT}");
    let line = format!("[see](docs/{name}), `{name}`; {name}. x{DOCUMENT}x {DOCUMENT}");
    let found: Vec<_> = cited(&line).collect();
    assert_eq!(found, [&name[..]; 3]);
}

#[test]
fn outside_crates_come_from_one_registry() {
    let lock = text_of("Cargo.lock").expect("the root has a lock file");
    let sources = lock
        .lines()
        .filter_map(|line| line.strip_prefix("source = "));
    let distinct: BTreeSet<_> = sources.collect();
    assert_eq!(distinct.len(), 1, "{distinct:?}");
}

#[test]
fn a_path_is_not_found_at_the_end_of_another() {
    let path = concat!("/tm", "p/");
    assert!(names_path(&format!("open \"{path}x\""), path));
    assert!(names_path(&format!("{path}x"), path));
    assert!(!names_path(&format!("build{path}x"), path));
    assert!(!names_path(&format!("${{root}}{path}x"), path));
}

/// Returns the messages that a document quotes in the first column of a table below this heading.
fn quoted_messages(document: &str, heading: &str) -> Vec<String> {
    let text = text_of(document).expect("a document");
    let (_, section) = text.split_once(heading).expect("a heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned()))
        .collect()
}

/// Returns the texts of a quoted message between its values, which are written as `…`. The name of
/// a field before a value is removed too.
fn fixed_texts(message: &str) -> Vec<&str> {
    let texts = message.split('…').map(|text| match text.strip_suffix('=') {
        Some(text) => text.trim_end_matches(|letter: char| !letter.is_whitespace()),
        None => text,
    });
    texts
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect()
}

#[test]
fn explained_messages_are_still_logged() {
    let Some(files) = committed() else { return };
    let quoted = quoted_messages("docs/TROUBLESHOOTING.md", "\n## Log messages\n");
    assert!(quoted.len() > 10, "{quoted:?}");
    let sources: Vec<String> = rust_files(&files)
        .filter(|(file, _)| file.starts_with("crates/") && file.contains("/src/"))
        .map(|(_, text)| text)
        .collect();
    let unsaid: Vec<_> = quoted
        .iter()
        .filter(|message| {
            let texts = fixed_texts(message);
            let logs_it = |source: &String| texts.iter().all(|text| source.contains(text));
            !sources.iter().any(logs_it)
        })
        .collect();
    assert!(unsaid.is_empty(), "no code logs {unsaid:#?}");
}

#[test]
fn every_document_is_a_chapter_of_the_book() {
    let Some(files) = committed() else { return };
    let book = text_of("docs/SUMMARY.md").expect("the book has a table of contents");
    let chapters: BTreeSet<String> = book
        .split("](")
        .skip(1)
        .filter_map(|link| Some(format!("docs/{}", link.split_once(')')?.0)))
        .collect();
    let is_document = |file: &&String| file.starts_with("docs/") && file.ends_with(DOCUMENT);
    let mut documents: BTreeSet<String> = files.iter().filter(is_document).cloned().collect();
    documents.remove("docs/SUMMARY.md");
    assert_eq!(chapters, documents);
}

/// The commands that run all tests together: the second runs the tests that the first ignores.
const TEST_COMMANDS: [&str; 2] = [
    "cargo test --workspace",
    "cargo test --workspace -- --ignored",
];

/// Returns the lines of the file that are a `cargo test` of the workspace, without comments.
fn test_commands(file: &str) -> Vec<String> {
    let text = text_of(file).expect("a text");
    let lines = text
        .lines()
        .map(|line| line.split("  #").next().unwrap_or(line).trim());
    lines
        .filter(|line| line.starts_with("cargo test --workspace"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_gate_runs_the_test_commands_of_the_documents() {
    for file in ["README.md", "docs/TESTING.md", ".ci/run"] {
        assert_eq!(test_commands(file), TEST_COMMANDS, "{file}");
    }
}

/// A test that is ignored for another reason, such as a helper or a measurement, would run in the
/// gate.
#[test]
fn ignored_tests_have_a_reason_of_the_table() {
    let Some(files) = committed() else { return };
    let table = text_of("tests/README.md").expect("a text");
    let attribute = concat!("#[ign", "ore");
    let mut count = 0;
    for (file, text) in rust_files(&files) {
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with(attribute))
        {
            let reason = line.split('"').nth(1).unwrap_or_default();
            assert!(
                table.contains(&format!("\n| `{reason}` |")),
                "{file}: {line}"
            );
            count += 1;
        }
    }
    assert!(count > 50, "only {count} tests are ignored");
}
