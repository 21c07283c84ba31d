//! Unmodified tests of kazoo and Curator, with their own test harnesses and `zoarium test-server`.

use std::fs;
use std::process::Command;
use std::time::Duration;

use tests::{
    apache_class_path, curator_tests, java_tool, junit_class_path, or_skip, python_with_kazoo, run,
    source_dir,
};

use crate::fixtures::prints;

const LIMIT: Duration = Duration::from_secs(120);

/// Tests of kazoo. The last one stops a member and starts it again.
const OF_KAZOO: &[&str] = &[
    "kazoo.tests.test_counter",
    "kazoo.tests.test_party",
    "kazoo.tests.test_client::TestClient::test_update_host_list",
];

#[test]
#[ignore = "runs other people's programs"]
fn tests_of_kazoo_pass_in_kazoos_harness() {
    let Some(python) = or_skip("kazoo", python_with_kazoo()) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let plugin = "harness.py";
    let source = source_dir("python").join(plugin);
    fs::copy(source, directory.path().join(plugin)).expect("copy");
    let mut test = Command::new(python);
    test.current_dir(&directory)
        .env("PYTHONPATH", directory.path())
        .args(["-m", "pytest", "-p", "no:cacheprovider", "-p", "harness"])
        .arg("--pyargs")
        .args(OF_KAZOO);
    prints("10 passed", &mut test);
}

/// Tests of Curator. The last one restarts the server ten times.
const OF_CURATOR: &[&str] = &[
    "shared.TestSharedCount#testSimpleVersioned",
    "shared.TestSharedCount#testDisconnectReconnectWithMultipleClients",
];

#[test]
#[ignore = "runs other people's programs"]
fn tests_of_curator_pass_in_curators_harness() {
    let jars = apache_class_path().and_then(|apache| {
        Ok(format!(
            "{}:{apache}:{}",
            curator_tests()?,
            junit_class_path()?
        ))
    });
    let tools = jars.and_then(|jars| Ok((jars, java_tool("javac")?, java_tool("java")?)));
    let Some((jars, compiler, java)) = or_skip("tests of Curator", tools) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path();
    let mut compile = Command::new(compiler);
    compile
        .args(["-nowarn", "-d"])
        .arg(place)
        .arg(source_dir("java").join("TestingServer.java"));
    run(&mut compile, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let logging = source_dir("java").join("logback.xml");
    let mut test = Command::new(java);
    // The first class of a name counts.
    test.current_dir(place)
        .arg(format!("-Dlogback.configurationFile={}", logging.display()))
        .args(["-cp", &format!("{}:{jars}", place.display())])
        .args(["org.junit.platform.console.ConsoleLauncher", "execute"]);
    for method in OF_CURATOR {
        let method = format!("org.apache.curator.framework.recipes.{method}");
        test.args(["--select-method", &method]);
    }
    prints("2 tests successful", &mut test);
}
