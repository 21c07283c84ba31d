//! The change history of servers that run: questions over the admin port, who may ask what, the feed,
//! and giving a subtree back.
//!
//! Tests wait for tools that they start. Meanwhile a thread of the runtime keeps the sessions of their clients alive.

mod asking;
mod bridge;
mod chaos;
mod compare;
mod export;
mod feed;
mod members;
mod permission;
mod plain;
mod restore_path;
mod site;
mod stories;
mod trouble;
