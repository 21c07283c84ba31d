//! Damage that only an operator can repair.

use std::io;
use std::path::PathBuf;

use simulation::configured::member_files;
use testkit::{Random, SimDisk};

/// Damage of a machine.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Whether a log, a snapshot or an epoch file is corrupt. The server may then refuse to start.
    pub(crate) is_rotten: bool,
    /// Member list before its file was corrupted. Other members have a copy.
    pub(super) lost_list: Option<LostList>,
    /// Whether the server has refused to start, and waits for an operator.
    pub(super) has_refused: bool,
}

/// A member list before its corruption.
#[derive(Debug)]
pub(super) struct LostList {
    pub(super) path: PathBuf,
    pub(super) content: Vec<u8>,
}

/// Corrupts either the list that was proposed last or the list that zoo.cfg names, if there is one,
/// and returns its old content. The corrupted list cannot be parsed. Other corruption would not be
/// detectable, because a list has no checksum.
pub(super) fn rot(disk: &SimDisk, random: &mut Random) -> io::Result<Option<LostList>> {
    let proposed = member_files::proposed_list();
    if random.percent(50)
        && let Some(content) = disk.content(&proposed)
    {
        let rotten = rotten(&content, true, random);
        disk.set_content(&proposed, &rotten);
        let path = proposed;
        return Ok(Some(LostList { path, content }));
    }
    let Some(path) = member_files::named_list(disk)? else {
        return Ok(None);
    };
    let Some(content) = disk.content(&path) else {
        return Ok(None);
    };
    let may_be_empty = path.extension().is_some_and(|name| name != "dynamic");
    let rotten = rotten(&content, may_be_empty, random);
    disk.set_content(&path, &rotten);
    Ok(Some(LostList { path, content }))
}

fn rotten(content: &[u8], may_be_empty: bool, random: &mut Random) -> Vec<u8> {
    let mut rotten = content.to_vec();
    match random.below(3) {
        0 if may_be_empty => rotten.clear(),
        1 => rotten.fill(0),
        _ => {
            // No key in a list begins with any of the resulting letters.
            if let Some(first) = rotten.first_mut() {
                *first ^= 1 << random.below(5);
            }
        }
    }
    rotten
}
