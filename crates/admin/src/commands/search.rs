//! `search`: znodes whose name or data contains a string. Apache ZooKeeper lacks this command.

use std::sync::atomic::Ordering;
use std::time::Instant;

use http::StatusCode;
use metrics::view::AdminView;
use serde_json::json;
use tree::{Found, Search, SearchPosition};

use super::command::Call;
use crate::answer::{Answer, Body, JSON};
use crate::limits::{SEARCH_PAGE, SEARCH_PAGE_TIME, SEARCH_PATH_BYTES, SEARCH_TEXT_BYTES_MAX};

/// Returns a page of the znodes below `path` whose name or data contains `text`. Data is not
/// searched if `in` is `names`. `from` is the value of `next` in the previous page.
pub(super) fn search(view: &dyn AdminView, call: &Call) -> Answer {
    let text = call.parameter("text").unwrap_or_default();
    if text.is_empty() || text.len() > SEARCH_TEXT_BYTES_MAX {
        let error = format!("`text` must have 1 to {SEARCH_TEXT_BYTES_MAX} bytes");
        return answer(StatusCode::BAD_REQUEST, &json!({ "error": error }));
    }
    let Ok(from) = call.parameter("from").unwrap_or("0").parse() else {
        let error = json!({ "error": "`from` is not a position" });
        return answer(StatusCode::BAD_REQUEST, &error);
    };
    let search = Search {
        below: call.parameter("path").unwrap_or("/"),
        text,
        includes_data: call.parameter("in") != Some("names"),
        results_max: SEARCH_PAGE,
        identities: &call.identities,
    };
    let until = Instant::now() + SEARCH_PAGE_TIME;
    let mut found: Vec<Found> = Vec::new();
    let mut next = Some(SearchPosition(from));
    let mut path_bytes = 0;
    while let Some(at) = next
        && found.len() < SEARCH_PAGE
        && path_bytes < SEARCH_PATH_BYTES
        && Instant::now() < until
        && !call.is_abandoned.load(Ordering::Relaxed)
    {
        // The lock is released between two parts, so writes do not wait for the whole search.
        let part = view.tree().read().search(&search, at);
        path_bytes += part
            .found
            .iter()
            .map(|found| found.path.len())
            .sum::<usize>();
        found.extend(part.found);
        next = part.next;
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    let results = found.iter().map(|found| {
        json!({
            "path": &*found.path,
            "in": if found.is_name { "name" } else { "data" },
        })
    });
    let page = json!({
        "results": results.collect::<Vec<_>>(),
        "next": next.map(|next| next.0),
        "error": null,
        "command": "search",
    });
    answer(StatusCode::OK, &page)
}

fn answer(status: StatusCode, fields: &serde_json::Value) -> Answer {
    let bytes = fields.to_string().into_bytes();
    Answer::of(status, Body::Bytes(Some(JSON), bytes))
}
