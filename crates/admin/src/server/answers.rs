//! Handler of admin requests, which converts a request to a response.

use std::net::SocketAddr;
use std::sync::Arc;

use config::AdminScheme;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use transport::tls::known_to_clients;

use super::Admin;
use crate::answer::{Answer, Object};
use crate::commands::{self, Access, Call, Command, Credentials, Route, Task};
use crate::console::{Caller as Visitor, Console};
use crate::http::{
    Activity, Answers, AtWork, Caller, NotDone, ResponseBody, is_from_here, respond,
};

/// Reason for the refusal of a request that a page of another site makes the browser send.
const FOREIGN_PAGE: &str =
    "the request comes from a page of another site (Origin or Sec-Fetch-Site)";

/// Reason for the refusal of a host name that an attacker may control.
const UNKNOWN_HOST: &str = "the name in Host is not a known name of this server: add the name to admin.console.hosts, or use an address";

/// Header with the caller's address, set by a proxy. Source:
/// IPAuthenticationProvider.X_FORWARDED_FOR_HEADER_NAME.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Path prefix of the probes.
pub(super) const HEALTH: &str = "/health/";

impl Answers for Admin {
    /// Counts plain connections to a port that accepts both plain and TLS connections. Source:
    /// UnifiedConnectionFactory.
    fn connected(&self, caller: &Caller) {
        if self.config.admin.scheme == AdminScheme::Both && !caller.is_tls {
            self.metrics.insecure_admin_count.inc();
        }
    }

    fn is_answered_always(&self, path: &str) -> bool {
        path.starts_with(HEALTH)
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        caller: Caller,
        activity: Activity,
    ) -> Response<ResponseBody> {
        let uri = request.uri();
        if let Some(console) = &self.console
            && Console::serves(uri.path())
        {
            return self.ask_console(console, request, &caller, &activity).await;
        }
        let route = self
            .commands
            .route(request.method(), uri.path(), uri.query());
        match route {
            Route::Answer(answer) => respond(answer),
            Route::Live => respond(Answer::status(StatusCode::OK)),
            Route::Ready => {
                let role = self.served.get().map(|served| served.view.role());
                respond(commands::ready(role.as_deref()))
            }
            Route::Run {
                command,
                name,
                call,
            } => {
                let peer = caller.peer;
                tracing::debug!(%peer, command = command.name, "admin command");
                if let Some(refusal) = self.guard(command, &request, peer) {
                    return respond(refusal);
                }
                let address = self.address_of(&request, peer);
                let received = CommandRequest {
                    name,
                    address,
                    caller,
                    call,
                    request,
                };
                self.run(command, received, &activity).await
            }
        }
    }
}

impl Admin {
    /// Refuses requests that a page from another site makes a browser send. Also refuses requests
    /// whose `Host` is not a known name of this server. Scrapers and dashboards may use other
    /// names, so commands of Apache ZooKeeper that only read are executed nevertheless, unless
    /// `admin.strictHost` is set.
    fn guard(
        &self,
        command: &Command,
        request: &Request<Incoming>,
        peer: SocketAddr,
    ) -> Option<Answer> {
        let refuse = |status, text: &str| {
            let refusal = Answer::found(Object::new().with("error", text));
            let refusal = refusal.under(command.name, None);
            Some(Answer { status, ..refusal })
        };
        if !is_from_here(request.headers()) {
            return refuse(StatusCode::FORBIDDEN, FOREIGN_PAGE);
        }
        if self.names.are_meant(request.uri(), request.headers()) {
            return None;
        }
        let is_strict = self.config.admin.strict_host || command.is_our_own();
        if is_strict || command.changes_something() {
            return refuse(StatusCode::MISDIRECTED_REQUEST, UNKNOWN_HOST);
        }
        let host = request.headers().get(header::HOST);
        log_limiter::limited!(warn, %peer, ?host, "executed a command although the name in Host is not a known name of this server: add the name to admin.console.hosts, or refuse such commands with admin.strictHost=true");
        None
    }

