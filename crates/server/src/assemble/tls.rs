//! TLS for the ports: which ports use it, and with which stores.

use std::sync::Arc;

use config::{AdminScheme, ClientAuth, Config, Tls};
use tokio::task::AbortHandle;
use transport::Interceptor;
use transport::tls::{Acceptor, Connector, Endpoint, Gate, MemberCheck, TlsError, TlsSource};

/// TLS for all ports. It is loaded once, because all ports of a kind use the same stores.
pub(super) struct PortTls {
    clients: Option<Arc<TlsSource>>,
    members: Option<Arc<TlsSource>>,
    /// Check that distinguishes members from other peers that have a trusted certificate.
    member_check: Option<Arc<MemberCheck>>,
    admin: Option<Arc<TlsSource>>,
    client_gate: Arc<Gate>,
    member_gate: Arc<Gate>,
    /// Whether the client port accepts both TLS and plain connections
    /// (`client.portUnification`).
    clients_unified: bool,
    /// Whether the ensemble's ports accept both TLS and plain connections (`portUnification`).
    members_unified: bool,
    /// Whether the admin port accepts both TLS and plain connections (`admin.portUnification`).
    admin_unified: bool,
    /// Whether members use TLS among each other (`sslQuorum`).
    members_dial_tls: bool,
    /// Interceptor of connections to other members.
    interceptor: Option<Arc<dyn Interceptor>>,
    /// Sources whose files are watched for changes.
    watched: Vec<Arc<TlsSource>>,
}

impl PortTls {
    /// Loads the required stores.
    ///
    /// # Errors
    /// If a store cannot be used.
    pub(super) fn load(
        config: &Config,
        interceptor: Option<Arc<dyn Interceptor>>,
    ) -> Result<Self, TlsError> {
        let client = &config.client;
        let wants_clients = client.secure.is_some() || client.port_unification;
        let clients = wants_clients.then(|| {
            let tls = &config.client_tls.tls;
            TlsSource::load(tls, Endpoint::Client, config.fips_mode)
        });
        let clients = clients.transpose()?;
        let quorum = config.quorum_tls.as_ref();
        let quorum = quorum.filter(|_| config.ensemble.is_some());
        let wanted = quorum.filter(|quorum| quorum.is_enabled || quorum.port_unification);
        let members = wanted
            .map(|quorum| TlsSource::load(&quorum.tls, Endpoint::Quorum, config.fips_mode))
            .transpose()?;
        if let Some(quorum) = quorum {
            log_protocols(quorum.is_enabled, quorum.port_unification);
        }
        let admin = admin_source(config)?;
        let watched_admin = admin.iter().filter(|_| {
            let quorum = config.quorum_tls.as_ref();
            quorum.is_some_and(|quorum| quorum.cert_reload)
        });
        let watched_clients = clients.iter().filter(|_| config.client_tls.cert_reload);
        let watched_members = members
            .iter()
            .filter(|_| quorum.is_some_and(|quorum| quorum.cert_reload));
        let limit = config.limits.outstanding_handshakes;
        Ok(Self {
            watched: watched_clients
                .chain(watched_members)
                .chain(watched_admin)
                .cloned()
                .collect(),
            interceptor,
            admin,
            admin_unified: config.admin.scheme == AdminScheme::Both,
            clients,
            member_check: wanted.map(|quorum| Arc::new(MemberCheck::new(quorum))),
            members,
            client_gate: Gate::new(limit.map(|limit| limit as usize)),
            member_gate: Gate::new(None),
            clients_unified: client.port_unification,
            members_unified: quorum.is_some_and(|quorum| quorum.port_unification),
            members_dial_tls: quorum.is_some_and(|quorum| quorum.is_enabled),
        })
    }

    /// Returns the settings that name this server's certificates, each with the end of the
    /// certificate's validity in seconds since 1970.
    pub(super) fn certificate_ends(&self) -> Vec<(&'static str, i64)> {
        let sources = [
            ("ssl.keyStore.location", &self.clients),
            ("ssl.quorum.keyStore.location", &self.members),
            ("ssl.quorum.keyStore.location", &self.admin),
        ];
        let ends = |(key, source): (_, &Option<Arc<TlsSource>>)| {
            Some((key, source.as_ref()?.certificate_ends_s()?))
        };
        sources.into_iter().filter_map(ends).collect()
    }

