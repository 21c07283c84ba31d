//! What a handshake needs, made of the settings and the files that they name.

use std::path::Path;
use std::sync::Arc;

use config::{ClientAuth, Store, Tls};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig};

use super::certificate::ends_s;
use super::error::TlsError;
use super::rules::{Endpoint, provider, versions};
use super::store::{KeyMaterial, Which, load_key_store, load_revocations, load_trust_store};
use super::verify::{Trusted, of_clients, of_servers};

/// Key, trust and rules as they are at one moment.
#[derive(Debug)]
pub(super) struct Context {
    /// For those who connect to us.
    pub(super) server: Arc<ServerConfig>,
    /// For those to whom we connect; the client ports have none.
    pub(super) client: Option<Arc<ClientConfig>>,
    /// When the first certificate of the own chain ends, in seconds since 1970.
    pub(super) ends_s: Option<i64>,
}

/// Tickets to resume a session with, which the other side gets at a time.
const TICKETS: usize = 1;

impl Context {
    /// Reads the files.
    pub(super) fn load(tls: &Tls, endpoint: Endpoint) -> Result<Self, TlsError> {
        let prefix = endpoint.prefix();
        let location = tls.key_store.location.as_deref();
        let path = location.ok_or(TlsError::NoKeyStore { prefix })?;
        let store = "keyStore";
        let key = load_key_store(path, &tls.key_store, Which { prefix, store })?;
        let provider = provider(tls, endpoint)?;
        let versions = versions(tls, endpoint)?;
        if endpoint == Endpoint::Admin && tls.trust_store.location.is_none() {
            return Err(TlsError::NoTrustStore { prefix });
        }
        let needs_trust = endpoint != Endpoint::Client || tls.client_auth != ClientAuth::None;
        let trusted = needs_trust
            .then(|| trusted(&tls.trust_store, tls.crl_location.as_deref(), prefix))
            .transpose()?;
        let unusable = |reason: String| TlsError::Unusable {
            path: path.to_owned(),
            reason,
        };
        let verifier = of_clients(tls.client_auth, trusted.clone(), &provider).map_err(unusable)?;
        let (chain, own_key) = copy(&key);
        let ends_s = chain.iter().filter_map(ends_s).min();
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| TlsError::Rule {
                key: format!("{prefix}ciphersuites"),
                reason: error.to_string(),
            })?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, own_key)
            .map_err(|error| unusable(error.to_string()))?;
        let server = with_tickets(server, path)?;
        let client = match (endpoint, trusted) {
            (Endpoint::Quorum, Some(trusted)) => {
                Some(client_config(path, &key, trusted, &provider, &versions)?)
            }
            _ => None,
        };
        Ok(Self {
            server,
            client,
            ends_s,
        })
    }
}

/// Tickets are sealed by keys that only this context knows: after other stores are loaded, nobody comes
/// in on what the old ones trusted.
fn with_tickets(mut server: ServerConfig, path: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    server.send_tls13_tickets = TICKETS;
    server.ticketer =
        rustls::crypto::ring::Ticketer::new().map_err(|error| TlsError::Unusable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
    Ok(Arc::new(server))
}

fn client_config(
    path: &Path,
    key: &KeyMaterial,
    trusted: Arc<Trusted>,
    provider: &Arc<CryptoProvider>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Result<Arc<ClientConfig>, TlsError> {
    let unusable = |reason: String| TlsError::Unusable {
        path: path.to_owned(),
        reason,
    };
    let verifier = of_servers(trusted, provider).map_err(unusable)?;
    let (chain, key) = copy(key);
    let mut client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| unusable(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(chain, key)
        .map_err(|error| unusable(error.to_string()))?;
    // Connections between members are few, and each is to show its certificate.
    client.resumption = Resumption::disabled();
    Ok(Arc::new(client))
}

fn copy(key: &KeyMaterial) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    (key.chain.clone(), key.key.clone_key())
}

/// What a client speaks TLS with.
pub(super) fn outgoing(
    key: Option<&Store>,
    trust: Option<&Store>,
) -> Result<ClientConfig, TlsError> {
    let prefix = Endpoint::Client.prefix();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let no_store = Store::default();
    let trusted = trusted(trust.unwrap_or(&no_store), None, prefix)?;
    let unusable = |reason: String| TlsError::Unusable {
        path: key.and_then(|key| key.location.clone()).unwrap_or_default(),
        reason,
    };
    let verifier = of_servers(trusted, &provider).map_err(unusable)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| unusable(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some((store, path)) = key.and_then(|key| Some((key, key.location.as_deref()?))) else {
        return Ok(builder.with_no_client_auth());
    };
    let which = Which {
        prefix,
        store: "keyStore",
    };
    let KeyMaterial { key, chain } = load_key_store(path, store, which)?;
    let client = builder.with_client_auth_cert(chain, key);
    client.map_err(|error| TlsError::Unusable {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// The trust store, or the platform's roots without one, and what is revoked.
pub(super) fn trusted(
    trust: &Store,
    revoked: Option<&Path>,
    prefix: &'static str,
) -> Result<Arc<Trusted>, TlsError> {
    let revoked = revoked.map(load_revocations).transpose()?;
    let revoked = revoked.unwrap_or_default();
    let no_roots = |reason: String| TlsError::NoPlatformRoots { prefix, reason };
    let store = "trustStore";
    let Some(path) = &trust.location else {
        tracing::warn!(
            "{prefix}trustStore.location is missing: whatever the platform trusts is trusted"
        );
        let found = rustls_native_certs::load_native_certs();
        let reason = found.errors.first().map(ToString::to_string);
        let reason = reason.unwrap_or_else(|| "no file with certificates".to_owned());
        let trusted = Trusted::new(found.certs, revoked).ok_or_else(|| no_roots(reason))?;
        return Ok(Arc::new(trusted));
    };
    let certificates = load_trust_store(path, trust, Which { prefix, store })?;
    let trusted = Trusted::new(certificates, revoked).ok_or_else(|| TlsError::Unusable {
        path: path.clone(),
        reason: "none of its certificates can be used".to_owned(),
    })?;
    Ok(Arc::new(trusted))
}