    /// Returns the client's address as text, from the header [`FORWARDED_FOR`] if the configuration
    /// trusts the header. Source: IPAuthenticationProvider.getClientIPAddress.
    pub(super) fn address_of(&self, request: &Request<Incoming>, peer: SocketAddr) -> String {
        let own = peer.ip().to_canonical().to_string();
        if !self.config.auth.use_x_forwarded_for {
            return own;
        }
        let header = request.headers().get(FORWARDED_FOR);
        let first = header
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.split(',').next())
            .map(|address| address.trim().to_owned());
        first.filter(|address| !address.is_empty()).unwrap_or(own)
    }

    /// Returns the sender of a request, without the subject of its certificate.
    pub(super) fn visitor(&self, request: &Request<Incoming>, caller: &Caller) -> Visitor {
        let address = self.address_of(request, caller.peer).parse();
        let ip = address.unwrap_or(caller.peer.ip());
        Visitor::new(caller.peer, ip, caller.is_tls, request.headers())
    }

    async fn run(
        self: &Arc<Self>,
        command: &Command,
        received: CommandRequest,
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let Some(served) = self.served.get() else {
            return respond(Answer::done().under(command.name, Some(commands::NOT_SERVING)));
        };
        self.refresh_token(received.request.headers()).await;
        let view = &*served.view;
        let header = received.request.headers().get(header::AUTHORIZATION);
        let header = header.map(HeaderValue::as_bytes);
        let mut visitor = self.visitor(&received.request, &received.caller);
        if command.access != Access::Anyone {
            visitor.subject = self.subject_of(&received.caller).await;
        }
        let credentials = Credentials {
            header,
            address: &received.address,
            subject: visitor.subject.as_deref(),
        };
        let peer = received.caller.peer;
        if header.is_some() && (served.operations.refuses_logins)(peer) {
            let refusal = Answer::refused(StatusCode::TOO_MANY_REQUESTS);
            return respond(refusal.under(command.name, None));
        }
        let refusal = command.refuse(&received.name, &received.request, view, &credentials);
        if let Some(refusal) = refusal {
            if header.is_some() && refusal.status.is_client_error() {
                log_limiter::limited!(warn, %peer, command = command.name, status = refusal.status.as_u16(), "admin command refused");
                (served.operations.login_failed)(peer);
            }
            return respond(refusal);
        }
        let mut call = received.call;
        if matches!(command.access, Access::Caller | Access::Reader) {
            // Invalid credentials were refused above.
            call.identities = credentials.identities(view).unwrap_or_default();
        }
        if command.access == Access::Reader
            && let Err(refused) = self.member().check_reader(&call.identities, &visitor)
        {
            return respond(refused.answer(&received.name));
        }
        match &command.task {
            Task::List(list) => self.list(served, command.name, *list, activity).await,
            Task::Look(_) => {
                let at_work = activity.begin();
                // These commands include the queries of the change history, so only a limited
                // number of them run at a time.
                let turn = match command.access {
                    Access::Anyone | Access::Administrator => None,
                    Access::Caller | Access::Reader => {
                        self.questions.clone().acquire_owned().await.ok()
                    }
                };
                self.look(command.name, call, turn, at_work).await
            }
            #[cfg(feature = "history")]
            Task::Feed => self.feed(&call).await,
            Task::Snapshot => self.snapshot(served, command.name, &call, activity).await,
            Task::Log => self.log(served, command.name, &call, activity).await,
            // While the body arrives, the idle timeout applies as usual.
            Task::Restore => {
                let body = received.request.into_body();
                let answer = self.restore(served, body, activity).await;
                respond(answer.under(command.name, None))
            }
        }
    }

    /// Reloads the administrators' credential if the request uses it, so that a credential that was
    /// just written is already valid.
    async fn refresh_token(&self, headers: &HeaderMap) {
        const BEGINNING: &str = "digest admin-token:";
        let header = headers.get(header::AUTHORIZATION);
        let is_token =
            header.is_some_and(|header| header.as_bytes().starts_with(BEGINNING.as_bytes()));
        if is_token {
            let token = self.token.clone();
            // If the reload fails, a new credential stays unknown, and the command is refused.
            let _ = self.workers.run(move |_| token.refresh()).await;
        }
    }

    /// Returns the subject of the caller's certificate if the client ports would accept the
    /// certificate.
    pub(super) async fn subject_of(&self, caller: &Caller) -> Option<String> {
        if caller.certificates.is_empty() {
            return None;
        }
        let (config, certificates) = (self.config.clone(), caller.certificates.clone());
        let looking = self
            .workers
            .run(move |_| known_to_clients(&config.client_tls.tls, &certificates));
        match looking.await.ok()? {
            Ok(subject) => Some(subject),
            Err(error) => {
                let peer = caller.peer;
                log_limiter::limited!(warn, %peer, err = %error, "ignoring an admin client's certificate because the client port would refuse it");
                None
            }
        }
    }

    /// Runs a command that reads. Some commands walk the tree or read the disk, so they do not run
    /// on a thread that serves clients. The permit and the slot are released when the work ends.
    pub(super) async fn look(
        self: &Arc<Self>,
        name: &'static str,
        mut call: Call,
        turn: Option<OwnedSemaphorePermit>,
        at_work: AtWork,
    ) -> Response<ResponseBody> {
        let admin = self.clone();
        let looking = self.workers.run(move |requester| {
            call.is_abandoned = requester.flag();
            let found = admin.look_at(name, &call);
            drop((turn, at_work));
            found
        });
        match looking.await {
            Ok(Some(answer)) => respond(answer.under(name, None)),
            Ok(None) | Err(NotDone) => respond(Answer::status(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }

    pub(super) fn look_at(&self, name: &str, call: &Call) -> Option<Answer> {
        let served = self.served.get()?;
        let Task::Look(look) = &self.commands.find(name)?.task else {
            return None;
        };
        Some(look(&*served.view, call))
    }
}

/// Request for a command.
struct CommandRequest {
    name: String,
    address: String,
    caller: Caller,
    call: Call,
    request: Request<Incoming>,
}
