//! The change history of running servers: queries through the admin port, permissions, the feed,
//! and the restoration of a subtree.

// The name by which the example `bridge` imports the client.
extern crate client as zoarium_client;

mod asking;
mod bridge;
mod chaos;
mod compare;
mod export;
mod feed;
mod greedy;
mod members;
mod origins;
mod permission;
mod plain;
mod restore_path;
mod site;
mod stories;
mod trouble;
