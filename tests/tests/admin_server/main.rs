//! The admin server over HTTP, as probes, scripts and exporters meet it: compared with what Apache
//! ZooKeeper 3.9.5 answered in each role, and with what nobody should send.

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
