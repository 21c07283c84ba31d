//! From a request to a response.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use monitoring::admin::{self, AdminView, Answer, Call, Command, Credentials, Route, Task};

use super::super::http::{Activity, Answers, ResponseBody, respond};
use super::Admin;

/// Where the caller's address is if a proxy stands in front.
/// Source: IPAuthenticationProvider.X_FORWARDED_FOR_HEADER_NAME.
const FORWARDED_FOR: &str = "x-forwarded-for";

impl Answers for Admin {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: SocketAddr,
        activity: Activity,
    ) -> Response<ResponseBody> {
        let uri = request.uri();
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
                tracing::debug!(%peer, command = command.name, "admin command");
                let address = self.address_of(&request, peer);
                let asked = Asked {
                    asked,
                    address,
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
    fn address_of(&self, request: &Request<Incoming>, peer: SocketAddr) -> String {
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
        let credentials = Credentials {
            header: header.map(HeaderValue::as_bytes),
            address: &asked.address,
        };
        let line = (asked.request.method(), asked.request.uri().path());
        if let Some(refusal) = command.refuse(&asked.asked, line, Some(&view), &credentials) {
            return respond(refusal);
        }
        match &command.task {
            Task::Look(_) => {
                let _at_work = activity.begin();
                self.look(command.name, asked.call).await
            }
            Task::Snapshot => {
                let _at_work = activity.begin();
                self.snapshot(served, command.name, &asked.call).await
            }
            // While its body comes in, silence is watched as anywhere.
            Task::Restore => {
                let body = asked.request.into_body();
                let answer = self.restore(served, body, activity).await;
                respond(answer.under(command.name, None))
            }
        }
    }

    /// Some commands walk the tree or the disk: not on a thread that serves clients.
    async fn look(self: &Arc<Self>, name: &'static str, call: Call) -> Response<ResponseBody> {
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
    call: Call,
    request: Request<Incoming>,
}
