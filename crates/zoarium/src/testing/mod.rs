//! Servers and ensembles for tests, inside the process of the test.
//!
//! Their data is in temporary directories, and they listen on 127.0.0.1. Dropping them releases
//! threads, ports and directories, even if the test panics.
//!
//! ```
//! use zoarium::testing::TestEnsemble;
//!
//! # async fn example() -> Result<(), zoarium::ServerError> {
//! let mut ensemble = TestEnsemble::start(3).await?;
//! println!("clients connect to {}", ensemble.connect_string());
//! let leader = ensemble.leader().expect("it serves");
//! ensemble.kill(leader).await?;
//! ensemble.wait_until_serving().await?;
//! ensemble.restart(leader).await?;
//! # ensemble.stop().await
//! # }
//! # tokio::runtime::Runtime::new()?.block_on(example())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `simulation`, `Simulation` runs applications on a simulated ensemble, on
//! simulated time.

mod builder;
mod ensemble;
mod expiry;
mod ports;
mod reach;
mod server;

#[cfg(feature = "tools")]
pub(crate) use ports::free as free_ports;

pub use builder::TestEnsembleBuilder;
pub use ensemble::TestEnsemble;
pub use proto::SessionId;
pub use server::TestServer;
#[cfg(feature = "simulation")]
pub use simulation::{Environment, Fault, Plan, Simulation, SimulationError, Target};