    /// Returns the limit on clients' concurrent handshakes.
    pub(super) fn client_gate(&self) -> &Arc<Gate> {
        &self.client_gate
    }

    /// Returns the acceptor for `clientPort`.
    pub(super) fn of_clients(&self) -> Acceptor {
        match &self.clients {
            Some(source) if self.clients_unified => {
                Acceptor::tls(source.clone(), self.client_gate.clone(), true)
            }
            _ => Acceptor::plain(),
        }
    }

    /// Returns the acceptor for `secureClientPort`; `None` if the client ports do not use TLS.
    pub(super) fn of_secure_clients(&self) -> Option<Acceptor> {
        let source = self.clients.clone()?;
        Some(Acceptor::tls(source, self.client_gate.clone(), false))
    }

    /// Returns the acceptor for the admin port.
    pub(super) fn of_admin(&self) -> Acceptor {
        match &self.admin {
            Some(source) => {
                let gate = Gate::small(admin::limits::HTTP_HANDSHAKES_MAX);
                Acceptor::tls(source.clone(), gate, self.admin_unified)
            }
            None => Acceptor::plain(),
        }
    }

    /// Returns the connector to the admin ports of other members.
    pub(super) fn to_admin(&self) -> Connector {
        match &self.admin {
            Some(source) => Connector::tls(source.clone()),
            None => Connector::plain(),
        }
    }

    /// Returns the acceptor for the ports of elections, of the quorum and of observer masters.
    pub(super) fn of_members(&self) -> Acceptor {
        let gate = self.member_gate.clone();
        match &self.members {
            Some(source) => {
                let acceptor = Acceptor::tls(source.clone(), gate, self.members_unified);
                match self.member_check.clone() {
                    Some(check) => acceptor.with_member_check(check),
                    None => acceptor,
                }
            }
            None => Acceptor::plain(),
        }
    }

    /// Returns the check that distinguishes members from other peers that have a trusted
    /// certificate; `None` without TLS between members.
    pub(super) fn member_check(&self) -> Option<Arc<MemberCheck>> {
        self.member_check.clone()
    }

    /// Returns the connector to the quorum and election ports of other members.
    pub(super) fn to_members(&self) -> Connector {
        let connector = match &self.members {
            Some(source) if self.members_dial_tls => Connector::tls(source.clone()),
            _ => Connector::plain(),
        };
        let connector = match self.member_check.clone() {
            Some(check) => connector.with_member_check(check),
            None => connector,
        };
        match self.interceptor.clone() {
            Some(interceptor) => connector.with_interceptor(interceptor),
            None => connector,
        }
    }

    /// Starts the tasks that reload stores when their files change, if configured.
    pub(super) fn watch(&self) -> Vec<AbortHandle> {
        let watched = self.watched.iter().cloned();
        watched
            .map(|source| tokio::spawn(source.watch()).abort_handle())
            .collect()
    }
}

/// Loads the members' stores for the admin port. The settings of the admin server decide whether a
/// client certificate is required.
fn admin_source(config: &Config) -> Result<Option<Arc<TlsSource>>, TlsError> {
    let quorum = config.quorum_tls.as_ref();
    let Some(quorum) = quorum.filter(|_| config.admin.speaks_tls()) else {
        return Ok(None);
    };
    let tls = Tls {
        client_auth: if config.admin.need_client_auth {
            ClientAuth::Need
        } else {
            ClientAuth::None
        },
        ..quorum.tls.clone()
    };
    TlsSource::load(&tls, Endpoint::Admin, config.fips_mode).map(Some)
}

fn log_protocols(is_enabled: bool, is_unified: bool) {
    match (is_enabled, is_unified) {
        (true, true) => {
            tracing::info!(
                "connections between members use TLS; plain connections of members are also accepted"
            );
        }
        (true, false) => tracing::info!("connections between members use TLS"),
        (false, true) => {
            tracing::info!(
                "connections between members are plain; TLS connections of members are also accepted"
            );
        }
        (false, false) => tracing::info!("connections between members are plain"),
    }
}
