//! Routing of requests to responses.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use proto::response::WhoAmIResponse;
use proto::{Id, OpCode, Secret};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tree::auth::SASL;

use super::edit::wrong;
use super::guard::secured;
use super::ids::SessionIds;
use super::member::{Member, identities};
use super::said::{Refusal, found};
use super::session::{Fault, ZnodeSession};
use super::sessions::SessionsPage;
use super::visits::{Login, Visit, Visits};
use super::{assets, edit, shown};
use crate::answer::Answer;
use crate::commands::Call;
use crate::http::{Names, is_from_here};
use crate::limits::{BODY_PATIENCE, FORM_BYTES_MAX, ZNODE_REQUESTS_MAX};

/// Header with the token of a visit. A page from another site cannot send it, because a custom
/// header requires a permission (CORS) that is never granted.
const TOKEN: HeaderName = HeaderName::from_static("x-zoarium-visit");

/// Prefix of the paths of all requests by the page.
const BELOW: &str = "/console/";

/// Estimated maximum size, in bytes, of a request to the member without its path and data.
const REQUEST_BYTES_AROUND: usize = 256;

/// Commands of the admin server that the page executes with the visitor's identity.
const COMMANDS: [&str; 9] = [
    "clients",
    "figures",
    "search",
    "slow_requests",
    "history/changes",
    "history/tree",
    "history/diff",
    "history/origins",
    "history/feed",
];

/// Routes of the page in addition to [`COMMANDS`]: method, and path below [`BELOW`]. All other paths
/// refer to files.
const ROUTES: &[(Method, &str)] = &[
    (Method::POST, "visit"),
    (Method::POST, "login"),
    (Method::POST, "logout"),
    (Method::GET, "ensemble"),
    (Method::GET, "sessions"),
    (Method::GET, "log"),
    (Method::GET, "node"),
    (Method::POST, "node"),
    (Method::DELETE, "node"),
    (Method::GET, "data"),
    (Method::PUT, "data"),
    (Method::PUT, "acl"),
    (Method::GET, "stat"),
    (Method::GET, "children"),
];

/// Headers that proxies set. If one is present, the peer's address is not the client's address.
const FORWARDED: [&str; 2] = ["forwarded", "x-forwarded-for"];

/// Sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Address of the caller.
    pub(crate) peer: SocketAddr,
    /// Whether the connection is encrypted.
    pub(crate) is_tls: bool,
    /// Whether the caller is on this machine and the request did not pass through a proxy.
    pub(crate) is_near: bool,
    /// Whether the request passed through a proxy. A certificate then belongs to the proxy.
    pub(crate) is_forwarded: bool,
    /// Subject of the caller's certificate, if the secure client port would accept it.
    pub(crate) subject: Option<String>,
}

impl Caller {
    /// Constructs the sender of a request with these headers. `peer` is the remote address of the
    /// connection, and `ip` is the caller's address, which a proxy may have reported.
    pub(crate) fn new(peer: SocketAddr, ip: IpAddr, is_tls: bool, headers: &HeaderMap) -> Self {
        let is_forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
        Self {
            peer: SocketAddr::new(ip, peer.port()),
            is_tls,
            is_near: peer.ip().to_canonical().is_loopback() && !is_forwarded,
            is_forwarded,
            subject: None,
        }
    }
}

/// Settings of the console.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// Host names of the server, in addition to addresses and `localhost`.
    pub(crate) names: Vec<String>,
    /// Path prefix of the admin server's commands.
    pub(crate) commands: String,
    /// Name of this server for the title of the page.
    pub(crate) title: String,
    /// Version of the server.
    pub(crate) version: String,
    /// Whether a change history is recorded.
    pub(crate) has_history: bool,
    /// Maximum size of a znode's data, in bytes.
    pub(crate) data_bytes_max: usize,
}

