//! Comparison of a history in files with the committed transactions.
//!
//! The history must contain every committed change, except changes in its holes and dropped
//! changes. Every answer must match these changes.

mod blame;
mod changes;
mod model;
mod range;
mod sight;
mod states;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};

use history::record::{Change, Content, ExportedChange, Znode};
use history::{ClientPatience, CostLimit, Index, Origin, Reader};
use testkit::Random;

use super::both::Both;
use super::files::FileCounts;

pub(crate) use model::Model;
use range::Ranges;
use sight::Sight;

/// A history, and what it must answer.
struct Comparison<'a> {
    reader: Reader,
    index: RefCell<&'a mut Index>,
    /// Whether background work may be done between two pages.
    may_step: bool,
    model: &'a Model,
    ranges: Ranges,
    /// Origins that were passed to the history, by zxid.
    origins: BTreeMap<i64, Origin>,
    content_bytes_max: usize,
    /// All changes that the history must contain, in order.
    changes: Vec<Change>,
    random: Random,
    sight: Sight,
    /// Digest id of an ordinary user.
    user: String,
}

impl Both {
    /// Compares the history in files with the committed transactions. A corrupted history may
    /// answer with an error, but not differently.
    pub(super) fn compare(&mut self, model: &Model, rounds: usize) -> Result<(), String> {
        let origins = origins(self);
        let Some(stored) = &mut self.stored else {
            return Ok(());
        };
        let (reader, files) = (stored.index.reader(), stored.files.clone());
        let extent = reader.extent();
        let ranges = Ranges::of(&self.recorded, &extent, model, &files)?;
        let mut comparison = Comparison {
            origins,
            content_bytes_max: files.settings.content_bytes_max,
            changes: Vec::new(),
            random: Random::new(files.random.borrow_mut().any()),
            reader,
            index: RefCell::new(&mut stored.index),
            // Dropping changes would change the answers.
            may_step: !files.may_drop(),
            user: files.user.clone(),
            model,
            ranges,
            sight: Sight::Owner {
                shows_secrets: true,
            },
        };
        comparison.expect_changes();
        files.count(FileCounts {
            compared: 1,
            changes: comparison.changes.len(),
            holes: extent.holes.len(),
            empty_holes: comparison.ranges.empty_holes(model),
            dropped: usize::from(comparison.ranges.is_cut),
            ..FileCounts::default()
        });
        match comparison.run(rounds) {
            Err(text) if files.is_damaged() && text.contains(DAMAGED) => Ok(()),
            other => other,
        }
    }
}

/// Part of the error of a corrupted history.
const DAMAGED: &str = "the history is damaged";

impl Comparison<'_> {
    fn run(&mut self, rounds: usize) -> Result<(), String> {
        for _ in 0..rounds {
            self.all_changes()?;
            for _ in 0..rounds {
                self.query()?;
                self.known_origins()?;
                self.znode()?;
                self.tree()?;
                self.diff()?;
                self.blame()?;
                self.time()?;
            }
            self.sight = Sight::drawn(&mut self.random, &self.user);
        }
        Ok(())
    }

    /// Returns the reader with a limit on the cost of its next page. Does some background work
    /// before, which must not change answers.
    fn limited(&self, random: &mut Random) -> Reader {
        if self.may_step && random.percent(20) {
            // After an error, the history is damaged, and the next page returns an error also.
            let _worked = self.index.borrow_mut().step(0);
        }
        let some = random.below(20);
        let calls = random.pick(&[usize::MAX, 0, some]);
        let left = AtomicUsize::new(calls.unwrap_or(0));
        self.reader.clone().within(CostLimit::new(move || {
            let is_left = |left: usize| left.checked_sub(1);
            match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_left) {
                Ok(_) => ClientPatience::Left,
                Err(_) => ClientPatience::Spent,
            }
        }))
    }

    /// Checks that a walk over pages ends.
    fn must_end(&self, pages: usize, what: &dyn Fn() -> String) -> Result<(), String> {
        if pages <= 2 * (self.model.changes.len() + self.model.paths().count()) + 20 {
            return Ok(());
        }
        Err(format!("{}: the pages do not end", what()))
    }

    /// Collects the changes that the history must contain.
    fn expect_changes(&mut self) {
        let model = self.model.changes.iter();
        let recorded = model.filter(|change| self.ranges.has(change.zxid));
        let changes = recorded.map(|change| {
            let mut change = change.clone();
            if let Some(origin) = self.origins.get(&change.zxid) {
                change.client.clone_from(&origin.client);
                change.identities.clone_from(&origin.identities);
            }
            change.data = change.data.map(|data| self.kept(data));
            change
        });
        self.changes = changes.collect();
    }

    /// Returns a content as the history keeps it.
    fn kept(&self, content: Content) -> Content {
        if content.size <= self.content_bytes_max as u64 {
            return content;
        }
        Content {
            size: content.size,
            is_omitted: true,
            ..Content::default()
        }
    }
}

fn origins(open: &Both) -> BTreeMap<i64, Origin> {
    let txns = open.recorded.eras.iter().flat_map(|era| &era.txns);
    txns.map(|taken| (taken.header.zxid.0, taken.origin.clone()))
        .collect()
}

/// Returns a content without its hash, which must exist if the bytes are omitted.
fn plain_content(mut content: Content) -> Content {
    if content.inline.is_none() && content.hash.len() == 16 {
        content.hash.clear();
    }
    content
}

fn plain_change(mut change: Change) -> Change {
    change.data = change.data.map(plain_content);
    change.acl = change.acl.map(plain_content);
    change
}

fn plain_znode(mut znode: Znode) -> Znode {
    znode.data = znode.data.map(plain_content);
    znode.acl = znode.acl.map(plain_content);
    znode
}

/// Returns the change that an answer contains.
fn change_of(found: ExportedChange) -> Result<Change, String> {
    let change = found.change.ok_or("an answer without its change")?;
    Ok(plain_change(change))
}

/// Checks that two values are equal. `what` describes them.
fn equal<T: PartialEq + Debug>(
    found: &T,
    wanted: &T,
    what: impl FnOnce() -> String,
) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    let what = what();
    Err(format!("{what}: {found:?} instead of {wanted:?}"))
}

/// Checks that two lists are equal. An error contains their first difference.
fn equal_lists<T: PartialEq + Debug>(
    found: &[T],
    wanted: &[T],
    what: impl FnOnce() -> String,
) -> Result<(), String> {
    let same = found.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    if same == found.len() && same == wanted.len() {
        return Ok(());
    }
    let what = what();
    let (one, other) = (found.get(same), wanted.get(same));
    Err(format!(
        "{what}: result {same} is {one:?} instead of {other:?}"
    ))
}
