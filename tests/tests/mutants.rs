//! Every deliberate bug is caught. A test that nothing can break would prove nothing.
//!
//! A mutant is a patch in `crates/simulator/mutants`. Its lines `Caught-by:` are commands that must
//! fail with the mutant, and pass without it. They run in one copy of the sources that contains all
//! mutants.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tests::mutants::{Catchers, Mutant, SWITCH, SwitchedCopy, mutants, switched_sources};
use tests::{find_tool, or_skip, workspace_root};

/// A change of the simulator changes the meaning of the seeds. Then one of the following seeds must
/// catch the mutant.
const SEEDS_MAX: u64 = 300;

/// Maximum number of schedules until the explorer finds a mutant.
const SCHEDULES_MAX: &str = "20000";

/// Minimum number of mutants.
const MUTANTS_MIN: usize = 100;

/// Elections that ignore which history is newest. Zab is safe with any elected server: the server
/// finds out that it lacks data, and does not lead.
const HARMLESS: &str = "ElectsAnybody";

/// The only invariants that [`HARMLESS`] may break: the ensemble is well in the end, and soon.
const LIVENESS: [&str; 2] = ["liveness", "recovery soon after the faults end"];

#[test]
fn every_patch_fits_and_names_what_catches_it() {
    let mutants = mutants().expect("patches");
    switched_sources(&mutants).unwrap_or_else(|error| panic!("{error}"));
    assert!(mutants.len() >= MUTANTS_MIN, "{}", mutants.len());
    for mutant in &mutants {
        let is_caught = !mutant.caught_by.is_empty();
        assert_eq!(is_caught, mutant.name != HARMLESS, "{}", mutant.name);
    }
}

/// The table states whether traces for the formal model reveal each mutant.
#[test]
fn every_mutant_is_in_the_table_of_the_formal_model() {
    let table = workspace_root().join("jepsen/model/mutants.md");
    let table = fs::read_to_string(table).expect("the table");
    let rows = table.lines().filter_map(|row| row.strip_prefix("| `"));
    let mut listed: Vec<&str> = rows
        .filter_map(|row| Some(row.split_once('`')?.0))
        .collect();
    listed.sort_unstable();
    let mutants = mutants().expect("patches");
    let names: Vec<&str> = mutants.iter().map(|mutant| &*mutant.name).collect();
    assert_eq!(listed, names);
}

/// The programs of the copy.
struct Programs(Catchers);