/// Result of a request. The admin server completes some results.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Complete response.
    Answer(Answer),
    /// Page of the sessions and, if the visitor has logged in, the login. The admin server creates
    /// the page with [`sessions_answer`](super::sessions_answer).
    Sessions(SessionsPage, Option<Login>),
    /// Command of the admin server, its call, and the visitor's login if there is one.
    Command(&'static str, Call, Option<Login>),
    /// State of the ensemble. Visitors may see it without a login.
    Ensemble,
    /// Recent log, for this login. The admin server checks that the visitor is an administrator.
    Log(Login),
}

/// Console of a server.
#[derive(Debug)]
pub(crate) struct Console {
    settings: Settings,
    names: Names,
    pub(crate) visits: Visits,
    questions: Semaphore,
}

/// Request from a visitor.
struct VisitorRequest<'a> {
    visit: Arc<Visit>,
    caller: &'a Caller,
    call: Call,
}

impl Console {
    /// Constructs a console without visits.
    pub(crate) fn new(settings: Settings) -> Self {
        let names = Names::new(settings.names.iter().cloned());
        Self {
            settings,
            names,
            visits: Visits::default(),
            questions: Semaphore::new(ZNODE_REQUESTS_MAX),
        }
    }

    /// Returns whether a path belongs to the console.
    pub(crate) fn serves(path: &str) -> bool {
        path == "/" || path.starts_with(BELOW)
    }

    /// Returns all routes except those of files: method and path.
    #[cfg(test)]
    pub(crate) fn routes() -> impl Iterator<Item = (&'static Method, String)> {
        all_routes().map(|(method, what)| (method, format!("{BELOW}{what}")))
    }

    /// Answers a request whose path belongs to the console.
    pub(crate) async fn answer(
        &self,
        member: &Member<'_>,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> Outcome {
        match self.decide(member, request, caller).await {
            Ok(Outcome::Answer(answer)) => Outcome::Answer(secured(answer)),
            Ok(outcome) => outcome,
            Err(refusal) => {
                if refusal.status != StatusCode::NOT_FOUND {
                    let (peer, code) = (caller.peer, refusal.code);
                    tracing::debug!(%peer, code, reason = refusal.text, "console: request refused");
                }
                Outcome::Answer(secured(refusal.answer()))
            }
        }
    }

