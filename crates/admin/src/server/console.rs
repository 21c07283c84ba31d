//! Web console of this server. Znodes are accessed through a client connection, and sessions are
//! read directly.

use std::sync::Arc;

use config::Config;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use metrics::recent_log::RECENT_LOG;
use proto::{Secret, Sid};
use serde_json::json;

use super::members::QueryError;
use super::{Admin, figures};
use crate::answer::{Answer, Object, written};
use crate::commands::{self, Access, Call};
use crate::console::{
    Caller, Console, Login, Member, Outcome, SessionsPage, Settings, headers, identities, secured,
    sessions_answer,
};
use crate::http::{self, Activity, AtWork, ResponseBody, respond};

/// Returns the name of this machine.
#[allow(clippy::disallowed_methods, reason = "runs at the start of the server")]
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Returns the names by which clients reach the server, in addition to addresses and `localhost`.
pub(super) fn names(config: &Config) -> Vec<String> {
    let mut names = config.admin.console_hosts.clone();
    names.extend([machine(), config.admin.address.clone()]);
    if let Some(ensemble) = &config.ensemble {
        let own = ensemble.membership.members.get(&ensemble.my_id);
        let hosts = own.into_iter().flat_map(|own| &own.addresses);
        names.extend(hosts.map(|address| address.host.clone()));
        let named = config.admin.member_ports.get(&ensemble.my_id);
        names.extend(named.map(|port| port.host.clone()));
    }
    names
}

/// Returns the console, unless it is disabled or `admin.commandURL` uses one of its paths.
pub(super) fn set_up(config: &Config) -> Option<Console> {
    if !config.admin.console_enabled {
        return None;
    }
    let commands = config.admin.command_url.trim_end_matches('/').to_owned();
    if commands.is_empty() || Console::serves(&format!("{commands}/")) {
        tracing::warn!(
            "the console is off because admin.commandURL uses the console's path; set another admin.commandURL"
        );
        return None;
    }
    let mut title = machine();
    if let Some(ensemble) = &config.ensemble {
        title = format!("server {} on {title}", ensemble.my_id);
    }
    Some(Console::new(Settings {
        names: names(config),
        commands,
        title,
        version: metrics::version::FULL.to_owned(),
        has_history: config.history.is_some(),
        data_bytes_max: config.limits.jute_max_buffer as usize,
    }))
}

/// Returns the query to another member for the clients that sent the transactions in `call`.
fn origins_request(call: &Call) -> String {
    let zxids = call.parameters.iter().filter(|(name, _)| name == "zxid");
    let mut query = form_urlencoded::Serializer::new("history/origins?".to_owned());
    query.extend_pairs(zxids).finish()
}

