//! Changes by one identity or host (`--by`) from all members. A member only finds changes by the
//! clients that it serves.

use std::collections::VecDeque;

use client::admin::{AdminClient, AdminError};
use history::{PAGE_RESULTS_MAX, Position};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::origins::{Member, Origins, mark, query_in_time};
use super::source::Parameters;
use crate::tool::ToolError;

/// Name of the admin server's command.
const CHANGES: &str = "history/changes";

/// Changes from one member, page by page.
struct Stream {
    /// Index of the member.
    member: usize,
    client: AdminClient,
    parameters: Parameters,
    waiting: VecDeque<Value>,
    /// Last page, without its results.
    page: Value,
    is_ended: bool,
}

impl Stream {
    fn new(index: usize, member: &Member, parameters: &Parameters) -> Self {
        Self {
            member: index,
            client: member.client.clone(),
            parameters: parameters.clone(),
            waiting: VecDeque::new(),
            page: Value::Null,
            is_ended: false,
        }
    }

    /// Fetches pages until a change waits or there are no more pages.
    async fn fill(&mut self) -> Result<(), AdminError> {
        while self.waiting.is_empty() && !self.is_ended {
            let mut page = query_in_time(&self.client, CHANGES, &self.parameters.0).await?;
            if let Value::Array(results) = page["results"].take() {
                self.waiting.extend(results);
            }
            match page["next"].as_str() {
                Some(next) => self.parameters.set("after", next),
                None => self.is_ended = true,
            }
            self.page = page;
        }
        Ok(())
    }

    fn next(&self) -> Option<Position> {
        Position::parse(self.waiting.front()?["position"].as_str()?).ok()
    }
}

/// Queries all members, merges their changes, and passes up to `limit` changes to `each`. Returns
/// the last page of the first member, or `None` if the caller is not an administrator or if the
/// first member does not answer.
pub(super) async fn changes(
    origins: &mut Origins,
    parameters: &Parameters,
    limit: usize,
    each: &mut dyn FnMut(&Value) -> Result<(), ToolError>,
) -> Result<Option<Value>, ToolError> {
    let mut parameters = parameters.clone();
    parameters.set("limit", &limit.min(PAGE_RESULTS_MAX).to_string());
    let is_oldest_first = parameters.0.iter().any(|(name, _)| name == "oldest_first");
    let Some(members) = origins.members().await else {
        return Ok(None);
    };
    let Some((first, others)) = members
        .split_first_mut()
        .filter(|(first, _)| first.answers())
    else {
        return Ok(None);
    };
    let mut own = Stream::new(0, first, &parameters);
    own.fill().await?;
    let mut streams = vec![own];
    streams.extend(streams_of(others, &parameters).await);
    let mut left = limit;
    while left > 0 {
        let next = streams.iter().filter_map(Stream::next);
        let next = if is_oldest_first {
            next.min()
        } else {
            next.max()
        };
        let Some(next) = next else {
            break;
        };
        let mut change = Value::Null;
        for stream in &mut streams {
            if stream.next() == Some(next) {
                change = stream.waiting.pop_front().unwrap_or_default();
                if let Err(error) = stream.fill().await {
                    let members = origins.members().await;
                    let member = members.and_then(|members| members.get_mut(stream.member));
                    stream.is_ended = true;
                    match member.filter(|_| stream.member > 0) {
                        Some(member) => member.fail(&error),
                        None => return Err(error.into()),
                    }
                }
            }
        }
        mark(&mut change, "");
        change["members_missing"] = origins.missing_members();
        each(&change)?;
        left -= 1;
    }
    let is_all = streams
        .iter()
        .all(|stream| stream.is_ended && stream.waiting.is_empty());
    let mut page = streams.swap_remove(0).page;
    if is_all {
        page["next"] = Value::Null;
    } else if page["next"].is_null() {
        page["next"] = json!("");
    }
    page["members_missing"] = origins.missing_members();
    Ok(Some(page))
}

/// Fetches the first pages of the other members concurrently. The stream of a member that does not
/// answer is empty.
async fn streams_of(members: &mut [Member], parameters: &Parameters) -> Vec<Stream> {
    let mut queries = JoinSet::new();
    for (member, index) in members.iter().zip(1..) {
        if !member.answers() {
            continue;
        }
        let mut stream = Stream::new(index, member, parameters);
        queries.spawn(async move {
            let filled = stream.fill().await;
            (stream, filled)
        });
    }
    let streams = queries.join_all().await.into_iter();
    let streams = streams.map(|(mut stream, filled)| {
        if let Err(error) = filled {
            stream.is_ended = true;
            if let Some(member) = members.get_mut(stream.member - 1) {
                member.fail(&error);
            }
        }
        stream
    });
    streams.collect()
}