    async fn decide(
        &self,
        member: &Member<'_>,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> Result<Outcome, Refusal> {
        let (head, body) = request.into_parts();
        if !self.names.are_meant(&head.uri, &head.headers) {
            let text = "the name in Host is not a known name of this server: add the name to admin.console.hosts";
            return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "Host", text));
        }
        let is_read = head.method == Method::GET || head.method == Method::HEAD;
        let path = head.uri.path();
        if is_read && let Some(file) = assets::find(path, &head.headers) {
            return Ok(Outcome::Answer(file));
        }
        if !is_from_here(&head.headers) {
            let text = "the request comes from a page of another site";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "Origin", text));
        }
        let what = path.strip_prefix(BELOW).unwrap_or_default();
        if head.method == Method::POST && what == "visit" {
            return self.begin(member, caller).await.map(Outcome::Answer);
        }
        let request = VisitorRequest {
            visit: self.visit(member, &head.headers, caller).await?,
            caller,
            call: Call::parse(head.uri.query()),
        };
        check_route(&head.method, what)?;
        // Strangers without a visit must not occupy a slot with a slow body.
        let limit = self.body_limit(&head.method, path);
        let body = if is_read {
            Bytes::new()
        } else {
            read_body(body, limit).await?
        };
        match (&head.method, what) {
            (&Method::GET, "ensemble") => Ok(Outcome::Ensemble),
            (&Method::GET, "sessions") => request.sessions().await,
            (&Method::GET, what) if COMMANDS.contains(&what) => request.command(what).await,
            (&Method::GET, "log") => request.login().await.map(Outcome::Log),
            (&Method::POST, "login") => {
                secure(caller)?;
                request.log_in(member, &body).await.map(Outcome::Answer)
            }
            (&Method::POST, "logout") => {
                *request.visit.state.lock().await = Default::default();
                Ok(Outcome::Answer(found(&json!({}))))
            }
            (method, what) => {
                // The limit applies to the whole request to the member, which closes the connection
                // if a request exceeds the limit.
                let path_bytes = request.parameter("path").map_or(0, str::len);
                if body.len() + path_bytes + REQUEST_BYTES_AROUND > self.settings.data_bytes_max {
                    return Err(too_large(self.settings.data_bytes_max));
                }
                let _turn = self.questions.acquire().await;
                request
                    .znodes(member, method, what, body)
                    .await
                    .map(Outcome::Answer)
            }
        }
    }

    fn body_limit(&self, method: &Method, path: &str) -> usize {
        let is_data = (method == Method::PUT && path == "/console/data")
            || (method == Method::POST && path == "/console/node");
        if is_data {
            self.settings.data_bytes_max
        } else {
            FORM_BYTES_MAX
        }
    }

    async fn begin(&self, member: &Member<'_>, caller: &Caller) -> Result<Answer, Refusal> {
        let busy = |text| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", text);
        let token = member
            .token()
            .ok_or_else(|| busy("cannot get random bytes from the system"))?;
        let address = caller.peer.ip().to_canonical();
        if !self.visits.begin(token.clone(), address, member.now_ms()) {
            return Err(busy(
                "too many consoles are open on this member: try again later",
            ));
        }
        let Settings {
            commands,
            title,
            version,
            has_history,
            data_bytes_max,
            ..
        } = &self.settings;
        let secure = secure(caller);
        let login = member.certificate(caller);
        let view = member.served.map(|served| &*served.view);
        let proved = view.zip(login.as_ref());
        let proved = proved.map(|(view, login)| identities(view, login, caller));
        if let Some(visit) = self.visits.find(&token, address, member.now_ms()) {
            visit.state.lock().await.login = login;
        }
        Ok(found(&json!({
            "token": token,
            "user": proved.as_ref().and(caller.subject.as_ref()),
            "identities": identities_json(&proved.unwrap_or_default()),
            "has_sasl": member.has_sasl(),
            "commands": commands,
            "title": title,
            "version": version,
            "has_history": has_history,
            "data_bytes_max": data_bytes_max,
            "notice": member.notice(),
            "may_log_in": secure.is_ok(),
            "why_not": secure.err().map(|refusal| refusal.text),
        })))
    }

    async fn visit(
        &self,
        member: &Member<'_>,
        headers: &HeaderMap,
        caller: &Caller,
    ) -> Result<Arc<Visit>, Refusal> {
        let token = headers.get(TOKEN).and_then(|token| token.to_str().ok());
        let address = caller.peer.ip().to_canonical();
        let visit = token.and_then(|token| self.visits.find(token, address, member.now_ms()));
        if let Some(visit) = visit
            && visit.state.lock().await.admits(caller.subject.as_ref())
        {
            return Ok(visit);
        }
        let text = "the console's token is missing or has expired: reload the page";
        Err(Refusal::new(StatusCode::FORBIDDEN, "NoVisit", text))
    }
}

/// Reads a whole body if it is not too large and arrives in time.
async fn read_body(body: Incoming, limit: usize) -> Result<Bytes, Refusal> {
    // A body whose announced length exceeds the limit is refused before it is read.
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large(limit));
    }
    let collected = timeout(BODY_PATIENCE, Limited::new(body, limit).collect()).await;
    match collected {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Ok(Err(_)) => Err(wrong("the request body is incomplete")),
        Err(_) => {
            let text = "the request body did not arrive in time";
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "TooSlow", text))
        }
    }
}

fn too_large(limit: usize) -> Refusal {
    let text = format!("the request body has more than {limit} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", text)
}

