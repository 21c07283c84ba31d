//! What installs Zoarium: the packages of the crates, the Debian package, the entry point of the image, the chart.

mod chart;
mod container;
mod crates;
mod deb;
