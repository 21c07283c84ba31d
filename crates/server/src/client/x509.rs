//! Who a client is by its certificate. Source: X509AuthenticationProvider.handleAuthentication.

use proto::Id;
use transport::Stream;
use transport::tls::certificate;
use tree::auth::{SUPER, X509};

use super::connection::Connection;
use crate::client::clients::Clients;

/// Gives the connection the identity of the certificate that the client has shown, if it has.
pub(super) fn identify(clients: &Clients, connection: &Connection, stream: &Stream) {
    let Some(shown) = stream.peer_certificate() else {
        return;
    };
    let settings = &clients.settings;
    if !settings.x509.is_enabled {
        return;
    }
    // The library has parsed it before.
    let Some(id) = certificate::subject(shown) else {
        return;
    };
    tracing::info!(peer = %connection.peer, "authenticated id {id:?} for scheme x509");
    let is_super = settings.x509.super_user.as_ref() == Some(&id);
    let super_user = is_super.then(|| Id {
        scheme: SUPER.into(),
        id: id.as_str().into(),
    });
    let own = Id {
        scheme: X509.into(),
        id: id.into(),
    };
    let state = &mut *connection.lock();
    let held = state.identities.iter().cloned();
    state.identities = held.chain(super_user).chain([own]).collect();
}
