//! The command `zoarium quickstart`, which starts an ensemble on this machine for a first look.
//!
//! Each member is a process of this program with its own `zoo.cfg`, so a user can kill a member and
//! start it again, as on real machines.

mod layout;
mod members;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

use self::layout::Layout;
use self::members::Members;

/// Starts an ensemble on this machine for a trial
///
/// The command writes a zoo.cfg with free ports for each member, starts each member as a separate process, and
/// prints their addresses. Ctrl-C stops all members and removes their files, unless --dir names the directory.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium quickstart --members 3 --dir try-zoarium")]
pub(crate) struct QuickstartArgs {
    /// Number of voting members
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    members: u32,
    /// Directory for the members' files; it must be empty or new, and is not removed
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Time between two checks of the members' processes.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the ensemble until the user stops it or its last member has ended.
///
/// Exit codes: 0 if the user stopped it, 1 if it cannot be started or if every member has ended.
pub(crate) fn run(args: &QuickstartArgs) -> ExitCode {
    match start_and_wait(args) {
        Ok(code) => code,
        Err(error) => {
            terminal::complain!("zoarium quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start_and_wait(args: &QuickstartArgs) -> Result<ExitCode, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start a runtime: {error}"))?;
    runtime.block_on(async {
        let listen =
            |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
        let mut interrupted = listen(SignalKind::interrupt())?;
        let mut terminated = listen(SignalKind::terminate())?;
        let layout = Layout::create(args.members, args.dir.as_deref())?;
        let mut members = Members::start(&layout)?;
        let mut checks = interval(CHECK_INTERVAL);
        let mut is_announced = false;
        loop {
            tokio::select! {
                _ = interrupted.recv() => break,
                _ = terminated.recv() => break,
                _ = checks.tick() => {}
            }
            members.report_ended();
            if members.is_over() {
                return if is_announced {
                    Ok(ExitCode::FAILURE)
                } else {
                    Err(members.why_not_started(&layout))
                };
            }
            if !is_announced && let Some(modes) = members.modes() {
                is_announced = true;
                terminal::say!("{}", members.announcement(&layout, &modes).trim_end());
            }
        }
        members.stop();
        terminal::say!("All members have stopped. {}", layout.files_after_stop());
        Ok(ExitCode::SUCCESS)
    })
}
