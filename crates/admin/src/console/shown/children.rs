//! Pages of the children of a znode.

use jute::Str;
use proto::response::StatResponse;
use proto::{ErrorCode, OpCode};
use serde_json::{Value, json};

use super::super::ids::{SessionIds, is_session};
use super::super::said::{Refusal, found};
use super::super::session::{Children, Fault, ZnodeSession};
use super::{stat_json, unwatched};
use crate::answer::Answer;
use crate::limits::CHILDREN_PAGE;

/// A page of the children of a znode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildrenPage<'a> {
    /// Position at which the page starts.
    pub(crate) start: Start<'a>,
    /// Text that each name must contain. The case of ASCII letters is ignored.
    pub(crate) like: &'a str,
}

/// Position at which a page starts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start<'a> {
    /// Number of matching children before the page.
    Skip(usize),
    /// The page starts with the first matching child after this name.
    After(&'a str),
    /// The page contains this name. Such pages start at multiples of [`CHILDREN_PAGE`].
    PageOf(&'a str),
}

/// Returns the names that contain a text, in their order.
fn matching<'a>(names: &'a [Str], like: &str) -> Vec<&'a Str> {
    let is_like = |part: &[u8]| part.eq_ignore_ascii_case(like.as_bytes());
    let found = |name: &&Str| like.is_empty() || name.as_bytes().windows(like.len()).any(is_like);
    names.iter().filter(found).collect()
}

/// Returns the number of names before the page.
fn skipped(names: &[&Str], start: Start<'_>) -> usize {
    match start {
        Start::Skip(skip) => skip.min(names.len()),
        Start::After(after) => names.partition_point(|name| ***name <= *after),
        Start::PageOf(wanted) => {
            let index = names.partition_point(|name| ***name < *wanted);
            index / CHILDREN_PAGE * CHILDREN_PAGE
        }
    }
}

/// Returns a page of the children, ordered by name, and the number of matching children.
pub(crate) async fn children(
    session: &ZnodeSession,
    path: &str,
    page: ChildrenPage<'_>,
    ids: SessionIds,
) -> Result<Answer, Refusal> {
    let Children { stat, names, .. } = &*session.children(path).await?;
    let names = matching(names, page.like);
    let skip = skipped(&names, page.start);
    let end = names.len().min(skip + CHILDREN_PAGE);
    let mut children = Vec::with_capacity(end - skip);
    for name in names.iter().skip(skip).take(CHILDREN_PAGE) {
        children.extend(child(session, path, name).await?);
    }
    Ok(found(&json!({
        "path": path,
        "stat": stat_json(stat, ids),
        "total": names.len(),
        "skip": skip,
        "children": children,
        "has_more": end < names.len(),
    })))
}

/// Returns a child as JSON, or `None` if it was deleted after the list was read.
async fn child(session: &ZnodeSession, path: &str, name: &str) -> Result<Option<Value>, Fault> {
    let child = if path == "/" {
        format!("/{name}")
    } else {
        format!("{path}/{name}")
    };
    let read = session
        .ask::<StatResponse>(OpCode::Exists, &unwatched(&child))
        .await;
    let stat = match read {
        Ok(StatResponse { stat }) => Some(stat),
        Err(Fault::Refused(code)) if code.0 == ErrorCode::NoNode.code() => return Ok(None),
        // The visitor may see only the name of this child.
        Err(Fault::Refused(_)) => None,
        Err(fault) => return Err(fault),
    };
    Ok(Some(json!({
        "name": name,
        "version": stat.map(|stat| stat.version),
        "children": stat.map_or(0, |stat| stat.num_children),
        "is_ephemeral": stat.is_some_and(|stat| is_session(stat.ephemeral_owner)),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_contains_a_name_or_follows_it() {
        let names: Vec<Str> = (0..450).map(|at| format!("n{at:03}").into()).collect();
        let all = matching(&names, "");
        assert_eq!(skipped(&all, Start::Skip(200)), 200);
        assert_eq!(skipped(&all, Start::Skip(9_999)), 450);
        assert_eq!(skipped(&all, Start::After("n007")), 8);
        assert_eq!(skipped(&all, Start::PageOf("n399")), 200);
        assert_eq!(skipped(&all, Start::PageOf("n400")), 400);
        // A missing name is on the page where it would be.
        assert_eq!(skipped(&all, Start::PageOf("n0075")), 0);
        let some = matching(&names, "N44");
        assert_eq!(some.len(), 10);
        assert_eq!(skipped(&some, Start::After("n445")), 6);
        assert!(matching(&names, "nothing").is_empty());
    }
}
