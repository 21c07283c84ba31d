//! Traces for the formal model in `jepsen/model`, which TLC validates.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use simulator::record;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jepsen/model");

/// Returns the actions of a trace.
fn actions(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

#[test]
fn each_recorded_action_is_a_step_of_the_model() {
    let model = std::fs::read_to_string(Path::new(MODEL).join("Trace.tla")).expect("model");
    let mut seen = BTreeSet::new();
    for seed in 1..=16 {
        let trace = record(seed, 3, 600);
        assert_eq!(trace.violation, None, "seed {seed}");
        assert_eq!(actions(&trace.text).count(), trace.events, "seed {seed}");
        seen.extend(actions(&trace.text).map(str::to_owned));
    }
    for action in &seen {
        let step = format!("Action = \"{action}\"");
        assert!(model.contains(&step), "{action} is not a step of the model");
    }
    // A few seeds contain nearly every action.
    assert!(seen.len() >= 30, "{seen:?}");
}

#[test]
#[ignore = "runs other people's programs"]
fn tlc_accepts_the_traces_of_some_seeds() {
    let has_java = Command::new("java")
        .arg("-version")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_java {
        let forbidden = std::env::var_os("ZOARIUM_FORBID_SKIP").is_some_and(|value| value == "1");
        assert!(!forbidden, "java is not on PATH");
        eprintln!("SKIPPED traces for the formal model: java is not on PATH");
        return;
    }
    let checked = Command::new(Path::new(MODEL).join("check"))
        .arg("traces")
        .env("ZOARIUM_SIMULATOR", env!("CARGO_BIN_EXE_simulator"))
        .output()
        .expect("run the check");
    assert!(checked.status.success(), "{checked:?}");
}
