//! The admin server over HTTP, as probes, scripts and exporters meet it: compared with what Apache
//! ZooKeeper 3.9.5 answered in each role, and with what nobody should send.

mod documented;
mod hostile;
mod requests;
mod roles;
mod shape;
mod site;
mod snapshots;
