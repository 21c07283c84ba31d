//! The admin server over HTTP, as probes, scripts and exporters use it. The answers are compared
//! with those of Apache ZooKeeper 3.9.5 in each role. Invalid requests are tested as well.

mod clients;
mod console;
mod documented;
mod floods;
mod greedy;
mod hostile;
mod hosts;
mod log_levels;
mod matrix;
mod requests;
mod roles;
mod secure;
mod shape;
mod site;
mod snapshots;
mod token;
mod told;
