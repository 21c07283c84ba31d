//! Log lines that attackers cause, and secrets in log lines.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::addresses;
use crate::security::secrets::secret_in;

/// Number of lines for each place in the code and each address of an attacker.
static LINES: Mutex<BTreeMap<(&str, String), usize>> = Mutex::new(BTreeMap::new());
/// First line with a secret.
static LEAK: Mutex<Option<String>> = Mutex::new(None);

/// Layer that reads the lines of servers and clients. The simulation checks that few lines are
/// about one attacker, and that no line contains a secret.
#[derive(Debug, Default)]
pub struct LogLines;

impl<S: Subscriber> Layer<S> for LogLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if secret_in(fields.text.as_bytes()).is_some() {
            LEAK.lock().get_or_insert(fields.text);
        }
        let metadata = event.metadata();
        // The lines about valid logins are not limited.
        if *metadata.level() > Level::INFO || metadata.target().contains("::login::") {
            return;
        }
        if let Some(peer) = fields.peer.filter(|peer| addresses::is_visitor(peer)) {
            let mut lines = LINES.lock();
            *lines.entry((metadata.name(), peer)).or_default() += 1;
        }
    }
}

/// Fields of a line.
#[derive(Default)]
struct Fields {
    text: String,
    /// Host of the peer.
    peer: Option<String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let start = self.text.len();
        // Writing to a string does not fail.
        let _ = write!(self.text, "{value:?}");
        if field.name() == "peer" {
            let peer = self.text[start..].trim_matches('"').rsplit_once(':');
            self.peer = peer.map(|(host, _)| host.to_owned());
        }
        self.text.push(' ');
    }
}

/// Removes and returns the largest number of lines about one attacker from one place.
pub(crate) fn take_most() -> Option<(String, usize)> {
    let lines = std::mem::take(&mut *LINES.lock());
    let most = lines.into_iter().max_by_key(|(_, count)| *count);
    most.map(|((place, peer), count)| (format!("{place} about {peer}"), count))
}

/// Removes and returns the first line with a secret.
pub(crate) fn take_leak() -> Option<String> {
    LEAK.lock().take()
}
