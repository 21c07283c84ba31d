//! System faults of one member or of all: disks that do not sync, clocks that jump, lost data, cut
//! network paths. No acknowledged write may be lost.

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

/// Writes of each writer that prove progress.
const PROGRESS: u64 = 20;
/// Time limit for actions of a member.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns settings with three voters of the tested flavour.
fn three() -> EnsembleBuilder {
    EnsembleBuilder::new(&[Flavour::under_test(); 3])
}

/// Starts an ensemble with these settings, in which all members use the fault library. Member 3
/// leads.
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

/// Id of the observer in [`with_observer`].
const OBSERVER: u64 = 4;

/// Starts three voters without the fault library, and an observer with it.
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
