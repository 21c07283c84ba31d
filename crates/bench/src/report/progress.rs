//! Progress display for a user at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Progress bar on stderr, if stderr is a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// Name of the larger task. Empty if there is none.
    whole: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self::within("")
    }

    /// Returns a progress bar for part of a larger task. The name of the larger task precedes the
    /// name of each stage.
    pub fn within(whole: &str) -> Self {
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        let whole = whole.to_owned();
        Self { bar, whole }
    }

    /// Sets the current stage.
    pub(crate) fn stage(&self, stage: &str) {
        self.bar.set_position(0);
        let whole = &self.whole;
        self.bar.set_prefix(if whole.is_empty() {
            stage.to_owned()
        } else {
            format!("{whole}: {stage}")
        });
        self.bar.set_message("");
    }

    pub(crate) fn connecting(&self, open: u32, all: u32) {
        self.bar.set_length(all.into());
        self.bar.set_position(open.into());
        self.bar.set_message(format!("{open} of {all} sessions"));
    }

    pub(crate) fn counting(&self, done: u32, all: u32) {
        self.bar.set_length(all.into());
        self.bar.set_position(done.into());
    }

    /// Displays the progress of a measurement. Without a duration, the remaining time is unknown.
    pub(crate) fn measuring(&self, elapsed: Duration, duration: Option<Duration>, answers: u64) {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.bar.set_length(duration.map_or(0, millis));
        self.bar.set_position(millis(elapsed));
        self.bar.set_message(format!("{answers} answers"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
