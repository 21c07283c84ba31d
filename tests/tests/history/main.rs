//! The change history of running servers: queries through the admin port, permissions, the feed,
//! and the restoration of a subtree.

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
