//! A system that fails its server: disks that do not sync, clocks that jump, data that is gone,
//! ways that cannot be gone. One member, or all of them; never what was acknowledged.

mod backlog;
mod chaos;
mod clocks;
mod delays;
mod held_disks;
mod lost_data;
mod snapshots;
mod syncs;

use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::{Faults, Flavour, Missing};

/// Writes of each writer that show that writing goes on.
const PROGRESS: u64 = 20;
/// Time for what a member does by itself.
const LIMIT: Duration = Duration::from_secs(30);

/// Three voters of the flavour under test.
fn three() -> EnsembleBuilder {
    EnsembleBuilder::new(&[Flavour::under_test(); 3])
}

/// An ensemble of them, all of whom take orders; member 3 leads.
fn led_by_3(builder: &EnsembleBuilder) -> Result<(Faults, Ensemble), Missing> {
    let faults = Faults::new()?;
    let mut ensemble = builder.prepare()?;
    for id in [1, 3] {
        ensemble.start_after(id, &faults.commands(id));
    }
    assert_eq!(ensemble.wait_until_all_serve(), 3);
    ensemble.start_after(2, &faults.commands(2));
    assert_eq!(ensemble.wait_until_all_serve(), 3);
    Ok((faults, ensemble))
}

/// The member that observes, in [`with_observer`].
const OBSERVER: u64 = 4;

/// Three voters of ours, who take no orders, and an observer that does.
fn with_observer() -> Result<(Faults, Ensemble), Missing> {
    let faults = Faults::new()?;
    let builder = three().observers(&[Flavour::Zoarium]);
    let mut ensemble = builder.prepare()?;
    for id in [1, 2, 3] {
        ensemble.start(id);
    }
    ensemble.start_after(OBSERVER, &faults.commands(OBSERVER));
    ensemble.wait_until_all_serve();
    Ok((faults, ensemble))
}
