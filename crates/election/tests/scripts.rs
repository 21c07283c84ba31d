//! Elections as text: commands for a few servers, and their output line by line.
//!
//! A file in `tests/scripts` is a list of blocks: commands, `----`, and the expected output up to
//! the next empty line. `ZOARIUM_BLESS=1` writes the current output into the files.

mod common;

use std::path::Path;
use std::{env, fs};

use common::script::Script;

/// Runs every block of a file. The result has the format of the file.
fn run(text: &str) -> String {
    let mut script = Script::default();
    let mut done = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        done.push_str(line);
        done.push('\n');
        if line == "----" {
            for output in script.take_output() {
                done.push_str(&output);
                done.push('\n');
            }
            done.push('\n');
            // The lines that follow are the expected output.
            let _skipped = lines.by_ref().take_while(|line| !line.is_empty()).count();
        } else if !line.is_empty() && !line.starts_with('#') {
            script.run(line);
        }
    }
    assert!(
        script.take_output().is_empty(),
        "commands behind the last ----"
    );
    let end = done.trim_end().len();
    done.truncate(end);
    done.push('\n');
    done
}

#[test]
fn scripts_run_as_written() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let bless = env::var_os("ZOARIUM_BLESS").is_some();
    let mut names: Vec<_> = fs::read_dir(dir)
        .expect("the folder of scripts")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    assert!(names.len() >= 8, "only {} scripts", names.len());
    let mut wrong = Vec::new();
    for path in names {
        let expected = fs::read_to_string(&path).expect("a script");
        let outcome = run(&expected);
        if outcome == expected {
            continue;
        }
        if bless {
            fs::write(&path, outcome).expect("the script can be written");
        } else {
            let differ = |(ours, theirs): &(&str, &str)| ours != theirs;
            let first = outcome.lines().zip(expected.lines()).find(differ);
            wrong.push(format!("{}: {first:?}", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{wrong:#?}\nZOARIUM_BLESS=1 rewrites them"
    );
}
