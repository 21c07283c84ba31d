//! Client identity from its certificate. Source: X509AuthenticationProvider.handleAuthentication.

use proto::Id;
use transport::Stream;
use transport::tls::certificate;
use tree::auth::{SUPER, X509};

use crate::connection::Connection;
use crate::settings::X509 as X509Settings;

/// Adds the identity of the client's certificate to the connection, if the client has presented
/// one.
pub(crate) fn identify(settings: &X509Settings, connection: &Connection, stream: &Stream) {
    let Some(shown) = stream.peer_certificate() else {
        return;
    };
    // The TLS library has already parsed the certificate.
    if let Some(subject) = certificate::subject(shown) {
        add_identities(settings, connection, &subject);
    }
}

/// Adds the identities for a certificate with the subject `id` to the connection.
pub(crate) fn add_identities(settings: &X509Settings, connection: &Connection, id: &str) {
    let added = identities(settings, id);
    if added.is_empty() {
        return;
    }
    tracing::info!(peer = %connection.peer, "authenticated id {id:?} for scheme x509");
    let state = &mut *connection.lock();
    let held = state.client.identities.iter().cloned();
    state.client.identities = held.chain(added).collect();
}

/// Returns the identities for a certificate with this subject. Returns none if a provider of the
/// scheme is not configured.
pub(crate) fn identities(settings: &X509Settings, subject: &str) -> Vec<Id> {
    if !settings.is_enabled {
        return Vec::new();
    }
    let is_super = settings.super_user.as_deref() == Some(subject);
    let super_user = is_super.then(|| Id {
        scheme: SUPER.into(),
        id: subject.into(),
    });
    let own = Id {
        scheme: X509.into(),
        id: subject.into(),
    };
    super_user.into_iter().chain([own]).collect()
}
