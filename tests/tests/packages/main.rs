//! Ways to install Zoarium: the packages of the crates, the Debian package, the entry point of the
//! image, and the chart.

mod chart;
mod container;
mod crates;
mod deb;
