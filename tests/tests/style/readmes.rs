//! READMEs of crates: each has an example. Compiled code contains the examples of READMEs and pages.

use super::{committed, rust_files, text_of};

/// Returns the lines of code without indentation, empty lines, marks of doc comments, and lines
/// that a doc test hides.
fn code_lines(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.trim();
        let comment = line.strip_prefix("//!").or(line.strip_prefix("///"));
        comment.unwrap_or(line).trim()
    });
    let lines = lines.filter(|line| !line.is_empty() && *line != "#" && !line.starts_with("# "));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn each_crate_has_a_readme_whose_example_is_compiled() {
    let Some(files) = committed() else { return };
    let code: Vec<String> = rust_files(&files)
        .map(|(_, text)| code_lines(&text))
        .collect();
    let folders = files.iter().filter_map(|file| {
        let folder = file.strip_suffix("/Cargo.toml")?;
        folder.starts_with("crates/").then_some(folder)
    });
    let mut faults = Vec::new();
    for folder in folders {
        let readme = text_of(&format!("{folder}/README.md")).unwrap_or_default();
        let mut parts = readme.split("```rust\n").skip(1).peekable();
        if !readme.contains("\n    ") && !readme.contains("```sh\n") && parts.peek().is_none() {
            faults.push(format!("{folder}: no example"));
        }
        for part in parts {
            let example = code_lines(part.split("```").next().unwrap_or_default());
            if !code.iter().any(|text| text.contains(&example)) {
                faults.push(format!("{folder}: no code contains {example:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Returns whether one of these files contains each paragraph of an example.
fn is_compiled(example: &str, code: &[String]) -> bool {
    let paragraphs: Vec<String> = example.split("\n\n").map(code_lines).collect();
    let contains = |text: &String| paragraphs.iter().all(|part| text.contains(part));
    code.iter().any(contains)
}

/// An example of a page has `use` lines, and may omit other parts of its program.
#[test]
fn the_examples_of_pages_are_compiled() {
    let Some(files) = committed() else { return };
    let code: Vec<String> = rust_files(&files)
        .map(|(_, text)| code_lines(&text).replace("zoarium_simulation::", "zoarium::testing::"))
        .collect();
    let pages = files
        .iter()
        .filter(|file| file.starts_with("docs/") && file.ends_with(".md"));
    let (mut faults, mut count) = (Vec::new(), 0);
    for page in pages {
        let text = text_of(page).unwrap_or_default();
        for part in text.split("```rust\n").skip(1) {
            let example = part.split("```").next().unwrap_or_default();
            count += 1;
            if !example.starts_with("use ") || !is_compiled(example, &code) {
                faults.push(format!("{page}: {example}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(count > 4, "only {count} examples");
}
