//! Context of handshakes, built from the settings and the files that they name.

use std::path::Path;
use std::sync::Arc;

use config::{ClientAuth, Store, Tls};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig};

use super::certificates::subject::ends_s;
use super::certificates::verify::{Trusted, of_clients, of_servers};
use super::certificates::version1;
use super::error::TlsError;
use super::rules::{Endpoint, provider, versions};
use super::store::{KeyMaterial, StoreSetting, load_key_store, load_revocations, load_trust_store};

/// Key, trust and rules at one point in time.
#[derive(Debug)]
pub(super) struct Context {
    /// Configuration for incoming connections.
    pub(super) server: Arc<ServerConfig>,
    /// Configuration for outgoing connections; `None` for the client ports.
    pub(super) client: Option<Arc<ClientConfig>>,
    /// Certificate of this process.
    pub(super) own: Option<CertificateDer<'static>>,
    /// Earliest end of validity in this process's certificate chain, in seconds since 1970.
    pub(super) ends_s: Option<i64>,
}

/// Number of tickets for session resumption that the peer receives after a TLS 1.3 handshake.
const TICKETS: usize = 1;

impl Context {
    /// Loads the files and builds the context.
    pub(super) fn load(tls: &Tls, endpoint: Endpoint) -> Result<Self, TlsError> {
        let prefix = endpoint.prefix();
        let location = tls.key_store.location.as_deref();
        let path = location.ok_or(TlsError::NoKeyStore { prefix })?;
        let store = "keyStore";
        let key = load_key_store(path, &tls.key_store, StoreSetting { prefix, store })?;
        let provider = provider(tls, endpoint)?;
        let versions = versions(tls, endpoint)?;
        if endpoint == Endpoint::Admin && tls.trust_store.location.is_none() {
            return Err(TlsError::NoTrustStore { prefix });
        }
        let needs_trust = endpoint != Endpoint::Client || tls.client_auth != ClientAuth::None;
        let trusted = needs_trust
            .then(|| {
                let lists = tls.crl_location.as_deref();
                trusted(&tls.trust_store, lists, prefix, tls.accepts_version1)
            })
            .transpose()?;
        let unusable = |reason: String| TlsError::Unusable {
            path: path.to_owned(),
            reason,
        };
        let verifier = of_clients(tls.client_auth, trusted.clone(), &provider).map_err(unusable)?;
        let own = own_key(&key, &provider, tls.accepts_version1);
        let own = own.map_err(|error| unusable(error.to_string()))?;
        let ends_s = key.chain.iter().filter_map(ends_s).min();
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| TlsError::Rule {
                key: format!("{prefix}ciphersuites"),
                reason: error.to_string(),
            })?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(own.clone());
        let server = with_tickets(server, path)?;
        let client = match (endpoint, trusted) {
            (Endpoint::Quorum | Endpoint::Admin, Some(trusted)) => {
                Some(client_config(path, own, trusted, &provider, &versions)?)
            }
            _ => None,
        };
        Ok(Self {
            server,
            client,
            own: key.chain.into_iter().next(),
            ends_s,
        })
    }
}

/// Enables tickets. Only this context knows the keys that protect the tickets. After other stores
/// are loaded, a peer therefore cannot log in with a ticket based on the old stores.
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
    own: Arc<SingleCertAndKey>,
    trusted: Arc<Trusted>,
    provider: &Arc<CryptoProvider>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Result<Arc<ClientConfig>, TlsError> {
    let unusable = |reason: String| TlsError::Unusable {
        path: path.to_owned(),
        reason,
    };
    let verifier = of_servers(trusted, provider).map_err(unusable)?;
    let mut client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| unusable(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(own);
    // There are few connections between members, and this process must present its certificate on
    // each of them.
    client.resumption = Resumption::disabled();
    Ok(Arc::new(client))
}

/// Returns this process's key and its certificates.
fn own_key(
    material: &KeyMaterial,
    provider: &CryptoProvider,
    accepts_version1: bool,
) -> Result<Arc<SingleCertAndKey>, rustls::Error> {
    let (chain, key) = (material.chain.clone(), material.key.clone_key());
    let is_version1 = accepts_version1 && chain.first().is_some_and(version1::is_version1);
    let own = if is_version1 {
        version1::certified_key(chain, key, provider)
    } else {
        CertifiedKey::from_der(chain, key, provider)
    };
    Ok(Arc::new(own?.into()))
}

/// Returns the TLS configuration of a client.
pub(super) fn outgoing(
    key: Option<&Store>,
    trust: Option<&Store>,
) -> Result<ClientConfig, TlsError> {
    let prefix = Endpoint::Client.prefix();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let no_store = Store::default();
    let trusted = trusted(trust.unwrap_or(&no_store), None, prefix, true)?;
    let unusable = |reason: String| TlsError::Unusable {
        path: key.and_then(|key| key.location.clone()).unwrap_or_default(),
        reason,
    };
    let verifier = of_servers(trusted, &provider).map_err(unusable)?;
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| unusable(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some((store, path)) = key.and_then(|key| Some((key, key.location.as_deref()?))) else {
        return Ok(builder.with_no_client_auth());
    };
    let which = StoreSetting {
        prefix,
        store: "keyStore",
    };
    let material = load_key_store(path, store, which)?;
    let own = own_key(&material, &provider, true).map_err(|error| TlsError::Unusable {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(builder.with_client_cert_resolver(own))
}

/// Returns the revocation lists, and the trusted certificates from the trust store or, if no store
/// is configured, from the platform.
pub(super) fn trusted(
    trust: &Store,
    revoked: Option<&Path>,
    prefix: &'static str,
    accepts_version1: bool,
) -> Result<Arc<Trusted>, TlsError> {
    let revoked = revoked.map(load_revocations).transpose()?;
    let revoked = revoked.unwrap_or_default();
    let no_roots = |reason: String| TlsError::NoPlatformRoots { prefix, reason };
    let store = "trustStore";
    let Some(path) = &trust.location else {
        tracing::warn!(
            "{prefix}trustStore.location is missing, trusting the certificates of the platform"
        );
        let found = rustls_native_certs::load_native_certs();
        let reason = found.errors.first().map(ToString::to_string);
        let reason = reason.unwrap_or_else(|| "no file with certificates was found".to_owned());
        let trusted =
            Trusted::new(found.certs, revoked, accepts_version1).ok_or_else(|| no_roots(reason))?;
        return Ok(Arc::new(trusted));
    };
    let certificates = load_trust_store(path, trust, StoreSetting { prefix, store })?;
    let trusted = Trusted::new(certificates, revoked, accepts_version1).ok_or_else(|| {
        TlsError::Unusable {
            path: path.clone(),
            reason: "the store does not contain a usable certificate".to_owned(),
        }
    })?;
    Ok(Arc::new(trusted))
}
