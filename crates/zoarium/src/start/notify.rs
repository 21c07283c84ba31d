//! Notifications to systemd, if it started this process (`Type=notify`, `WatchdogSec`).
//!
//! A member of an ensemble is ready once its ports are open. It serves only when there is a leader,
//! and the unit of the next member must not wait for that.

use std::time::Duration;

use sd_notify::NotifyState;

/// Reports the start. Returns a future that notifies the watchdog, or `None` without a watchdog.
/// The future runs on the runtime of the server, so the watchdog detects a blocked runtime.
pub(crate) fn ready() -> Option<impl Future<Output = ()> + Send + 'static> {
    notify_systemd(NotifyState::Ready);
    let limit = sd_notify::watchdog_enabled()?;
    Some(keep_alive(limit / 3))
}

/// Reports that the server is stopping.
pub(crate) fn stopping() {
    notify_systemd(NotifyState::Stopping);
}

async fn keep_alive(every: Duration) {
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        notify_systemd(NotifyState::Watchdog);
    }
}

fn notify_systemd(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(err = %error, "cannot notify systemd");
    }
}