impl Admin {
    /// Returns the access of visitors to this member.
    pub(super) fn member(&self) -> Member<'_> {
        Member {
            served: self.served.get(),
            config: &self.config,
            started: self.started,
        }
    }

    /// Answers a request of the console's page.
    pub(super) async fn ask_console(
        self: &Arc<Self>,
        console: &Console,
        request: Request<Incoming>,
        caller: &http::Caller,
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let _at_work = activity.begin();
        let mut visitor = self.visitor(&request, caller);
        // Behind a proxy, the certificate belongs to the proxy.
        let subject = self.subject_of(caller).await;
        visitor.subject = subject.filter(|_| !visitor.is_forwarded);
        let member = self.member();
        let answer = match console.answer(&member, request, &visitor).await {
            Outcome::Answer(answer) => return respond(answer),
            Outcome::Sessions(page, login) => {
                let administers = |login: &Login| member.is_administrator(login, &visitor);
                let whole_ids = login.as_ref().is_some_and(administers);
                self.look_at_sessions(page, whole_ids, activity.begin())
                    .await
            }
            Outcome::Command(command, call, login) => {
                let at_work = activity.begin();
                let answering = self.ask_command(command, call, at_work, login, &visitor);
                let (mut head, body) = answering.await.into_parts();
                head.headers.extend(headers());
                return Response::from_parts(head, body);
            }
            Outcome::Ensemble => self.show_ensemble().await,
            Outcome::Log(login) => self.show_log(&login, &visitor),
        };
        respond(secured(answer))
    }

    /// Queries another member for a visitor that this member has admitted. The other member does
    /// not know the visitor's address. The answer contains the figures that the member keeps, or
    /// the clients of changes, which are known only to the members that serve these clients.
    async fn ask_member(&self, command: &'static str, call: &Call, login: Option<Login>) -> Answer {
        let refused = |status, text: &str| Answer::json(status, &Object::new().with("error", text));
        let named = call.parameter("member");
        let Some(sid) = named.and_then(|id| id.parse().ok()).map(Sid) else {
            return refused(
                StatusCode::BAD_REQUEST,
                "`member` is not the id of a member",
            );
        };
        let (Some(watcher), Some(served)) = (self.watcher.get(), self.served.get()) else {
            return Answer::status(StatusCode::SERVICE_UNAVAILABLE);
        };
        let (query, login) = match command {
            "figures" => (figures::request(call), None),
            _ => (origins_request(call), login),
        };
        let header = match login {
            Some(Login::Digest(auth)) => Some(Secret::new(format!("digest {}", auth.expose()))),
            _ => None,
        };
        let role = served.view.role();
        let members = role.members.as_deref();
        let found = watcher.ask(sid, members, &query, header.as_ref());
        match found.await {
            Ok(found) => written(StatusCode::OK, command, found),
            Err(QueryError::Unreachable(reason) | QueryError::Refused(reason)) => {
                refused(StatusCode::BAD_GATEWAY, &reason)
            }
        }
    }

    /// Returns the state of the ensemble, which a task maintains.
    async fn show_ensemble(&self) -> Answer {
        let state = match self.watcher.get() {
            Some(watcher) => watcher.state().await,
            None => None,
        };
        let loading = json!({
            "health": {
                "verdict": "down", "title": "Loading", "summary": "the server is loading its data",
                "faults": [], "line": "Loading (the server is loading its data)",
            },
            "members": [], "events": [],
        });
        written(StatusCode::OK, "ensemble", state.unwrap_or(loading))
    }

    /// Lists the sessions. There may be many, so the work does not run on a thread that serves
    /// clients.
    async fn look_at_sessions(
        self: &Arc<Self>,
        page: SessionsPage,
        is_administrator: bool,
        at_work: AtWork,
    ) -> Answer {
        let admin = self.clone();
        let looking = self.workers.run(move |_| {
            let _at_work = at_work;
            let view = &admin.served.get()?.view;
            Some(sessions_answer(&**view, &page, is_administrator))
        });
        let looked = looking.await.ok().flatten();
        looked.unwrap_or_else(|| Answer::status(StatusCode::SERVICE_UNAVAILABLE))
    }

    /// Runs a command of the admin server with the visitor's identity in place of a header.
    async fn ask_command(
        self: &Arc<Self>,
        command: &'static str,
        mut call: Call,
        at_work: AtWork,
        login: Option<Login>,
        visitor: &Caller,
    ) -> Response<ResponseBody> {
        if command.starts_with("history/") && self.config.history.is_none() {
            return respond(Answer::status(StatusCode::NOT_FOUND));
        }
        let Some(served) = self.served.get() else {
            return respond(Answer::status(StatusCode::SERVICE_UNAVAILABLE));
        };
        if let Some(login) = &login {
            call.identities = identities(&*served.view, login, visitor);
        }
        let access = self.commands.find(command).map(|found| found.access);
        if access == Some(Access::Reader)
            && let Err(refused) = self.member().check_reader(&call.identities, visitor)
        {
            return respond(refused.answer(command));
        }
        if matches!(command, "figures" | "history/origins") && call.parameter("member").is_some() {
            return respond(self.ask_member(command, &call, login).await);
        }
        #[cfg(feature = "history")]
        if command == super::history::FEED {
            return self.feed(&call).await;
        }
        let turn = self.questions.clone().acquire_owned().await.ok();
        self.look(command, call, turn, at_work).await
    }

    /// Returns the log. Only administrators may read it, because it contains client addresses and
    /// znode paths.
    fn show_log(&self, login: &Login, visitor: &Caller) -> Answer {
        let Some(served) = self.served.get() else {
            return Answer::status(StatusCode::SERVICE_UNAVAILABLE);
        };
        let proved = identities(&*served.view, login, visitor);
        if let Err(refused) = commands::Refused::unless_administrator(&*served.view, &proved) {
            return refused.answer("log");
        }
        let (lines, lost) = RECENT_LOG.lines();
        let log = Object::new().with("lines", lines).with("lost", lost);
        Answer::json(StatusCode::OK, &log)
    }
}
