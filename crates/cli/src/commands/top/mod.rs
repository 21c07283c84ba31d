//! Command `top`, which shows a live view of the ensemble and its busiest clients.
//!
//! The members come from the member list. Each member receives the word `srvr`, which Apache
//! ZooKeeper also answers. Clients and slow requests come from the admin ports of Zoarium members.

mod sample;
mod table;

use std::pin::pin;
use std::time::{Duration, Instant};

use client::tls::Connector;

use super::{Command, ensemble};
use crate::failure::Failure;
use crate::parse::options::Arguments;
use crate::shell::Shell;
pub(crate) use sample::fields;
use sample::{AdminPorts, Sample, SampledMembers};

/// Default interval between two samples.
const INTERVAL: Duration = Duration::from_secs(2);
/// Maximum interval between the first two samples, so that the first rates are soon available.
const FIRST: Duration = Duration::from_secs(1);

/// Samples repeatedly until the requested number is reached, the user interrupts the command, or
/// the output is closed.
pub(super) async fn top(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let rounds: Option<u64> = given
        .value("n")
        .map(str::parse)
        .transpose()
        .map_err(|_| command.usage_error())?;
    let seconds = given.value("d").and_then(|text| text.parse::<f64>().ok());
    let interval = seconds.filter(|seconds| (0.1..=3600.0).contains(seconds));
    if given.has("d") && interval.is_none() {
        return Err(command.usage_error());
    }
    let interval = interval.map_or(INTERVAL, Duration::from_secs_f64);
    let mut asking = members_to_sample(shell, given).await?;
    let is_live =
        rounds.is_none() && !shell.start.format.is_structured() && terminal::stdout().is_terminal();
    let quiet = std::mem::replace(&mut shell.prints_watches, false);
    // The same future waits for the user throughout, so that no key press is lost between two
    // rounds.
    let mut ended = pin!(crate::shell::quit::by_user(is_live));
    let mut before = (Instant::now(), asking.sample().await);
    let mut round = 0;
    while rounds.is_none_or(|rounds| round < rounds) && !shell.has_failed_output() {
        let pause = if round == 0 {
            interval.min(FIRST)
        } else {
            interval
        };
        let sampling = async {
            tokio::time::sleep(pause).await;
            asking.sample().await
        };
        let sample = tokio::select! {
            sample = sampling => sample,
            () = &mut ended => break,
        };
        let now = Instant::now();
        let seconds = now.duration_since(before.0).as_secs_f64();
        show(shell, &before.1, &sample, seconds, is_live);
        before = (now, sample);
        round += 1;
    }
    shell.prints_watches = quiet;
    Ok(())
}

/// Returns the members to query: from the member list, or the server of this session if it is
/// standalone.
async fn members_to_sample(
    shell: &mut Shell,
    given: &Arguments,
) -> Result<SampledMembers, Failure> {
    let by = given.value("by").unwrap_or("address");
    if !["address", "identity"].contains(&by) {
        return Err(Failure::new("-by must be address or identity"));
    }
    let listed = ensemble::member_addresses(shell).await?.members;
    let (options, _) = shell.start.options(shell.server())?;
    let connector = if given.has("tls") {
        shell.start.admin_connector()?
    } else {
        Connector::plain()
    };
    let admins = AdminPorts {
        named: given
            .value("a")
            .map(|admins| admins.split(',').map(str::to_owned).collect()),
        authorization: given.value("auth").map(|auth| auth.replacen(':', " ", 1)),
        connector,
    };
    let servers = options.servers().iter().map(ToString::to_string);
    let (servers, connector) = (servers.collect(), options.connector().clone());
    Ok(SampledMembers::new(listed, servers, connector, admins, by).await)
}

fn show(shell: &mut Shell, before: &Sample, now: &Sample, seconds: f64, is_live: bool) {
    if is_live {
        shell.clear_screen();
    }
    shell.show(
        || table::json(before, now, seconds),
        || table::text(before, now, seconds),
    );
}
