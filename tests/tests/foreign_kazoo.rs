//! The common scenario with kazoo, the client of Python programs.

use std::path::PathBuf;
use std::process::Command;

use tests::scenario::Scenario;
use tests::{Flavour, Missing, Server, fetch, find_tool, or_skip, prepare, source_dir};

/// A Python of its own that has kazoo.
fn python() -> Result<PathBuf, Missing> {
    let python = find_tool("python3")?;
    let requirements = source_dir("python").join("requirements.txt");
    let dir = prepare("kazoo", std::slice::from_ref(&requirements), |dir| {
        fetch(
            Command::new(&python)
                .args(["-m", "venv", "--clear"])
                .arg(dir),
        )?;
        let mut install = Command::new(dir.join("bin/python"));
        install
            .args(["-m", "pip", "install", "--quiet", "-r"])
            .arg(&requirements);
        fetch(&mut install)
    })?;
    Ok(dir.join("bin/python"))
}

#[test]
fn kazoo_notices_no_difference() {
    let Some(python) = or_skip("kazoo", python()) else {
        return;
    };
    let Some(mut server) = or_skip("kazoo", Server::start(Flavour::under_test())) else {
        return;
    };
    let program = vec![python, source_dir("python").join("scenario.py")];
    Scenario {
        program,
        further_steps: &["recipes"],
    }
    .drive(&mut server);
}