impl VisitorRequest<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.call.parameter(name)
    }

    fn path(&self) -> Result<&str, Refusal> {
        self.parameter("path")
            .ok_or_else(|| wrong("`path` is missing"))
    }

    fn version(&self) -> Result<i32, Refusal> {
        let version = self.parameter("version").and_then(|text| text.parse().ok());
        version.ok_or_else(|| wrong("`version` is missing or is not a number"))
    }

    async fn sessions(&self) -> Result<Outcome, Refusal> {
        let skip = self.parameter("skip").filter(|text| !text.is_empty());
        let skip = skip.unwrap_or("0").parse();
        let page = SessionsPage {
            skip: skip.map_err(|_| wrong("`skip` is not a number"))?,
            like: self.parameter("like").unwrap_or_default().to_owned(),
        };
        let login = self.visit.state.lock().await.login.clone();
        Ok(Outcome::Sessions(page, login))
    }

    async fn command(&self, what: &str) -> Result<Outcome, Refusal> {
        let command = COMMANDS.into_iter().find(|known| *known == what);
        let command = command.ok_or_else(nothing_here)?;
        let login = self.visit.state.lock().await.login.clone();
        Ok(Outcome::Command(command, self.call.clone(), login))
    }

    async fn login(&self) -> Result<Login, Refusal> {
        let state = self.visit.state.lock().await;
        state.login.clone().ok_or_else(needs_identity)
    }

    /// Sets the visitor's identity after a session has been opened with it.
    async fn log_in(&self, member: &Member<'_>, body: &[u8]) -> Result<Answer, Refusal> {
        let form: Value =
            serde_json::from_slice(body).map_err(|_| wrong("the request body is not JSON"))?;
        let text = |name: &str| form.get(name).and_then(Value::as_str).unwrap_or_default();
        let (user, password) = (text("user"), text("password"));
        if user.is_empty() || user.contains(':') {
            return Err(wrong("a user name must not be empty or contain a colon"));
        }
        let mut login = if text("scheme") == SASL {
            let password = Secret::new(password);
            Login::Sasl(client::Login::digest_md5(user, password), Vec::new())
        } else {
            Login::Digest(Secret::new(format!("{user}:{password}")))
        };
        let mut state = self.visit.state.lock().await;
        let session = open(member, self.caller, Some(&login)).await?;
        let who: WhoAmIResponse = session.ask_plain(OpCode::WhoAmI).await?;
        let peer = self.caller.peer;
        tracing::debug!(%peer, user = ?user, "console: a visitor logged in with an identity");
        let shown = who.clients.iter().map(|client| Id {
            scheme: client.scheme.clone(),
            id: client.user.clone(),
        });
        let shown: Vec<Id> = shown.collect();
        let answer = json!({ "user": user, "identities": identities_json(&shown) });
        if let Login::Sasl(_, identities) = &mut login {
            *identities = shown;
        }
        state.login = Some(login);
        state.session = Some(session);
        Ok(found(&answer))
    }

    /// Returns the session of this visit and the visitor's login. Opens a session if none is open.
    async fn session(
        &self,
        member: &Member<'_>,
    ) -> Result<(Arc<ZnodeSession>, Option<Login>), Refusal> {
        let mut state = self.visit.state.lock().await;
        let session = match state.session.as_ref().filter(|session| session.is_open()) {
            Some(session) => session.clone(),
            None => open(member, self.caller, state.login.as_ref()).await?,
        };
        state.session = Some(session.clone());
        Ok((session, state.login.clone()))
    }

    async fn znodes(
        &self,
        member: &Member<'_>,
        method: &Method,
        what: &str,
        body: Bytes,
    ) -> Result<Answer, Refusal> {
        let is_read = *method == Method::GET;
        let path = self.path()?;
        let (session, login) = self.session(member).await?;
        let administers = |login: &Login| member.is_administrator(login, self.caller);
        let ids = SessionIds::new(login.as_ref().is_some_and(administers));
        if is_read {
            return self.read(&session, what, path, ids).await;
        }
        if login.is_none() {
            return Err(needs_identity());
        }
        match (method, what) {
            (&Method::PUT, "data") => {
                edit::set_data(&session, path, self.version()?, body, ids).await
            }
            (&Method::PUT, _) => edit::set_acl(&session, path, self.version()?, &body, ids).await,
            (&Method::DELETE, _) => edit::delete(&session, path, self.version()?).await,
            _ => {
                let new = edit::NewZnode {
                    kind: self.parameter("kind").unwrap_or("persistent"),
                    ttl: self.parameter("ttl"),
                    acl: self.parameter("acl").unwrap_or("open"),
                    data: (self.parameter("data") != Some("null")).then_some(body),
                };
                edit::create(&session, path, new, ids).await
            }
        }
    }

    fn children_page(&self) -> Result<shown::ChildrenPage<'_>, Refusal> {
        let text = |name: &str| self.parameter(name).filter(|text| !text.is_empty());
        let start = match (text("after"), text("at"), text("skip")) {
            (Some(name), None, None) => shown::Start::After(name),
            (None, Some(name), None) => shown::Start::PageOf(name),
            (None, None, skip) => {
                let skip = skip.unwrap_or("0").parse();
                shown::Start::Skip(skip.map_err(|_| wrong("`skip` is not a number"))?)
            }
            _ => return Err(wrong("only one of `after`, `at` and `skip` is permitted")),
        };
        let like = text("like").unwrap_or_default();
        Ok(shown::ChildrenPage { start, like })
    }

    async fn read(
        &self,
        session: &ZnodeSession,
        what: &str,
        path: &str,
        ids: SessionIds,
    ) -> Result<Answer, Refusal> {
        match what {
            "node" => shown::znode(session, path, ids).await,
            "stat" => shown::stat(session, path, ids).await,
            "children" => {
                let page = self.children_page()?;
                shown::children(session, path, page, ids).await
            }
            _ => {
                let offset = self.parameter("offset").unwrap_or("0").parse();
                let offset = offset.map_err(|_| wrong("`offset` is not a number"))?;
                shown::data(session, path, offset).await
            }
        }
    }
}

