//! Values of all metrics of a server at one time.

use super::gauges::Gauges;
use super::rows::{Metric, Reading};
use crate::process::figures::Descriptors;
use crate::view::View;

/// Returns every metric that the server shows, in the order of the table.
pub fn read_all(view: &dyn View) -> Vec<(&'static Metric, Reading)> {
    let (role, quotas) = (view.role(), view.quotas());
    let gauges = Gauges {
        role: &role,
        leader: view.leader_figures(),
        server: view.stats().get(view.now().monotonic_ms),
        state: view.state(),
        descriptors: Descriptors::of_this_process(),
        quotas: &quotas,
    };
    view.metrics().read(&gauges)
}
