//! The option `--guided`: a search that mutates storms.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use simulator::{Search, Storm, repeat_command, run_covered};

/// Length of a search, and the file of its storms.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of --guided")]
pub(crate) struct GuidedArguments {
    /// Keeps storms that reach new situations, and mutates them. Stops at the first violation.
    #[arg(long, conflicts_with_all = ["seed", "recipes", "model", "scenario", "explore"])]
    pub(crate) guided: bool,
    /// Number of storms after which the search stops.
    #[arg(long, default_value_t = 1000, requires = "guided")]
    storms: u64,
    /// File with storms, one in each line. They run first, and the kept storms replace them.
    #[arg(long, requires = "guided")]
    corpus: Option<PathBuf>,
    /// Prints all reached pairs, each with the number of storms that reached it and of mutations
    /// that began with it.
    #[arg(long, requires = "guided")]
    pairs: bool,
}

impl GuidedArguments {
    /// Searches up to the first violation. `from` is the first new seed, and determines the search.
    pub(crate) fn run(&self, from: u64) -> ExitCode {
        println!("{} storms from {from}", self.storms);
        let saved = match self.corpus.as_deref().map(read) {
            None => Vec::new(),
            Some(Ok(saved)) => saved,
            Some(Err(error)) => {
                eprintln!("cannot read the corpus: {error}");
                return ExitCode::from(2);
            }
        };
        let begun = Instant::now();
        let mut search = Search::new(from);
        let (mut ran, mut has_failed) = (0, false);
        let mut saved = saved.into_iter();
        while !has_failed && (ran < self.storms || !saved.as_slice().is_empty()) {
            let storm = saved.next().unwrap_or_else(|| search.next_storm());
            let (report, reached) = run_covered(&storm);
            ran += 1;
            if let Some(violation) = &report.violation {
                println!(
                    "\nseed {storm}: {}: {}",
                    violation.invariant, violation.text
                );
                println!("  {}", repeat_command(&storm));
                has_failed = true;
            }
            search.add(storm, &reached);
            if ran % 100 == 0 {
                print!("\r{ran} storms, {} pairs ", search.pairs().count());
                // A closed standard output is not a reason to stop.
                drop(io::stdout().flush());
            }
        }
        let (pairs, corpus) = (search.pairs().count(), search.corpus().len());
        let seconds = begun.elapsed().as_secs_f64();
        println!("\r{ran} storms, {pairs} pairs, {corpus} storms in the corpus, {seconds:.0} s");
        if self.pairs {
            for (pair, times) in search.pairs() {
                println!("{times} {pair:?}");
            }
        }
        if let Some(file) = &self.corpus
            && let Err(error) = write(file, &search)
        {
            eprintln!("{}: {error}", file.display());
            return ExitCode::from(2);
        }
        ExitCode::from(u8::from(has_failed))
    }
}

/// Returns the storms of a file, or none if the file does not exist.
fn read(file: &Path) -> Result<Vec<Storm>, String> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.to_string()),
    };
    let storms = text.lines().map(|line| {
        let storm = line.parse::<Storm>();
        storm.map_err(|error| format!("{line}: {error}"))
    });
    storms.collect()
}

fn write(file: &Path, search: &Search) -> io::Result<()> {
    let mut text = String::new();
    for storm in search.corpus() {
        text.push_str(&storm.to_string());
        text.push('\n');
    }
    fs::write(file, text)
}