/// Refuses a caller whose connection others could read, to protect the caller's credentials.
fn secure(caller: &Caller) -> Result<(), Refusal> {
    if caller.is_tls || caller.is_near {
        return Ok(());
    }
    let text = "the server accepts credentials only over HTTPS or from its own machine \
                (admin.forceHttps, admin.portUnification)";
    Err(Refusal::new(StatusCode::FORBIDDEN, "NotSecure", text))
}

/// Returns all routes except those of files.
fn all_routes() -> impl Iterator<Item = (&'static Method, &'static str)> {
    let commands = COMMANDS.iter().map(|what| (&Method::GET, *what));
    commands.chain(ROUTES.iter().map(|(method, what)| (method, *what)))
}

/// Refuses requests that are not in [`all_routes`].
fn check_route(method: &Method, what: &str) -> Result<(), Refusal> {
    let mut methods = all_routes().filter(|(_, known)| *known == what).peekable();
    if methods.peek().is_none() {
        return Err(nothing_here());
    }
    if !methods.any(|(known, _)| known == method) {
        let text = "this path does not support this method";
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "Method", text));
    }
    Ok(())
}

fn nothing_here() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "NotFound",
        "this path does not exist",
    )
}

fn identities_json(identities: &[Id]) -> Vec<Value> {
    let shown = identities.iter();
    shown
        .map(|id| json!({ "scheme": &*id.scheme, "id": &*id.id }))
        .collect()
}

fn needs_identity() -> Refusal {
    let text = "log in with a ZooKeeper identity first: without a login, the console is read-only";
    Refusal::new(StatusCode::FORBIDDEN, "ReadOnly", text)
}

async fn open(
    member: &Member<'_>,
    caller: &Caller,
    login: Option<&Login>,
) -> Result<Arc<ZnodeSession>, Refusal> {
    let stream = member.connect(caller, login).map_err(Fault::NoSession)?;
    Ok(Arc::new(ZnodeSession::open(stream, login).await?))
}
