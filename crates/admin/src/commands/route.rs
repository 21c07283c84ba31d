//! Router of requests to commands.

use http::{Method, Request, StatusCode};
use metrics::view::AdminView;
use percent_encoding::percent_decode_str;

use super::authorization::Credentials;
use super::command::{Access, Call, Command};
use super::probes;
use super::table::Commands;
use crate::answer::{Answer, Body};

/// Destination of a request.
#[derive(Debug)]
pub(crate) enum Route<'a> {
    /// Answer that does not require a command.
    Answer(Answer),
    /// Call of a command.
    Run {
        /// Command to call.
        command: &'a Command,
        /// Requested name of the command.
        name: String,
        /// Arguments of the call.
        call: Call,
    },
    /// `/health/live`: whether the process answers.
    Live,
    /// `/health/ready`: whether clients are served.
    Ready,
}

/// Error for commands that need a serving server.
pub(crate) const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// Methods that Jetty allows.
const ALLOWED: &str = "GET, HEAD, POST, TRACE, OPTIONS";

impl Commands {
    /// Routes a request. `path` and `query` are still encoded.
    ///
    /// The path after the prefix of the commands is [percent-decoded](percent_decode_str) and
    /// looked up. The path names a command, never a file.
    pub(crate) fn route(&self, method: &Method, path: &str, query: Option<&str>) -> Route<'_> {
        if *method == Method::TRACE {
            return Route::Answer(Answer::status(StatusCode::FORBIDDEN));
        }
        let is_read = *method == Method::GET || *method == Method::HEAD;
        match path {
            probes::LIVE if is_read => return Route::Live,
            probes::READY if is_read => return Route::Ready,
            _ => {}
        }
        let below = path.strip_prefix(self.url());
        let Some(below) = below.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
            return Route::Answer(Answer::page(StatusCode::NOT_FOUND, path, "Not Found"));
        };
        let status = match method.as_str() {
            "GET" | "HEAD" | "POST" => {
                let name = below.strip_prefix('/').unwrap_or_default();
                return self.lookup(name, query);
            }
            "OPTIONS" => {
                let allowed = Answer::status(StatusCode::OK).with_header("allow", ALLOWED);
                return Route::Answer(allowed);
            }
            "PUT" | "DELETE" => StatusCode::METHOD_NOT_ALLOWED,
            _ => StatusCode::NOT_IMPLEMENTED,
        };
        Route::Answer(Answer::status(status))
    }

    fn lookup(&self, name: &str, query: Option<&str>) -> Route<'_> {
        if name.is_empty() {
            return Route::Answer(self.index());
        }
        let name = percent_decode_str(name).decode_utf8_lossy().into_owned();
        let Some(command) = self.find(&name) else {
            let error = format!("Unknown command: {name}");
            return Route::Answer(Answer::done().under(&name, Some(&error)));
        };
        let call = Call::parse(query);
        Route::Run {
            command,
            name,
            call,
        }
    }

    /// Returns the page with links to all commands. As in Java, the page is sent without a content
    /// type.
    fn index(&self) -> Answer {
        let lines = self.names().map(|name| {
            let url = self.url();
            format!("<a href=\"{url}/{name}\">{name}</a>\n<br/>\n")
        });
        let bytes = lines.collect::<String>().into_bytes();
        Answer::of(StatusCode::OK, Body::Bytes(None, bytes))
    }
}

impl Command {
    /// Returns the answer that refuses a call, or `None` if the call is permitted. The checks have
    /// the same order as in Java: not serving, not permitted, wrong method.
    pub(crate) fn refuse<B>(
        &self,
        requested_name: &str,
        request: &Request<B>,
        view: &dyn AdminView,
        credentials: &Credentials<'_>,
    ) -> Option<Answer> {
        if self.needs_server && !is_serving(view) {
            return Some(Answer::done().under(self.name, Some(NOT_SERVING)));
        }
        let checked = match self.access {
            Access::Anyone => Ok(()),
            Access::Caller | Access::Reader => credentials.identities(view).map(drop),
            Access::Administrator => credentials.check(view),
        };
        if let Err(refused) = checked {
            return Some(refused.answer(requested_name));
        }
        if (request.method() == Method::POST) != (self.method == Method::POST) {
            // Java does not construct an answer in this case, and fails.
            let message = format!(
                "the command {} requires the method {}",
                self.name, self.method
            );
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            return Some(Answer::page(status, request.uri().path(), &message));
        }
        None
    }
}

pub(super) fn is_serving(view: &dyn AdminView) -> bool {
    view.role().served_mode().is_some()
}
