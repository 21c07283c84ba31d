//! The client that starts containers.

use crate::core::{Container, RunnableImage};

/// A client of Docker.
#[derive(Debug, Default)]
pub struct Cli;

impl Cli {
    /// Starts a container and waits until it is healthy.
    pub fn run<I>(&self, image: impl Into<RunnableImage<I>>) -> Container<'_, I> {
        Container::run(image.into())
    }
}
