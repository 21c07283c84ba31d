//! Detection of pauses of the process (`jvm.pause.monitor`): a machine that stops, a process
//! without processor time, or a runtime whose threads are all blocked.
//!
//! Source: JvmPauseMonitor.

use std::sync::Arc;
use std::time::Duration;

use config::PauseMonitor;
use metrics::Metrics;
use tokio::time::{Instant, sleep};

/// Sleeps repeatedly and reports the delay of each wake-up. Runs until aborted.
pub(crate) async fn watch(monitor: PauseMonitor, metrics: Arc<Metrics>) {
    let nap = Duration::from_millis(monitor.sleep_time_ms);
    loop {
        let asleep_since = Instant::now();
        sleep(nap).await;
        let pause = asleep_since.elapsed().saturating_sub(nap);
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        metrics.jvm_pause_time_ms.record(pause_ms);
        match PauseSeverity::classify(pause_ms, &monitor) {
            PauseSeverity::Warned => {
                tracing::warn!(pause_ms, "the process or its machine was paused");
            }
            PauseSeverity::Told => {
                tracing::info!(pause_ms, "the process or its machine was paused");
            }
            PauseSeverity::Usual => {}
        }
    }
}

/// Severity of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PauseSeverity {
    Usual,
    Told,
    Warned,
}

impl PauseSeverity {
    fn classify(pause_ms: u64, monitor: &PauseMonitor) -> Self {
        if pause_ms > monitor.warn_threshold_ms {
            Self::Warned
        } else if pause_ms > monitor.info_threshold_ms {
            Self::Told
        } else {
            Self::Usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MONITOR: PauseMonitor = PauseMonitor {
        warn_threshold_ms: 100,
        info_threshold_ms: 10,
        sleep_time_ms: 1,
    };

    #[test]
    fn a_pause_counts_from_beyond_its_threshold() {
        for (pause_ms, weight) in [
            (0, PauseSeverity::Usual),
            (10, PauseSeverity::Usual),
            (11, PauseSeverity::Told),
            (100, PauseSeverity::Told),
            (101, PauseSeverity::Warned),
        ] {
            assert_eq!(
                PauseSeverity::classify(pause_ms, &MONITOR),
                weight,
                "{pause_ms}"
            );
        }
    }

    #[tokio::test]
    async fn a_runtime_that_is_held_up_is_noticed() {
        const HELD_UP_MS: u64 = 30;
        let metrics = Arc::new(Metrics::default());
        let watch = tokio::spawn(watch(MONITOR, metrics.clone()));
        let longest = || metrics.jvm_pause_time_ms.get().moments().max();
        while metrics.jvm_pause_time_ms.get().moments().count == 0 {
            tokio::task::yield_now().await;
        }
        // The only thread of this runtime is busy meanwhile.
        let held_up_since = std::time::Instant::now();
        while held_up_since.elapsed() < Duration::from_millis(2 * HELD_UP_MS) {
            std::hint::spin_loop();
        }
        while longest() < HELD_UP_MS {
            tokio::task::yield_now().await;
        }
        watch.abort();
    }
}
