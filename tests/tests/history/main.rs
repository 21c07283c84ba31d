//! The change history of servers that run: questions over the admin port, who may ask what, the feed,
//! and giving a subtree back.

mod asking;
mod bridge;
mod chaos;
mod compare;
mod export;
mod feed;
mod greedy;
mod members;
mod permission;
mod plain;
mod restore_path;
mod site;
mod stories;
mod trouble;
