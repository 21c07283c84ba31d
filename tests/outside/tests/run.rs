//! Runs the programs, and uses the parts of the library without its features.

mod servers;

use std::process::Command;

use zoarium::testing::TestServer;

#[tokio::test]
async fn each_program_runs() {
    let this = std::env::current_exe().expect("this test");
    let target = this.ancestors().nth(2).expect("target/debug");
    servers::run_each(|name| Command::new(target.join(name))).await;
}

#[tokio::test]
async fn a_setting_of_a_missing_feature_is_refused() {
    let missing = [
        ("history.enabled", "true", "history"),
        ("zoarium.traces.endpoint", "http://127.0.0.1:1/", "traces"),
    ];
    for (key, value, feature) in missing {
        let started = TestServer::start_with(|builder| builder.setting(key, value)).await;
        let refusal = started.expect_err(key).to_string();
        let expected = format!("{key} needs the feature `{feature}`");
        assert!(refusal.starts_with(&expected), "{refusal}");
    }
}
