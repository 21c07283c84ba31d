//! Logins by SASL: Java's client, kazoo and a client of our own, with Zoarium and with Apache ZooKeeper.

mod clients;
mod files;
mod foreign;
mod hostile;
mod start;
