//! The web console of this server. Znodes are accessed through a client connection, sessions are
//! read directly.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ::console::{Caller, Console, Login, Member, Outcome, SessionsPage, Settings, sessions_answer};
use config::{ClientAuth, Config};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use monitoring::admin::{self, Answer, Call, Object};
use monitoring::recent_log::RECENT_LOG;
use monitoring::view::AdminView;
use proto::Id;
use tokio::io::DuplexStream;
use transport::tls::known_to_clients;

use super::{Admin, Served};
use crate::http::{self, Activity, AtWork, ResponseBody, respond};
use crate::token::random_hex;

/// Returns the name of this machine.
#[allow(clippy::disallowed_methods, reason = "runs at the start")]
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Returns the names by which the server is reached, in addition to addresses and `localhost`.
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

/// Returns the console, unless it is switched off or the commands are at `/`.
pub(super) fn set_up(config: &Config) -> Option<Console> {
    if !config.admin.console_enabled {
        return None;
    }
    let commands = config.admin.command_url.trim_end_matches('/').to_owned();
    if commands.is_empty() || Console::serves(&format!("{commands}/")) {
        tracing::warn!("the console is off because admin.commandURL uses its path");
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
        version: monitoring::version::FULL.to_owned(),
        has_history: config.history.is_some(),
        data_bytes_max: config.limits.jute_max_buffer as usize,
    }))
}

impl Admin {
    /// Answers the requests of the page.
    pub(super) async fn ask_console(
        self: &Arc<Self>,
        console: &Console,
        request: Request<Incoming>,
        caller: &http::Caller,
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let _at_work = activity.begin();
        let address = self.address_of(&request, caller.peer).parse::<IpAddr>();
        let ip = address.unwrap_or(caller.peer.ip());
        let visitor = Caller::new(caller.peer, ip, caller.is_tls, request.headers());
        let certified = if caller.certificates.is_empty() {
            false
        } else {
            self.shows_client_certificate(caller).await
        };
        let server = Server {
            served: self.served.get(),
            config: &self.config,
            started: self.started,
            certified,
        };
        let answer = match console.answer(&server, request, &visitor).await {
            Outcome::Answer(answer) => return respond(answer),
            Outcome::Sessions(page, login) => {
                let administers = |login: &Login| server.is_administrator(login, &visitor);
                let whole_ids = login.as_ref().is_some_and(administers);
                self.look_at_sessions((page, whole_ids), activity.begin())
                    .await
            }
            Outcome::Command(command, parameters, login) => {
                let asked = (command, parameters, activity.begin());
                let told = self.ask_command(asked, login, &visitor);
                let (mut head, body) = told.await.into_parts();
                head.headers.extend(Console::headers());
                return Response::from_parts(head, body);
            }
            Outcome::Log(login) => self.show_log(&login, &visitor),
        };
        respond(Console::finished(answer))
    }

    async fn shows_client_certificate(&self, caller: &http::Caller) -> bool {
        let (config, certificates) = (self.config.clone(), caller.certificates.clone());
        let looking = self
            .workers
            .run(move |_| known_to_clients(&config.client_tls.tls, &certificates).is_ok());
        looking.await.unwrap_or(false)
    }

    /// Lists the sessions. There may be many, so this does not run on a thread that serves clients.
    async fn look_at_sessions(
        self: &Arc<Self>,
        (page, is_administrator): (SessionsPage, bool),
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
        (command, parameters, at_work): (&'static str, Vec<(String, String)>, AtWork),
        login: Option<Login>,
        visitor: &Caller,
    ) -> Response<ResponseBody> {
        if command.starts_with("history/") && self.config.history.is_none() {
            return respond(Answer::status(StatusCode::NOT_FOUND));
        }
        let Some(served) = self.served.get() else {
            return respond(Answer::status(StatusCode::SERVICE_UNAVAILABLE));
        };
        let identities = login.map_or_else(Vec::new, |login| of(&*served.view, &login, visitor));
        let turn = self.questions.clone().acquire_owned().await.ok();
        let call = Call {
            parameters,
            identities,
            ..Call::default()
        };
        self.look(command, call, (turn, at_work)).await
    }

    /// Returns the log. Only administrators may read it, because it contains clients and paths.
    fn show_log(&self, login: &Login, visitor: &Caller) -> Answer {
        let Some(served) = self.served.get() else {
            return Answer::status(StatusCode::SERVICE_UNAVAILABLE);
        };
        let view = &*served.view;
        let identities = of(view, login, visitor);
        if let Err(refused) = admin::Refused::unless_administrator(view, &identities) {
            return refused.answer("log");
        }
        let (lines, lost) = RECENT_LOG.lines();
        Answer::json(
            StatusCode::OK,
            &Object::new().with("lines", lines).with("lost", lost),
        )
    }
}

/// Returns the identities that a visitor has proved.
fn of(view: &dyn AdminView, login: &Login, visitor: &Caller) -> Vec<Id> {
    let address = visitor.peer.ip().to_canonical().to_string();
    let auth = Some(login.auth.expose().as_bytes());
    view.identities(&login.scheme, auth, &address)
}

/// Access of the console to this server.
struct Server<'a> {
    served: Option<&'a Served>,
    config: &'a Config,
    /// Start of the clock for visits.
    started: Instant,
    /// Whether the caller has presented a certificate that the secure client port would accept.
    certified: bool,
}

impl Member for Server<'_> {
    type Stream = DuplexStream;

    fn connect(&self, caller: &Caller) -> Result<DuplexStream, String> {
        self.reachable(caller)?;
        let served = self.served.ok_or("the data is being loaded")?;
        (served.operations.connect)(caller.peer)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn notice(&self) -> Option<String> {
        let view = &self.served?.view;
        view.is_open_to_world()
            .then(|| admin::OPEN_TO_WORLD.to_owned())
    }

    fn is_administrator(&self, login: &Login, caller: &Caller) -> bool {
        let Some(served) = self.served else {
            return false;
        };
        let view = &*served.view;
        view.is_administrator(&of(view, login, caller))
    }

    fn token(&self) -> Option<String> {
        random_hex::<16>().ok()
    }
}

impl Server<'_> {
    /// Refuses visitors that the client ports would refuse.
    fn reachable(&self, caller: &Caller) -> Result<(), String> {
        let reaches = |at: &config::ClientAddress| !at.ip.is_loopback() || caller.is_near;
        let client = &self.config.client;
        if client.plain.as_ref().is_some_and(reaches) {
            return Ok(());
        }
        let wants = self.config.client_tls.tls.client_auth == ClientAuth::Need;
        let by_tls = client.secure.as_ref().is_some_and(reaches);
        if by_tls && caller.is_tls && (!wants || self.certified) {
            return Ok(());
        }
        Err(match (by_tls, wants) {
            (true, true) => {
                "this server requires TLS with a client certificate: use HTTPS with a certificate \
                             (admin.forceHttps, admin.needClientAuth)"
            }
            (true, false) => "this server requires TLS: use HTTPS (admin.forceHttps)",
            (false, _) => "this server accepts only clients on its own machine (clientPortAddress)",
        }
        .to_owned())
    }
}
