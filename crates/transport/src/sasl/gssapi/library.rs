//! Access to the system's Kerberos library.

use std::fmt;

use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext, ServerCtx};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_KRB5_PRINCIPAL, OidSet};
use libgssapi::util::Buf;

use super::accept::AcceptingExchange;
use super::context::Context;
use super::initiate::InitiatingExchange;
use super::refusal::GssapiRefusal;

/// Key of a service, from the key tab named in `KRB5_KTNAME`. The file is read again for each
/// login.
#[derive(Clone)]
pub struct Acceptor(Cred);

/// Principal of outgoing logins. The logins use an existing ticket, or a ticket requested with the
/// key tab named in `KRB5_CLIENT_KTNAME`.
#[derive(Clone)]
pub struct Initiator {
    credential: Cred,
    principal: String,
}

/// One side of a login.
pub(super) struct Side<C>(C);

pub(super) type Accepting = Side<ServerCtx>;

pub(super) type Initiating = Side<ClientCtx>;

impl Acceptor {
    /// Looks up the key. Blocks, because it reads a file.
    ///
    /// # Errors
    /// If the file is missing or does not contain a key for that name.
    pub fn acquire(principal: &str) -> Result<Self, GssapiRefusal> {
        let doing = "use the key tab";
        let name = name(principal).map_err(|error| refusal_of(doing, error))?;
        OidSet::singleton(GSS_MECH_KRB5)
            .and_then(|mechs| Cred::acquire(Some(&name), None, CredUsage::Accept, Some(&mechs)))
            .map(Self)
            .map_err(|error| refusal_of(doing, error))
    }

    /// Begins a login.
    pub fn exchange(&self) -> AcceptingExchange {
        let context = ServerCtx::new(Some(self.0.clone()));
        AcceptingExchange::new(Side(context))
    }
}

impl Initiator {
    /// Requests a ticket unless one exists. Without a `principal`, the default principal of the
    /// ticket cache is used. Blocks, because it may query the KDC.
    ///
    /// # Errors
    /// If no ticket is available.
    pub fn acquire(principal: Option<&str>) -> Result<Self, GssapiRefusal> {
        let refusal_of = |error| refusal_of("get a Kerberos ticket", error);
        let name = principal.map(name).transpose().map_err(refusal_of)?;
        let mechs = OidSet::singleton(GSS_MECH_KRB5).map_err(refusal_of)?;
        let credential = Cred::acquire(name.as_ref(), None, CredUsage::Initiate, Some(&mechs))
            .map_err(refusal_of)?;
        let principal = credential
            .name()
            .and_then(|name| text(&name))
            .map_err(refusal_of)?;
        Ok(Self {
            credential,
            principal,
        })
    }

    /// Begins a login to a service, given by its full name. The realm of this side's principal is
    /// appended to a name without a realm.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn exchange(&self, service: &str) -> Result<InitiatingExchange, GssapiRefusal> {
        let realm = self.principal.rsplit_once('@').map(|(_, realm)| realm);
        let whole = match realm.filter(|_| !service.contains('@')) {
            Some(realm) => format!("{service}@{realm}"),
            None => service.to_owned(),
        };
        let target =
            name(&whole).map_err(|error| refusal_of("use the name of the service", error))?;
        // The server must prove that it has its key, and replayed or reordered tokens are refused.
        let flags = CtxFlags::GSS_C_MUTUAL_FLAG
            | CtxFlags::GSS_C_INTEG_FLAG
            | CtxFlags::GSS_C_REPLAY_FLAG
            | CtxFlags::GSS_C_SEQUENCE_FLAG;
        let credential = Some(self.credential.clone());
        let context = ClientCtx::new(credential, target, flags, Some(GSS_MECH_KRB5));
        let acts_as = self.principal.clone();
        Ok(InitiatingExchange::new(Side(context), acts_as))
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor(hidden)")
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Initiator({:?})", self.principal)
    }
}

/// Operations that differ between the two sides.
pub(super) trait Stepping: SecurityContext {
    /// Name of the step in errors.
    const DOING: &'static str;

    /// Handles a token from the other side; `None` for the first step of a client.
    fn take(&mut self, token: Option<&[u8]>) -> Result<Option<Buf>, Error>;
}

impl Stepping for ServerCtx {
    const DOING: &'static str = "accept the ticket";

    fn take(&mut self, token: Option<&[u8]>) -> Result<Option<Buf>, Error> {
        self.step(token.unwrap_or_default(), None)
    }
}

impl Stepping for ClientCtx {
    const DOING: &'static str = "log in with the Kerberos ticket";

    fn take(&mut self, token: Option<&[u8]>) -> Result<Option<Buf>, Error> {
        self.step(token, None)
    }
}

impl<C: Stepping> Context for Side<C> {
    fn step(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>, GssapiRefusal> {
        let answer = self
            .0
            .take(token)
            .map_err(|error| refusal_of(C::DOING, error))?;
        Ok(answer.map(|token| token.to_vec()))
    }

    fn is_established(&self) -> bool {
        self.0.is_complete()
    }

    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, GssapiRefusal> {
        let token = self.0.wrap(false, plain);
        let token = token.map_err(|error| refusal_of("sign a token", error))?;
        Ok(token.to_vec())
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, GssapiRefusal> {
        let plain = self.0.unwrap(token);
        let plain = plain.map_err(|error| refusal_of("read the token", error))?;
        Ok(plain.to_vec())
    }

    fn initiator(&self) -> Result<String, GssapiRefusal> {
        let name = self.0.source_name().and_then(|name| text(&name));
        name.map_err(|error| refusal_of("get the name of the client", error))
    }
}

fn name(principal: &str) -> Result<Name, Error> {
    Name::new(principal.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL))
}

fn text(name: &Name) -> Result<String, Error> {
    let text = name.display_name()?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the default realm, which the library adds to names without a realm. Empty if krb5.conf
/// does not define a default realm. Blocks, because it reads files.
pub fn default_realm() -> String {
    let whole = name("name").and_then(|name| text(&name.canonicalize(Some(GSS_MECH_KRB5))?));
    let whole = whole.unwrap_or_default();
    let realm = whole.split_once('@').map(|(_, realm)| realm);
    realm.unwrap_or_default().to_owned()
}

/// Returns the error on one line. The library's messages contain principals and files, but not
/// keys.
fn refusal_of(doing: &'static str, error: Error) -> GssapiRefusal {
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    GssapiRefusal::Library {
        doing,
        reason: words.join(" "),
    }
}
