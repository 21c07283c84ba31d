//! From a request to a response.

use std::net::SocketAddr;
use std::sync::Arc;

use ::console::Console;
use config::AdminScheme;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use monitoring::admin::{self, Access, AdminView, Answer, Call, Command, Credentials, Route, Task};
use transport::tls::known_to_clients;
use tree::auth::X509;

use super::super::http::{Activity, Answers, Caller, ResponseBody, respond};
use super::Admin;

/// Where the caller's address is if a proxy stands in front.
/// Source: IPAuthenticationProvider.X_FORWARDED_FOR_HEADER_NAME.
const FORWARDED_FOR: &str = "x-forwarded-for";

impl Answers for Admin {
    /// Source: UnifiedConnectionFactory.
    fn connected(&self, caller: &Caller) {
        if self.config.admin.scheme == AdminScheme::Both && !caller.is_tls {
            self.metrics.insecure_admin_count.inc();
        }
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
            let _at_work = activity.begin();
            return self.ask_console(console, request, &caller).await;
        }
        let route = self
            .commands
            .route(request.method(), uri.path(), uri.query());
        match route {
            Route::Answer(answer) => respond(answer),
            Route::Live => respond(Answer::status(StatusCode::OK)),
            Route::Ready => {
                let role = self.served.get().map(|served| served.clients.role.get());
                respond(admin::ready(role.as_deref()))
            }
            Route::Run {
                command,
                asked,
                call,
            } => {
                let peer = caller.peer;
                tracing::debug!(%peer, command = command.name, "admin command");
                let address = self.address_of(&request, peer);
                let asked = Asked {
                    asked,
                    address,
                    caller,
                    call,
                    request,
                };
                self.run(command, asked, &activity).await
            }
        }
    }
}

impl Admin {
    /// The address that identities go by. Source: IPAuthenticationProvider.getClientIPAddress.
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

    async fn run(
        self: &Arc<Self>,
        command: &Command,
        asked: Asked,
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let Some(served) = self.served.get() else {
            return respond(Answer::done().under(command.name, Some(admin::NOT_SERVING)));
        };
        let view = served.view();
        let header = asked.request.headers().get(header::AUTHORIZATION);
        let header = header.map(HeaderValue::as_bytes);
        let subject = match Credentials::scheme(header) {
            Some(X509) => self.subject_of(&asked.caller).await,
            _ => None,
        };
        let credentials = Credentials {
            header,
            address: &asked.address,
            subject: subject.as_deref(),
        };
        let line = (asked.request.method(), asked.request.uri().path());
        let peer = asked.caller.peer;
        if header.is_some() && served.clients.refuses_logins(peer) {
            let refusal = Answer::refused(StatusCode::TOO_MANY_REQUESTS);
            return respond(refusal.under(command.name, None));
        }
        if let Some(refusal) = command.refuse(&asked.asked, line, Some(&view), &credentials) {
            if header.is_some() && refusal.status.is_client_error() {
                tracing::warn!(%peer, command = command.name, status = refusal.status.as_u16(), "admin command refused");
                served.clients.login_failed(peer);
            }
            return respond(refusal);
        }
        let mut call = asked.call;
        if command.access == Access::Caller {
            // Refused above if they are no good.
            call.identities = credentials.identities(&view).unwrap_or_default();
        }
        match &command.task {
            Task::Look(_) => {
                let _at_work = activity.begin();
                // What is answered by what the caller may read is read from the history.
                let _turn = match command.access {
                    Access::Caller => self.questions.acquire().await.ok(),
                    Access::Anyone | Access::Administrator => None,
                };
                self.look(command.name, call).await
            }
            Task::Feed => self.feed(&call).await,
            Task::Snapshot => {
                let _at_work = activity.begin();
                self.snapshot(served, command.name, &call).await
            }
            Task::Log => {
                let _at_work = activity.begin();
                self.log(served, command.name, &call).await
            }
            // While its body comes in, silence is watched as anywhere.
            Task::Restore => {
                let body = asked.request.into_body();
                let answer = self.restore(served, body, activity).await;
                respond(answer.under(command.name, None))
            }
        }
    }

    /// Whom the client ports would know by the certificate that the caller has shown.
    async fn subject_of(&self, caller: &Caller) -> Option<String> {
        if caller.certificates.is_empty() {
            return None;
        }
        let (config, certificates) = (self.config.clone(), caller.certificates.clone());
        let looking = tokio::task::spawn_blocking(move || {
            known_to_clients(&config.client_tls.tls, &certificates)
        });
        match looking.await.ok()? {
            Ok(subject) => Some(subject),
            Err(error) => {
                let peer = caller.peer;
                tracing::warn!(%peer, err = %error, "the certificate of an admin client is not that of a client");
                None
            }
        }
    }

    /// Some commands walk the tree or the disk: not on a thread that serves clients.
    pub(super) async fn look(
        self: &Arc<Self>,
        name: &'static str,
        call: Call,
    ) -> Response<ResponseBody> {
        let admin = self.clone();
        let looking = tokio::task::spawn_blocking(move || admin.look_at(name, &call));
        match looking.await {
            Ok(Some(answer)) => respond(answer.under(name, None)),
            Ok(None) | Err(_) => respond(Answer::status(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }

    fn look_at(&self, name: &str, call: &Call) -> Option<Answer> {
        let view = self.served.get()?.view();
        let Task::Look(look) = &self.commands.find(name)?.task else {
            return None;
        };
        let view: &dyn AdminView = &view;
        Some(look(view, call))
    }
}

/// A request for a command.
struct Asked {
    asked: String,
    address: String,
    caller: Caller,
    call: Call,
    request: Request<Incoming>,
}