impl Programs {
    fn built() -> &'static Self {
        static PROGRAMS: OnceLock<Programs> = OnceLock::new();
        PROGRAMS.get_or_init(|| {
            let begun = Instant::now();
            let built = SwitchedCopy::get().and_then(SwitchedCopy::catchers);
            let built = built.unwrap_or_else(|error| panic!("{error}"));
            report(&format!(
                "built the simulator with mutants in {:.0} s",
                begun.elapsed().as_secs_f64()
            ));
            Self(built)
        })
    }

    /// Runs the simulator, with a mutant or without one.
    fn simulate(&self, mutant: Option<&str>, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.0.simulator);
        command.args(["--trace", "off"]).args(arguments);
        run(&mut command, mutant)
    }

    /// Runs seeds up to the first one that fails.
    fn simulate_seeds(
        &self,
        mutant: Option<&str>,
        options: &[&str],
        from: u64,
        count: u64,
    ) -> Output {
        let (from, count) = (from.to_string(), count.to_string());
        let seeds = [options, &["--from", &from, "--seeds", &count]].concat();
        self.simulate(mutant, &seeds)
    }

    /// Checks that a command fails with the mutant. Returns how.
    fn catch(&self, mutant: &str, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["simulator", "--scenario", script] => self.catch_by_script(mutant, script),
            ["simulator", "--explore", ref bounds @ ..] => self.catch_by_explorer(mutant, bounds),
            ["simulator", ref options @ .., "--from", from] => {
                let seed = from
                    .parse::<u64>()
                    .map_err(|error| format!("{from}: {error}"))?;
                self.catch_by_seed(mutant, options, seed)
            }
            ["test", test] => self.catch_by_test(mutant, test),
            _ => Err("is not a command that this test knows".to_owned()),
        }
    }

    /// Finds the first seed that fails with the mutant and passes without it.
    fn catch_by_seed(&self, mutant: &str, options: &[&str], from: u64) -> Result<String, String> {
        let end = from + SEEDS_MAX;
        let mut next = from;
        while next < end {
            let ran = self.simulate_seeds(Some(mutant), options, next, end - next);
            if ran.status.success() {
                break;
            }
            let (seed, what) = failed_seed(&ran).ok_or_else(|| printed(&ran))?;
            if self.simulate_seeds(None, options, seed, 1).status.success() {
                let remark = if seed == from {
                    ""
                } else {
                    " (renew the patch)"
                };
                return Ok(format!("seed {seed}{remark}: {what}"));
            }
            next = seed + 1;
        }
        Err(format!("no seed from {from} to {end}"))
    }

    /// Plays all scripts of this name. Each must fail.
    fn catch_by_script(&self, mutant: &str, script: &str) -> Result<String, String> {
        let ran = self.simulate(Some(mutant), &["--scenario", script]);
        let text = printed(&ran);
        let passed = text.lines().find(|line| line.ends_with(": None"));
        match (ran.status.code(), passed) {
            (Some(1), None) => Ok(format!("script {script}")),
            (_, Some(passed)) => Err(format!("a script passes: {passed}")),
            _ => Err(text),
        }
    }

    /// Explores schedules within bounds, up to the first one that fails. The same number of
    /// schedules must pass without the mutant.
    fn catch_by_explorer(&self, mutant: &str, bounds: &[&str]) -> Result<String, String> {
        let explore = |mutant: Option<&str>, schedules: &str| {
            let options = [&["--explore", "--schedules", schedules][..], bounds].concat();
            self.simulate(mutant, &options)
        };
        let ran = explore(Some(mutant), SCHEDULES_MAX);
        let text = printed(&ran);
        let (schedules, _) = text.split_once(" schedules").ok_or_else(|| text.clone())?;
        let passed = explore(None, schedules);
        if ran.status.code() == Some(1) && passed.status.success() {
            return Ok(format!("{schedules} schedules"));
        }
        Err(text)
    }

    fn catch_by_test(&self, mutant: &str, test: &str) -> Result<String, String> {
        let mut text = String::new();
        for executable in &self.0.tests {
            let mut command = Command::new(executable);
            let ran = run(command.args(["--exact", test]), Some(mutant));
            let printed = printed(&ran);
            if !ran.status.success() && printed.contains(&format!("---- {test} stdout ----")) {
                return Ok(format!("test {test}"));
            }
            text.push_str(&printed);
        }
        Err(text)
    }
}

fn run(command: &mut Command, mutant: Option<&str>) -> Output {
    command.env_remove(SWITCH);
    if let Some(mutant) = mutant {
        command.env(SWITCH, mutant);
    }
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn printed(ran: &Output) -> String {
    let text = [&ran.stdout[..], &ran.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns each seed that violated an invariant, with this invariant.
fn failed_seeds(text: &str) -> impl Iterator<Item = (u64, &str)> {
    text.lines().filter_map(|line| {
        let (seed, what) = line.strip_prefix("seed ")?.split_once(": ")?;
        let (invariant, _) = what.split_once(": ")?;
        Some((seed.parse().ok()?, invariant))
    })
}

fn failed_seed(ran: &Output) -> Option<(u64, String)> {
    let text = printed(ran);
    let (seed, invariant) = failed_seeds(&text).next()?;
    Some((seed, invariant.to_owned()))
}

/// Prints a line, also if the test passes: the seeds are part of the output of the gate.
fn report(line: &str) {
    writeln!(std::io::stderr(), "{line}").ok();
}

/// `jepsen/model/check rejections` uses this simulator.
#[test]
#[ignore = "simulates for minutes"]
fn the_simulator_with_all_mutants_is_built() {
    assert!(Programs::built().0.simulator.exists());
}

#[test]
#[ignore = "simulates for minutes"]
fn every_mutant_is_caught() {
    let mutants = mutants().expect("patches");
    let programs = Programs::built();
    let commands = |mutant: &Mutant| {
        let name = mutant.name.clone();
        let commands = mutant.caught_by.clone().into_iter();
        commands.map(move |command| (name.clone(), command))
    };
    let all: Vec<(String, String)> = mutants.iter().flat_map(commands).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut missed = Vec::new();
        while let Some((mutant, command)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            match programs.catch(mutant, command) {
                Ok(how) => report(&format!("{mutant}: {how}")),
                Err(why) => missed.push(format!("{mutant}: {command}: {why}")),
            }
        }
        missed
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let missed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|missed| missed.expect("a worker"))
            .collect()
    });
    assert!(missed.is_empty(), "not caught:\n{}", missed.join("\n"));
}

