//! Answers to one viewer as text, without the values of sealed positions.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use history::{
    ClientPatience, CostLimit, FeedMemory, HistoryError, HistoryQuery, Moment, Position, Reader,
    Viewer,
};
use proto::Zxid;

use super::workload::MARK;

/// A question that a viewer may repeat for each page.
#[derive(Debug, Clone)]
pub(super) enum Question {
    Changes(HistoryQuery),
    Feed(HistoryQuery),
    Tree(String, Zxid),
    Diff(String, Zxid, Zxid),
    Blame(String),
    Znode(String, Zxid),
}

/// Limits on each page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) results: usize,
    /// Number of checks after which the time of the page is over.
    pub(super) checks: usize,
}

/// An answer over all pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Every page as text.
    pub(super) pages: Vec<String>,
    /// The results of all pages, and the errors.
    pub(super) results: Vec<String>,
    pub(super) hidden: u64,
}

/// A page in text form, with its next position.
struct Part {
    results: Vec<String>,
    hidden: u64,
    /// Everything else in the page.
    rest: String,
    next: Option<String>,
}

/// Position at which a page begins.
#[derive(Debug, Clone)]
enum After {
    Path(String),
    Change(Position),
}

/// Maximum number of pages.
const PAGES_MAX: usize = 2000;

impl Question {
    /// Returns the answer over all pages, which begin after the path `after` if it is set.
    ///
    /// # Errors
    /// If a page contains a secret, or if the pages do not end.
    pub(super) fn walk(
        &self,
        reader: &Reader,
        viewer: &Viewer<'_>,
        limits: Limits,
        after: Option<&str>,
    ) -> Result<Answer, String> {
        let mut answer = Answer::default();
        let mut after = after.map(|path| After::Path(path.to_owned()));
        let mut memory = FeedMemory::default();
        for _ in 0..PAGES_MAX {
            let reader = reader.clone().within(limit(limits.checks));
            let page = self.page(&reader, viewer, limits.results, after.as_ref(), &mut memory);
            let (part, next) = match page {
                Ok(found) => found,
                Err(error) => {
                    answer.pages.push(error.to_string());
                    answer.results.push(error.to_string());
                    return Ok(answer);
                }
            };
            let next_text = part.next.as_deref().map(without_value).transpose()?;
            let text = format!(
                "{:?} hidden {} next {next_text:?} {}",
                part.results, part.hidden, part.rest
            );
            if text.contains(MARK) {
                return Err(format!("a secret in the answer to {self:?}: {text}"));
            }
            answer.pages.push(text);
            answer.results.extend(part.results);
            answer.hidden += part.hidden;
            match next {
                Some(next) => after = Some(next),
                None => return Ok(answer),
            }
        }
        Err(format!("the pages of {self:?} with {limits:?} do not end"))
    }

    fn page(
        &self,
        reader: &Reader,
        viewer: &Viewer<'_>,
        limit: usize,
        after: Option<&After>,
        memory: &mut FeedMemory,
    ) -> Result<(Part, Option<After>), HistoryError> {
        let path_after = match after {
            Some(After::Path(path)) => Some(path.as_str()),
            _ => None,
        };
        let position = match after {
            Some(After::Change(position)) => Some(*position),
            _ => None,
        };
        let moment = |zxid: Zxid| Moment::Zxid(zxid);
        let (part, next) = match self {
            Self::Changes(query) => {
                let mut query = query.clone();
                (query.after, query.limit) = (position, limit);
                let page = reader.history(&query, viewer)?;
                let next = page.next.map(After::Change);
                let rest = format!("{:?}", page.extent);
                (part(&page.results, page.hidden, rest, None), next)
            }
            Self::Feed(query) => {
                let from = position.unwrap_or(Position::after(Zxid(0)));
                let page = match reader.feed_with_memory(query, from, viewer, memory) {
                    // The next page begins after the hole.
                    Err(
                        error @ (HistoryError::Hole { to, .. }
                        | HistoryError::NotKept { oldest: to, .. }),
                    ) if Position::after(to) > from => {
                        let next = Some(After::Change(Position::after(to)));
                        let text = [error.to_string()];
                        return Ok((part(&text, 0, String::new(), None), next));
                    }
                    page => page?,
                };
                let is_end = page.position >= Position::after(page.head);
                let next = (!is_end).then_some(After::Change(page.position));
                let rest = format!("{:?} {:?}", page.head, page.has_more);
                (part(&page.results, page.hidden, rest, None), next)
            }
            Self::Tree(path, zxid) => {
                let page = reader.tree_at(path, moment(*zxid), path_after, limit, viewer)?;
                let next = page.next.map(String::from);
                let rest = format!("{:?}", page.extent);
                let part = part(&page.results, page.hidden, rest, next.clone());
                (part, next.map(After::Path))
            }
            Self::Diff(path, from, to) => {
                let (from, to) = (moment(*from), moment(*to));
                let page = reader.diff(path, from, to, path_after, limit, viewer)?;
                let next = page.next.map(String::from);
                let rest = format!("{:?}", page.extent);
                let part = part(&page.results, page.hidden, rest, next.clone());
                (part, next.map(After::Path))
            }
            Self::Blame(path) => {
                let page = reader.blame(path, path_after, limit, viewer)?;
                let next = page.next.map(String::from);
                let own = [&page.created, &page.data, &page.acl, &page.deleted];
                let part = part(&page.children, 0, format!("{own:?}"), next.clone());
                (part, next.map(After::Path))
            }
            Self::Znode(path, zxid) => {
                let znode = reader.znode_at(path, moment(*zxid), viewer)?;
                (part(&[znode], 0, String::new(), None), None)
            }
        };
        Ok((part, next))
    }
}

fn part<T: Debug>(results: &[T], hidden: u64, rest: String, next: Option<String>) -> Part {
    let results = results.iter().map(|result| format!("{result:?}"));
    Part {
        results: results.collect(),
        hidden,
        rest,
        next,
    }
}

/// Returns a limit that ends a page after this number of checks.
fn limit(checks: usize) -> CostLimit {
    let done = AtomicUsize::new(0);
    CostLimit::new(move || {
        if done.fetch_add(1, Ordering::Relaxed) < checks {
            ClientPatience::Left
        } else {
            ClientPatience::Spent
        }
    })
}

/// Returns a position with the length of its sealed path instead of the path.
///
/// # Errors
/// If the bytes of the sealed path contain a secret.
fn without_value(position: &str) -> Result<String, String> {
    let Some(sealed) = position.strip_prefix("//") else {
        return Ok(position.to_owned());
    };
    let bytes = BASE64.decode(sealed);
    let bytes = bytes.map_err(|error| format!("the position {position}: {error}"))?;
    let mark = MARK.as_bytes();
    if bytes.windows(mark.len()).any(|part| part == mark) {
        return Err(format!("a secret in the position {position}"));
    }
    Ok(format!("a sealed path of {} bytes", bytes.len()))
}
