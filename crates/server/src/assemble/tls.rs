//! Which ports speak TLS, and with which stores.

use std::sync::Arc;

use config::Config;
use tokio::task::AbortHandle;
use transport::tls::{Acceptor, Connector, Endpoint, Gate, TlsError, TlsSource};

/// TLS of all ports, loaded once: every port of a kind has the same stores.
pub(super) struct PortTls {
    clients: Option<Arc<TlsSource>>,
    members: Option<Arc<TlsSource>>,
    client_gate: Arc<Gate>,
    member_gate: Arc<Gate>,
    /// `client.portUnification`.
    clients_unified: bool,
    /// `portUnification`.
    members_unified: bool,
    /// `sslQuorum`.
    members_dial_tls: bool,
    /// Those whose files are watched.
    watched: Vec<Arc<TlsSource>>,
}

impl PortTls {
    /// Loads the stores that are asked for.
    ///
    /// # Errors
    /// If one cannot be used.
    pub(super) fn load(config: &Config) -> Result<Self, TlsError> {
        let client = &config.client;
        let wants_clients = client.secure.is_some() || client.port_unification;
        let clients = wants_clients.then(|| {
            let tls = &config.client_tls.tls;
            TlsSource::load(tls, Endpoint::Client, config.fips_mode)
        });
        let clients = clients.transpose()?;
        let quorum = config.ensemble.as_ref().map(|ensemble| &ensemble.tls);
        let wanted = quorum.filter(|quorum| quorum.is_enabled || quorum.port_unification);
        let members = wanted
            .map(|quorum| TlsSource::load(&quorum.tls, Endpoint::Quorum, config.fips_mode))
            .transpose()?;
        if let Some(quorum) = quorum {
            tell(quorum.is_enabled, quorum.port_unification);
        }
        let watched_clients = clients.iter().filter(|_| config.client_tls.cert_reload);
        let watched_members = members
            .iter()
            .filter(|_| quorum.is_some_and(|quorum| quorum.cert_reload));
        let limit = config.limits.outstanding_handshakes;
        Ok(Self {
            watched: watched_clients.chain(watched_members).cloned().collect(),
            clients,
            members,
            client_gate: Gate::new(limit.map(|limit| limit as usize)),
            member_gate: Gate::new(None),
            clients_unified: client.port_unification,
            members_unified: quorum.is_some_and(|quorum| quorum.port_unification),
            members_dial_tls: quorum.is_some_and(|quorum| quorum.is_enabled),
        })
    }

    /// The handshakes of clients that are under way.
    pub(super) fn client_gate(&self) -> &Arc<Gate> {
        &self.client_gate
    }

    /// Of `clientPort`.
    pub(super) fn of_clients(&self) -> Acceptor {
        match &self.clients {
            Some(source) if self.clients_unified => {
                Acceptor::tls(source.clone(), self.client_gate.clone(), true)
            }
            _ => Acceptor::plain(),
        }
    }

    /// Of `secureClientPort`.
    pub(super) fn of_secure_clients(&self) -> Option<Acceptor> {
        let source = self.clients.clone()?;
        Some(Acceptor::tls(source, self.client_gate.clone(), false))
    }

    /// Of the ports of elections, of the quorum and of observer masters.
    pub(super) fn of_members(&self) -> Acceptor {
        let gate = self.member_gate.clone();
        match &self.members {
            Some(source) => Acceptor::tls(source.clone(), gate, self.members_unified),
            None => Acceptor::plain(),
        }
    }

    /// Towards those ports of other members.
    pub(super) fn to_members(&self) -> Connector {
        match &self.members {
            Some(source) if self.members_dial_tls => Connector::tls(source.clone()),
            _ => Connector::plain(),
        }
    }

    /// Loads stores again when they change, if that is wanted.
    pub(super) fn watch(&self) -> Vec<AbortHandle> {
        let watched = self.watched.iter().cloned();
        watched
            .map(|source| tokio::spawn(source.watch()).abort_handle())
            .collect()
    }
}

fn tell(is_enabled: bool, is_unified: bool) {
    match (is_enabled, is_unified) {
        (true, true) => {
            tracing::info!("members speak TLS; plain connections of members are taken too")
        }
        (true, false) => tracing::info!("members speak TLS"),
        (false, true) => {
            tracing::info!("members speak without TLS; TLS connections of members are taken too")
        }
        (false, false) => tracing::info!("members speak without TLS"),
    }
}
