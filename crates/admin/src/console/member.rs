//! Access of the console to its member.

use config::{ClientAuth, Config, SaslAcceptor};
use metrics::view::AdminView;
use proto::Id;
use tokio::io::DuplexStream;
use tokio::time::Instant;
use tree::auth::{host_address, is_authenticated};

use super::api::Caller;
use super::visits::Login;
use crate::commands::{self, Refused};
use crate::served::Served;
use crate::token::random_hex;

/// Returns the identities that a visitor has proved.
pub(crate) fn identities(view: &dyn AdminView, login: &Login, visitor: &Caller) -> Vec<Id> {
    match login {
        Login::Digest(auth) => {
            let address = visitor.peer.ip().to_canonical().to_string();
            view.identities("digest", Some(auth.expose().as_bytes()), &address)
        }
        Login::Sasl(_, identities) => identities.clone(),
        Login::Certificate(subject) => view.identities_of_subject(subject),
    }
}

/// Member to which the console belongs.
pub(crate) struct Member<'a> {
    /// Running server. `None` while the data is being loaded.
    pub(crate) served: Option<&'a Served>,
    pub(crate) config: &'a Config,
    /// Origin of the clock for visits.
    pub(crate) started: Instant,
}

impl Member<'_> {
    /// Opens a client connection with the address of the caller. If the login is a certificate, the
    /// connection has the identity of the certificate.
    ///
    /// # Errors
    /// If the member refuses the client. The reason is shown to the visitor.
    pub(crate) fn connect(
        &self,
        caller: &Caller,
        login: Option<&Login>,
    ) -> Result<DuplexStream, String> {
        reachable(self.config, caller)?;
        let served = self.served.ok_or("the data is being loaded")?;
        let subject = match login {
            Some(Login::Certificate(subject)) => Some(&**subject),
            _ => None,
        };
        (served.operations.connect)(caller.peer, subject)
    }

    /// Returns the login with the caller's certificate. Returns `None` if the certificate does not
    /// prove an identity, or belongs to a proxy, which serves many visitors.
    pub(crate) fn certificate(&self, caller: &Caller) -> Option<Login> {
        let subject = caller.subject.clone().filter(|_| !caller.is_forwarded);
        let login = Login::Certificate(subject?);
        let has_identity = !identities(&*self.served?.view, &login, caller).is_empty();
        has_identity.then_some(login)
    }

    /// Returns whether a visitor can log in with the user name and password of SASL.
    pub(crate) fn has_sasl(&self) -> bool {
        let acceptor = &self.config.auth.sasl.acceptor;
        matches!(acceptor, Some(SaslAcceptor::DigestMd5(_)))
    }

    /// Returns the time since `started`, in milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns a notice about the server for visitors, if there is one.
    pub(crate) fn notice(&self) -> Option<String> {
        let view = &self.served?.view;
        view.is_open_to_world()
            .then(|| commands::OPEN_TO_WORLD.to_owned())
    }

    /// Returns whether a visitor with this login is an administrator, who sees whole session ids.
    pub(crate) fn is_administrator(&self, login: &Login, caller: &Caller) -> bool {
        let view = self.served.map(|served| &*served.view);
        view.is_some_and(|view| view.is_administrator(&identities(view, login, caller)))
    }

    /// Returns an unguessable token, or `None` if the system does not provide random bytes.
    pub(crate) fn token(&self) -> Option<String> {
        random_hex::<16>().ok()
    }

    /// Refuses a reader of znodes that the client ports would refuse, unless it is an administrator.
    ///
    /// # Errors
    /// If the reader is refused.
    pub(crate) fn check_reader(&self, proved: &[Id], caller: &Caller) -> Result<(), Refused> {
        let administers = |served: &Served| served.view.is_administrator(proved);
        if self.served.is_some_and(administers) {
            return Ok(());
        }
        reachable(self.config, caller).map_err(Refused::Unreachable)?;
        // Each client connection has this identity without a login.
        let ip = Id {
            scheme: "ip".into(),
            id: host_address(caller.peer.ip()).into(),
        };
        let held = [proved, &[ip]].concat();
        let is_known = is_authenticated(self.config.auth.enforced_schemes.as_deref(), &held);
        is_known.then_some(()).ok_or(Refused::NotAuthenticated)
    }
}

/// Refuses visitors that the client ports would refuse.
fn reachable(config: &Config, caller: &Caller) -> Result<(), &'static str> {
    let reaches = |at: &config::ClientAddress| !at.ip.is_loopback() || caller.is_near;
    if config.client.plain.as_ref().is_some_and(reaches) {
        return Ok(());
    }
    let wants = config.client_tls.tls.client_auth == ClientAuth::Need;
    let by_tls = config.client.secure.as_ref().is_some_and(reaches);
    Err(match (by_tls, wants) {
        (true, _) if caller.is_tls && (!wants || caller.subject.is_some()) => return Ok(()),
        (true, true) => {
            "this server requires TLS with a client certificate: use HTTPS with a certificate \
                             (admin.forceHttps, admin.needClientAuth)"
        }
        (true, false) => "this server requires TLS: use HTTPS (admin.forceHttps)",
        (false, _) => "this server accepts only clients on its own machine (clientPortAddress)",
    })
}
