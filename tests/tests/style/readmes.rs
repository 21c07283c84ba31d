//! READMEs of crates: each has an example, and code that is compiled contains this example.

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
