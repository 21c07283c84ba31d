//! The channel to the core for inputs that do not come from a client connection.

use std::sync::Arc;

use replica::Input;

/// Function that sends an input to the core. After the core has ended, inputs are dropped, because
/// the server is stopping.
pub(crate) type InputSink = Arc<dyn Fn(Input) + Send + Sync>;
