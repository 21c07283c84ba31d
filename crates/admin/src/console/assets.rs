//! Files of the page.

use http::StatusCode;

use crate::answer::{Answer, Body};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($path:literal $kind:ident $file:literal;)+) => {
        const ASSETS: &[(&str, &str, &[u8])] = &[
            $(($path, $kind, include_bytes!(concat!("../../page/", $file))),)+
        ];
    };
}

assets! {
    "/" HTML "index.html";
    "/console/style.css" CSS "style.css";
    "/console/icon.svg" SVG "icon.svg";
    "/console/main.js" SCRIPT "main.js";
    "/console/ask.js" SCRIPT "ask.js";
    "/console/dom.js" SCRIPT "dom.js";
    "/console/charts.js" SCRIPT "charts.js";
    "/console/find.js" SCRIPT "find.js";
    "/console/health.js" SCRIPT "health.js";
    "/console/members.js" SCRIPT "members.js";
    "/console/overview.js" SCRIPT "overview.js";
    "/console/tree.js" SCRIPT "tree.js";
    "/console/znode.js" SCRIPT "znode.js";
    "/console/edit.js" SCRIPT "edit.js";
    "/console/clients.js" SCRIPT "clients.js";
    "/console/sessions.js" SCRIPT "sessions.js";
    "/console/history.js" SCRIPT "history.js";
    "/console/log.js" SCRIPT "log.js";
}

/// Returns the file at this path from the list above, but never a file of the machine.
pub(crate) fn find(path: &str) -> Option<Answer> {
    let (_, kind, bytes) = ASSETS.iter().find(|(known, ..)| *known == path)?;
    let answer = Answer {
        status: StatusCode::OK,
        headers: Vec::new(),
        body: Body::Bytes(Some(kind), bytes.to_vec()),
    };
    // Another version of the server has a different page.
    Some(answer.with_header("cache-control", "no-cache"))
}
