//! Ports other than the admin server: the exporter of metrics, and a port for probes.

pub mod exporter;
pub mod health;
