//! Logins by SASL: Java's client, kazoo and a minimal client, with Zoarium and with Apache
//! ZooKeeper.

mod budget;
mod clients;
mod crowd;
mod files;
mod foreign;
mod hostile;
mod start;
