//! Reaching a leader.
//!
//! A leader may have just been elected and not listen yet, so a refusal is not the last word: each
//! of its addresses is tried some times, with pauses, until the time for it is used up. Several
//! addresses are tried side by side, and the first connection wins. A name is resolved at each
//! attempt, since in a cluster that is just being started it may get its address meanwhile.
//!
//! Source: Learner.connectToLeader, LeaderConnector.

use std::time::Duration;

use config::members::HostPort;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::PeerError;

/// How a leader is tried to be reached.
#[derive(Debug, Clone)]
pub(crate) struct DialSettings {
    /// `zookeeper.leaderConnectDelayDuringRetryMs`: pause between two tries.
    pub(crate) retry_delay: Duration,
    /// `connectToLearnerMasterLimit`, or `initLimit`, as time: all tries together.
    pub(crate) time_limit: Duration,
}

/// Tries of one address, the quick ones aside.
const TRIES: u32 = 5;

/// Pauses before the first of them, ms. Leader and followers conclude an election at the same
/// moment, so the leader often listens just after it was dialled: no reason to wait for long.
const QUICK_PAUSES_MS: [u64; 4] = [5, 10, 20, 40];

/// A connection to one of `addresses`.
///
/// # Errors
/// If none could be reached in time: what came of the last try.
pub(super) async fn dial(
    addresses: &[HostPort],
    settings: &DialSettings,
) -> Result<TcpStream, PeerError> {
    let mut dialing = JoinSet::new();
    for address in addresses {
        dialing.spawn(dial_one(address.clone(), settings.clone()));
    }
    let mut last = PeerError::Unreachable {
        address: "nowhere".to_owned(),
        reason: "the leader has no address".to_owned(),
    };
    // The rest is aborted when the set is dropped.
    while let Some(dialed) = dialing.join_next().await {
        match dialed {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(error) => tracing::error!(err = %error, "an attempt to connect broke off"),
        }
    }
    Err(last)
}

async fn dial_one(address: HostPort, settings: DialSettings) -> Result<TcpStream, PeerError> {
    let deadline = Instant::now() + settings.time_limit;
    let quick = QUICK_PAUSES_MS.into_iter().map(Duration::from_millis);
    let mut quick = quick.map(|pause| pause.min(settings.retry_delay));
    let mut tries = 1;
    loop {
        let name = (address.host.as_str(), address.port);
        let reason = match timeout_at(deadline, TcpStream::connect(name)).await {
            Ok(Ok(stream)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%address, err = %error, "cannot set socket options");
                }
                return Ok(stream);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        let is_over = Instant::now() + settings.retry_delay >= deadline;
        let next_quick = quick.next().filter(|_| !is_over);
        if let Some(pause) = next_quick {
            tracing::debug!(%address, err = reason, "the leader takes no connection yet");
            sleep(pause).await;
            continue;
        }
        tracing::warn!(%address, tries, err = reason, "cannot connect to the leader");
        if is_over || tries >= TRIES {
            let address = address.to_string();
            return Err(PeerError::Unreachable { address, reason });
        }
        tries += 1;
        sleep(settings.retry_delay).await;
    }
}
