//! What becomes of a request line.

use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use super::answer::{Answer, Body};
use super::authorization::Credentials;
use super::command::{Access, Call, Command};
use super::health;
use super::table::Commands;
use super::view::AdminView;

/// What a request leads to.
#[derive(Debug)]
pub enum Route<'a> {
    /// The answer is known.
    Answer(Answer),
    /// A command is called.
    Run {
        /// Which.
        command: &'a Command,
        /// By which name.
        asked: String,
        /// With what.
        call: Call,
    },
    /// `/health/live`: the process answers.
    Live,
    /// `/health/ready`: clients are served.
    Ready,
}

/// The error of commands that need a server that serves.
pub const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// What Jetty allows.
const ALLOWED: &str = "GET, HEAD, POST, TRACE, OPTIONS";

impl Commands {
    /// Where a request leads. `path` and `query` are as they came.
    ///
    /// Paths are looked up by [`percent-decoding`](percent_decode_str) all that stands behind the
    /// commands' prefix; they name commands and never files.
    pub fn route(&self, method: &Method, path: &str, query: Option<&str>) -> Route<'_> {
        if *method == Method::TRACE {
            return Route::Answer(Answer::status(StatusCode::FORBIDDEN));
        }
        let is_read = *method == Method::GET || *method == Method::HEAD;
        match path {
            health::LIVE if is_read => return Route::Live,
            health::READY if is_read => return Route::Ready,
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
        let asked = percent_decode_str(name).decode_utf8_lossy().into_owned();
        let Some(command) = self.find(&asked) else {
            let error = format!("Unknown command: {asked}");
            return Route::Answer(Answer::done().under(&asked, Some(&error)));
        };
        let call = Call::parse(query);
        Route::Run {
            command,
            asked,
            call,
        }
    }

    /// Links to all commands. It has no type in Java either.
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
    /// The answer to a call that comes no further: in Java's order nobody is served, the caller may
    /// not, the method is another one. `view` is `None` while the data is being loaded.
    pub fn refuse(
        &self,
        asked: &str,
        request: (&Method, &str),
        view: Option<&dyn AdminView>,
        credentials: &Credentials<'_>,
    ) -> Option<Answer> {
        let (method, path) = request;
        let serving = view.filter(|view| !self.needs_server || is_serving(*view));
        let Some(view) = serving else {
            return Some(Answer::done().under(self.name, Some(NOT_SERVING)));
        };
        let checked = match self.access {
            Access::Anyone => Ok(()),
            Access::Caller => credentials.identities(view).map(drop),
            Access::Administrator => credentials.check(view),
        };
        if let Err(refused) = checked {
            return Some(refused.answer(asked));
        }
        if (*method == Method::POST) != (self.method == Method::POST) {
            // Java has nothing to answer then, and fails at that.
            let message = format!("{} is called by {}", self.name, self.method);
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            return Some(Answer::page(status, path, &message));
        }
        None
    }
}

pub(super) fn is_serving(view: &dyn AdminView) -> bool {
    view.role().served_mode().is_some()
}
