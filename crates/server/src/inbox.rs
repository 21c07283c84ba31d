//! The way to the core for what is no connection of a client.

use std::sync::Arc;

use replica::Input;

/// Tells the core. Once that is gone inputs are lost: the server is ending.
pub(crate) type InputSink = Arc<dyn Fn(Input) + Send + Sync>;
