//! The steps of real servers, which TLC compares with the formal model.

use std::process::{Command, Stdio};

use tests::{find_tool, or_skip, workspace_root, zoarium_binary};

#[test]
#[ignore = "runs other people's programs"]
fn each_step_of_real_servers_is_a_step_of_the_model() {
    if or_skip("the formal model", find_tool("java")).is_none() {
        return;
    }
    // Otherwise it would be built during the run.
    let simulator = zoarium_binary().with_file_name("simulator");
    let dir = tempfile::tempdir().expect("make a directory");
    let run = "run --workload register --nemesis kill --members zzz --seconds 6 --clients 2 \
               --pace 100 --setting snapCount=100 --model-trace --out run";
    let ran = Command::new(env!("CARGO_BIN_EXE_jepsen"))
        .args(run.split_whitespace())
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .expect("start jepsen");
    assert!(ran.status.success(), "{ran:?}");
    let mut check = Command::new(workspace_root().join("jepsen/model/check"));
    check
        .arg("server-traces")
        .arg(dir.path().join("run/model.trace"));
    // A build of the whole workspace contains it. Otherwise the command builds it.
    if simulator.exists() {
        check.env("ZOARIUM_SIMULATOR", simulator);
    }
    let checked = check.output().expect("run the check");
    assert!(checked.status.success(), "{checked:?}");
}
