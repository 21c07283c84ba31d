//! Comparisons of members with each other, and with the acknowledged writes.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::request::Request;

use super::writer::{Known, TOP, WriterReport};
use super::{Ensemble, LoadReport};
use crate::dump::Dump;
use crate::launcher::Flavour;
use crate::raw_session::RawSession;
use crate::requests::create;
use crate::wait::{wait_for, wait_until};

/// Time limit for a write through a serving member.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Java writes this znode into each member's tree with the time of that member's clock. Only the
/// data is equal.
const CONFIG_NODE: &str = "/zookeeper/config";
/// Time limit for the deletion of ephemerals of ended sessions.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Panics unless every running member has all acknowledged writes and no unknown ones, and all have
/// equal trees and digests.
pub fn nothing_is_lost(ensemble: &Ensemble, report: &LoadReport) {
    let dump = all_agree(ensemble);
    for writer in &report.writers {
        check_writer(&dump, writer);
    }
}

/// Panics unless all running members have equal trees and digests. Returns the tree. Sessions must
/// be ending, because it waits until no ephemeral remains.
pub fn all_agree(ensemble: &Ensemble) -> Dump {
    let up = ensemble.up();
    wait_for("end of all ephemerals", IDLE_LIMIT, || {
        let none = |id: &u64| {
            let count = ensemble.member(*id).metric("ephemerals_count");
            count.as_deref() == Some("0")
        };
        up.iter().all(none).then_some(())
    });
    same_trees(ensemble, &up)
}

/// Panics unless these members have equal trees and digests. Returns the tree. No client may write
/// meanwhile.
pub fn same_trees(ensemble: &Ensemble, ids: &[u64]) -> Dump {
    let mut dumps: Vec<(u64, Dump)> = Vec::new();
    for &id in ids {
        dumps.push((id, dump(ensemble, id)));
    }
    ensemble.wait_for_equal_zxids(ids);
    let mut dumps = dumps.into_iter();
    let (first, dump) = dumps.next().expect("members to compare");
    for (id, other) in dumps {
        dump.assert_same(&other, &format!("the trees of members {first} and {id}"));
    }
    same_digests(ensemble, ids);
    dump
}

/// Returns a member's complete tree once it has applied all earlier commits.
pub fn dump(ensemble: &Ensemble, id: u64) -> Dump {
    let read = || {
        let mut session = ensemble.super_session(id)?;
        session.sync().ok()?;
        let dump = Dump::read(&mut session).ok()?;
        session.close().ok()?;
        Some(dump)
    };
    let mut dump = wait_for(&format!("tree of member {id}"), IDLE_LIMIT, read);
    if let Some(znode) = dump.znodes.get_mut(CONFIG_NODE) {
        znode.stat = proto::Stat::default();
    }
    dump
}

/// Panics unless the newest common digest of each two members is equal, and no Zoarium server has
/// counted a mismatch. (Java counts mismatches itself when it receives a snapshot during writes.)
pub fn same_digests(ensemble: &Ensemble, ids: &[u64]) {
    let of_ours = |id: &&u64| ensemble.member(**id).flavour() == Flavour::Zoarium;
    for &id in ids.iter().filter(of_ours) {
        let mismatches = ensemble.member(id).metric("digest_mismatches_count");
        assert_eq!(mismatches.as_deref(), Some("0"), "member {id}");
    }
    let digests: Vec<_> = ids.iter().map(|&id| (id, digests(ensemble, id))).collect();
    for (id, some) in &digests {
        for (other_id, others) in digests.iter().filter(|(other, _)| other > id) {
            // Older digests may originate from a fuzzy snapshot and differ.
            let mut common = some
                .iter()
                .rev()
                .filter(|(zxid, _)| others.contains_key(zxid));
            if let Some((zxid, digest)) = common.next() {
                let what = format!("digests of members {id} and {other_id} at {zxid:#x}");
                assert_eq!(*digest, others[zxid], "{what}");
            }
        }
    }
}

/// Returns the digests that a member remembers, by zxid.
fn digests(ensemble: &Ensemble, id: u64) -> BTreeMap<u64, String> {
    let answer = wait_until(IDLE_LIMIT, || ensemble.member(id).word("hash"));
    let answer = answer.unwrap_or_else(|| panic!("member {id} does not tell its digests"));
    let parse = |line: &str| {
        let (zxid, digest) = line.split_once(": ")?;
        let zxid = u64::from_str_radix(zxid, 16).ok()?;
        Some((zxid, digest.to_owned()))
    };
    answer.lines().filter_map(parse).collect()
}

/// Panics unless the tree contains this writer's writes.
fn check_writer(dump: &Dump, writer: &WriterReport) {
    for (&number, known) in &writer.nodes {
        let path = writer.path(number);
        let found = dump.znodes.get(&path);
        match known {
            Known::Present => assert!(found.is_some(), "{path} was acknowledged and is lost"),
            Known::Absent => assert!(found.is_none(), "{path} was deleted and is there again"),
            Known::Unknown => {}
        }
        if let Some(znode) = found {
            let data = znode.data.as_deref().unwrap_or_default();
            assert_eq!(data, writer.data(number).as_bytes(), "{path}");
            assert_eq!(znode.stat.version, 0, "{path}");
        }
    }
    let register = writer.register_path();
    let znode = dump.znodes.get(&register);
    let znode = znode.unwrap_or_else(|| panic!("{register} is lost"));
    writer.judge_register(znode.data.as_deref().unwrap_or_default());
    let top = format!("{TOP}/{}/", writer.name);
    let below = dump.znodes.range(top.clone()..);
    for (path, _) in below.take_while(|(path, _)| path.starts_with(&top)) {
        let number = path.strip_prefix(&top).and_then(|name| name.parse().ok());
        let is_known = number.is_some_and(|number: u64| writer.nodes.contains_key(&number));
        assert!(is_known || *path == register, "nobody wrote {path}");
    }
}

/// Writes through every running member.
pub fn all_write(ensemble: &Ensemble, name: &str) {
    for id in ensemble.up() {
        let address = ensemble.member(id).client_address().to_string();
        let path = format!("/{name}-{id}");
        wait_for(
            &format!("a write through member {id}"),
            ANSWERS_WITHIN,
            || {
                let mut session = RawSession::open(&address, None, 30_000).ok()?;
                let written = session.call(&Request::Write(create(&path, "", 0))).ok()?;
                let is_there = written.err == 0 || written.err == -110;
                session.close().ok();
                is_there.then_some(())
            },
        );
    }
}
