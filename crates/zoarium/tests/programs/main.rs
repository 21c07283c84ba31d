//! Programs of the docs. `tests/outside` contains them, because `.ci/packages` also builds them
//! outside of this workspace, where the crates have their own names.

extern crate client as zoarium_client;
extern crate recipes as zoarium_recipes;

#[path = "../../../../tests/outside/tests/servers/mod.rs"]
mod servers;

use std::process::Command;

type Failure = Box<dyn std::error::Error>;

macro_rules! programs {
    ($($name:ident)*) => {
        $(#[allow(clippy::unused_async, reason = "examples stand for real work")]
        mod $name {
            include!(concat!("../../../../tests/outside/programs/", stringify!($name), ".rs"));

            pub(super) fn run() -> Result<(), super::Failure> {
                main()
            }
        })*

        const PROGRAMS: &[(&str, fn() -> Result<(), Failure>)] =
            &[$((stringify!($name), $name::run)),*];
    };
}

programs!(acl connect ensemble fenced lock secured server transactions watches);

/// Name of the program that this process runs.
const PROGRAM: &str = "ZOARIUM_PROGRAM";

/// Each program runs in a process of its own, which executes this test again.
#[tokio::test]
async fn each_program_of_the_docs_runs() {
    if let Ok(wanted) = std::env::var(PROGRAM) {
        let program = PROGRAMS.iter().find(|(name, _)| *name == wanted);
        let (_, run) = program.expect("a program of this name");
        let ended = tokio::task::spawn_blocking(move || run().map_err(|error| error.to_string()));
        ended
            .await
            .expect("no panic")
            .expect("a program without an error");
        return;
    }
    let this = std::env::current_exe().expect("this test");
    servers::run_each(|name| {
        let mut command = Command::new(&this);
        command.args(["--exact", "each_program_of_the_docs_runs", "--nocapture"]);
        command.env(PROGRAM, name);
        command
    })
    .await;
}
