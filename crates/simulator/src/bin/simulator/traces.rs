//! The option `--model`: traces for the formal model.
//!
//! The directory N contains the module TraceData with piece N of each trace that has so many pieces.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use simulator::scenarios::{TracedScript, traced};
use simulator::{ModelTrace, TraceLength, TracePiece, TracedServers, record, record_servers};

/// Contents of the traces.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of --model")]
pub(crate) struct TraceArguments {
    /// Minimum number of events in a piece. A piece ends where an epoch is established.
    #[arg(long, default_value_t = 1000, requires = "model")]
    events: usize,
    /// Maximum number of pieces of a seed.
    #[arg(long, default_value_t = 1, requires = "model")]
    pieces: usize,
    /// Number of servers.
    #[arg(long, default_value_t = 3, requires = "model")]
    servers: usize,
    /// Lets an operator remove and add voters.
    #[arg(long, requires = "model")]
    reconfigure: bool,
    /// Also writes traces of all scripts with this number of servers.
    #[arg(long, requires = "model")]
    scripts: bool,
    /// Writes traces of real servers instead, one for each of these files (`zoarium.trace.model`).
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "model")]
    server_traces: Vec<PathBuf>,
}

impl TraceArguments {
    /// Writes the traces of seeds, or of the scripts with this name.
    pub(crate) fn write(&self, dir: &Path, seeds: Range<u64>, script: Option<&str>) -> ExitCode {
        let from = seeds.start;
        let traces = match script {
            _ if !self.server_traces.is_empty() => self.of_servers(),
            None => Ok(self.of_seeds(seeds)),
            Some(script) => self.of_script(script),
        };
        let of_script = traced().find(|traced| Some(&*traced.name) == script);
        let voters = of_script.map_or(self.servers, |traced| traced.voters());
        let traces = match traces {
            Ok(traces) => traces,
            Err(text) => {
                eprintln!("{text}");
                return ExitCode::from(2);
            }
        };
        for trace in &traces {
            if let Some(violation) = &trace.violation {
                eprintln!("{}: {}", violation.invariant, violation.text);
            }
        }
        let most = traces.iter().map(|trace| trace.pieces.len()).max();
        for number in 1..=most.unwrap_or(0) {
            let pieces: Vec<_> = traces
                .iter()
                .enumerate()
                .filter_map(|(at, trace)| Some((at, trace.pieces.get(number - 1)?)))
                .collect();
            let dir = dir.join(number.to_string());
            if let Err(error) = self.write_pieces(&dir, voters, &pieces) {
                eprintln!("{}: {error}", dir.display());
                return ExitCode::FAILURE;
            }
        }
        let pieces = || traces.iter().flat_map(|trace| &trace.pieces);
        let events: usize = pieces().map(|piece| piece.events).sum();
        let (traces, pieces) = (traces.len(), pieces().count());
        println!("{traces} traces from seed {from}, {pieces} pieces, {events} events");
        ExitCode::SUCCESS
    }

    fn of_servers(&self) -> Result<Vec<ModelTrace>, String> {
        let record = |file: &PathBuf| {
            let text = fs::read_to_string(file).map_err(|error| error.to_string());
            let recorded = text.and_then(|text| record_servers(&text, self.servers, self.events));
            recorded.map_err(|text| format!("{}: {text}", file.display()))
        };
        self.server_traces.iter().map(record).collect()
    }

    fn of_script(&self, script: &str) -> Result<Vec<ModelTrace>, String> {
        let traces: Vec<_> = traced()
            .filter(|traced| traced.name == script && traced.servers() == self.servers)
            .map(|traced| traced.record())
            .collect();
        if traces.is_empty() {
            let text = format!("no script with {} servers has this name", self.servers);
            return Err(text);
        }
        Ok(traces)
    }

    fn of_seeds(&self, seeds: Range<u64>) -> Vec<ModelTrace> {
        let length = TraceLength {
            events: self.events,
            pieces: self.pieces,
        };
        let servers = TracedServers {
            count: self.servers,
            reconfigure: self.reconfigure,
        };
        let of_seeds = seeds.map(|seed| record(seed, servers, length));
        // All traces in a file have the same first list.
        let fits = |script: &TracedScript| [script.servers(), script.voters()] == [self.servers; 2];
        let scripts = traced().filter(|script| self.scripts && fits(script));
        of_seeds
            .chain(scripts.map(|script| script.record()))
            .collect()
    }

    /// Writes pieces, each with the number of its trace. The first list contains this number of
    /// voters.
    fn write_pieces(
        &self,
        dir: &Path,
        voters: usize,
        pieces: &[(usize, &TracePiece)],
    ) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let numbers: Vec<_> = pieces.iter().map(|(at, _)| (at + 1).to_string()).collect();
        let texts: Vec<_> = pieces.iter().map(|(_, piece)| &*piece.text).collect();
        let text = format!(
            "---- MODULE TraceData ----\nEXTENDS Integers\nSids == 1..{}\nVoters == 1..{voters}\n\
             Numbers == <<{}>>\nTraces == <<\n{}\n>>\n====\n",
            self.servers,
            numbers.join(", "),
            texts.join(",\n")
        );
        fs::write(dir.join("TraceData.tla"), text)
    }
}
