//! The option `--explore`: all schedules within bounds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use simulator::{Bounds, Explored, Explorer, Trace, replay};

/// Bounds, limit and progress file of the explorer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of --explore")]
pub(crate) struct ExploreArguments {
    /// Maximum number of transactions in a schedule.
    #[arg(long, default_value_t = 2, requires = "explore")]
    transactions: u8,
    /// Maximum number of kills and power failures.
    #[arg(long, default_value_t = 1, requires = "explore")]
    crashes: u8,
    /// Maximum number of roles that end because a server waits in vain.
    #[arg(long, default_value_t = 0, requires = "explore")]
    timeouts: u8,
    /// Maximum number of elections after the first one.
    #[arg(long, default_value_t = 1, requires = "explore")]
    elections: u8,
    /// Maximum number of snapshots that operators request.
    #[arg(long, default_value_t = 1, requires = "explore")]
    snapshots: u8,
    /// Number of schedules after which the search stops.
    #[arg(long, default_value_t = u64::MAX, requires = "explore")]
    schedules: u64,
    /// File from which the search continues, and to which it is saved.
    #[arg(long, requires = "explore")]
    progress: Option<PathBuf>,
}

impl ExploreArguments {
    fn bounds(&self) -> Bounds {
        Bounds {
            transactions: self.transactions,
            crashes: self.crashes,
            timeouts: self.timeouts,
            elections: self.elections,
            snapshots: self.snapshots,
        }
    }

    /// Returns the search that is saved in `file` if it has the bounds of these arguments.
    /// Otherwise returns a new search.
    fn search(&self, file: Option<&Path>) -> Explorer {
        let saved = file.and_then(|file| std::fs::read_to_string(file).ok());
        let saved = saved.and_then(|text| Explorer::of_text(&text));
        let saved = saved.filter(|saved| saved.bounds() == self.bounds());
        saved.unwrap_or_else(|| Explorer::new(self.bounds()))
    }

    /// Explores, and prints the results. If a schedule violates an invariant, prints the steps of
    /// the schedule in the form that `trace` specifies.
    pub(crate) fn run(&self, trace: Trace) -> ExitCode {
        let begun = Instant::now();
        let mut search = self.search(self.progress.as_deref());
        search.explore(self.schedules);
        let explored = search.explored();
        if let Some((_, schedule)) = &explored.violation
            && trace != Trace::Off
        {
            replay(self.bounds(), schedule, trace);
        }
        print(explored, begun.elapsed().as_secs_f64());
        if let Some(file) = &self.progress
            && let Err(error) = std::fs::write(file, search.to_text())
        {
            eprintln!("{}: {error}", file.display());
            return ExitCode::FAILURE;
        }
        ExitCode::from(u8::from(explored.violation.is_some()))
    }
}

fn print(explored: &Explored, seconds: f64) {
    let Explored {
        schedules,
        states,
        choices,
        depth,
        share,
        violation,
    } = explored;
    println!(
        "{schedules} schedules, {choices} choices, {states} states, depth {depth}, {:.2} % complete, {seconds:.0} s",
        share * 100.0
    );
    if let Some((violation, schedule)) = violation {
        println!("{}: {}", violation.invariant, violation.text);
        for (choice, number) in schedule.iter().zip(1..) {
            println!("{number:3}. {choice}");
        }
    }
}
