//! Commands on the live tree: `get`, `ls`, `set` and others, each in a separate session.
//!
//! `get`, `tree` and `diff` also show past states if the user names a moment.

pub(crate) mod address;
pub(crate) mod client_flags;
mod read;
mod servers;
mod session;
pub(crate) mod watch_tool;
pub(crate) mod word;
mod write;

pub(crate) use self::read::{
    CatArgs, DiffArgs, ExportArgs, FindArgs, LsArgs, StatArgs, TreeArgs, run_diff, run_export,
    run_find, run_get, run_ls, run_stat, run_tree,
};
pub(crate) use self::servers::{
    InteractiveArgs, ReconfigArgs, StatusArgs, TopArgs, run_interactive, run_reconfig, run_status,
    run_top,
};
pub(crate) use self::write::{
    AclArgs, CpArgs, CreateArgs, ImportArgs, MvArgs, RmArgs, SetArgs, run_acl, run_cp, run_create,
    run_import, run_mv, run_rm, run_set,
};
