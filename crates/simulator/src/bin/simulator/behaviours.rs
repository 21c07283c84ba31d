//! The option `--behaviours`: the servers follow behaviours of the formal model.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use simulator::{Trace, follow};

/// Makes servers follow the behaviours in a folder, and prints the results. `trace` is the form of
/// the steps.
pub(crate) fn run(folder: &Path, trace: Trace) -> ExitCode {
    let files = match fs::read_dir(folder) {
        Ok(files) => files.filter_map(|file| Some(file.ok()?.path())),
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            return ExitCode::from(2);
        }
    };
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    let (mut steps, mut states, mut longest) = (0, 0, 0);
    let mut actions = BTreeMap::<String, usize>::new();
    let mut differences = 0;
    for file in &files {
        let text = fs::read_to_string(file).unwrap_or_default();
        let followed = follow(&text, trace);
        steps += followed.steps;
        states += followed.states;
        longest = longest.max(followed.steps);
        for (action, count) in followed.actions {
            *actions.entry(action).or_default() += count;
        }
        if let Some(difference) = followed.difference {
            differences += 1;
            println!("{}: {difference}", file.display());
        }
    }
    for (action, count) in &actions {
        println!("{count:8} {action}");
    }
    let behaviours = files.len();
    println!(
        "{behaviours} behaviours, {steps} steps, longest {longest}, {states} states compared, {differences} behaviours differ"
    );
    ExitCode::from(u8::from(differences > 0 || behaviours == 0))
}
