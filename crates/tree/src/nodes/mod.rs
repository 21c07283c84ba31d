//! Stored znodes: their memory, their fields, and the table that finds them.

pub(crate) mod acl_table;
pub(crate) mod arena;
pub(crate) mod body;
pub(crate) mod index;
pub(crate) mod node;
pub(crate) mod owner;
pub(crate) mod path_hash;
