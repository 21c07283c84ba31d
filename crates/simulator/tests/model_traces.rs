//! The formal model in `jepsen/model` and the code, in both directions: TLC validates traces of the
//! simulator, and simulated servers follow behaviours that TLC draws.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use simulator::scenarios::traced;
use simulator::{TraceLength, TracedServers, record};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jepsen/model");

/// Returns the actions of a trace.
fn actions(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

#[test]
fn each_recorded_action_is_a_step_of_the_model() {
    let model = std::fs::read_to_string(Path::new(MODEL).join("Trace.tla")).expect("model");
    let mut seen = BTreeSet::new();
    let length = TraceLength {
        events: 300,
        pieces: 2,
    };
    let seeds = (1..=6).map(|seed| (seed, 3, false));
    let of_seeds = seeds.chain((1..=12).map(|seed| (seed, 4, true)));
    let of_seeds = of_seeds.map(|(seed, count, reconfigure)| {
        let servers = TracedServers { count, reconfigure };
        let name = format!("seed {seed} of {count} servers");
        (name, record(seed, servers, length))
    });
    let of_scripts = traced().map(|script| (script.name.clone(), script.record()));
    for (name, trace) in of_seeds.chain(of_scripts) {
        assert_eq!(trace.violation, None, "{name}");
        for (at, piece) in trace.pieces.iter().enumerate() {
            let recorded: Vec<&str> = actions(&piece.text).collect();
            assert_eq!(recorded.len(), piece.events, "{name}");
            let is_last = at + 1 == trace.pieces.len();
            assert!(
                is_last || recorded.last() == Some(&"EstablishEpoch"),
                "{name}"
            );
            seen.extend(recorded.into_iter().map(str::to_owned));
        }
    }
    for action in &seen {
        let step = format!("Action = \"{action}\"");
        assert!(model.contains(&step), "{action} is not a step of the model");
    }
    for line in model.lines().filter(|line| line.contains("Action = \"")) {
        let action = actions(line).next().expect("an action");
        let is_rare = ["Logged", "Refused", "CannotStart", "StartSnapshotAside"].contains(&action);
        assert!(seen.contains(action) || is_rare, "{action}");
    }
}

#[test]
fn each_action_of_the_model_has_one_place_in_the_code() {
    let checked = Command::new(Path::new(MODEL).join("check"))
        .arg("names")
        .output()
        .expect("run the check");
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
#[ignore = "runs other people's programs"]
fn the_model_has_the_steps_of_the_code_and_the_code_those_of_the_model() {
    let has_java = Command::new("java")
        .arg("-version")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_java {
        let forbidden = std::env::var_os("ZOARIUM_FORBID_SKIP").is_some_and(|value| value == "1");
        assert!(!forbidden, "java is not on PATH");
        eprintln!("SKIPPED the formal model: java is not on PATH");
        return;
    }
    let checked = Command::new(Path::new(MODEL).join("check"))
        .args(["traces", "behaviours"])
        .env("ZOARIUM_SIMULATOR", env!("CARGO_BIN_EXE_simulator"))
        .output()
        .expect("run the check");
    assert!(checked.status.success(), "{checked:?}");
}