#[test]
#[ignore = "simulates for minutes"]
fn with_arbitrary_elections_only_liveness_is_violated() {
    let programs = Programs::built();
    let seeds = ["--from", "5000", "--seeds", "40", "--keep-going"];
    let ran = programs.simulate(Some(HARMLESS), &seeds);
    let text = printed(&ran);
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{text}");
    let broken = failed_seeds(&text).find(|(_, invariant)| !LIVENESS.contains(invariant));
    assert_eq!(broken, None, "{text}");
    let total = |name: &str| -> Option<u64> {
        let (_, totals) = text.rsplit_once("Total {")?;
        let (_, after) = totals.split_once(&format!(" {name}: "))?;
        after.split_once(',')?.0.parse().ok()
    };
    let (committed, epochs) = (
        total("committed").unwrap_or(0),
        total("epochs").unwrap_or(0),
    );
    report(&format!(
        "{HARMLESS}: {committed} committed in {epochs} epochs"
    ));
    assert!(committed > 1000 && epochs > 60, "{text}");
}

#[test]
fn seeds_and_invariants_are_read_from_the_output_of_the_simulator() {
    let text =
        "40 seeds from 7\n\nseed 9: one leader: 1 and 2: both\n  cargo run\n\nseed x: y: z\n";
    let found: Vec<(u64, &str)> = failed_seeds(text).collect();
    assert_eq!(found, [(9, "one leader")]);
}

/// The script that writes a patch again takes only unstaged changes, and removes them.
#[test]
fn a_renewed_patch_contains_the_unstaged_changes() {
    let git = or_skip("a renewed patch", find_tool("git"));
    let Some(git) = git else { return };
    let root = tempfile::tempdir().expect("a directory");
    let folder = root.path().join("crates/simulator/mutants");
    let source = root.path().join("crates/x/src/lib.rs");
    for dir in [&folder, &source.with_file_name("")] {
        fs::create_dir_all(dir).expect("a directory");
    }
    let script = workspace_root().join("crates/simulator/mutants/renew");
    fs::copy(script, folder.join("renew")).expect("copy the script");
    fs::write(folder.join("One.patch"), "About it.\n\nCaught-by: x\n").expect("write");
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        let output = command.current_dir(root.path()).args(arguments).output();
        output.expect("run a program")
    };
    let shipped = "fn one() {}\n\nfn staged() {}\n";
    fs::write(&source, shipped).expect("write");
    assert!(run(&git, &["init", "--quiet"]).status.success());
    assert!(run(&git, &["add", "--all"]).status.success());

    let renew = folder.join("renew");
    let refused = run(&renew, &["One"]);
    assert!(printed(&refused).contains("no unstaged change"));
    let switched = format!("{shipped}fn two() -> bool {{ crate::mutant::is(\"One\") }}\n");
    for _ in 0..2 {
        fs::write(&source, &switched).expect("write");
        let renewed = run(&renew, &["One"]);
        assert!(renewed.status.success(), "{}", printed(&renewed));
        assert_eq!(fs::read_to_string(&source).expect("read"), shipped);
        let patch = fs::read_to_string(folder.join("One.patch")).expect("read");
        let header = "About it.\n\nCaught-by: x\n\ndiff --git a/crates/x/src/lib.rs";
        assert!(patch.starts_with(header), "{patch}");
        let added = "@@ -2,2 +2,3 @@ fn one() {}\n \n fn staged() {}\n+fn two()";
        assert!(patch.contains(added), "{patch}");
    }
}
