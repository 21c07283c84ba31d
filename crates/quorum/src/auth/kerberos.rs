//! Kerberos logins between members.
//!
//! The connecting side has a ticket for the service of the host to which it connects. Its own
//! principal must be a service of a host in the member list. Source: SaslQuorumAuthLearner,
//! SaslQuorumServerCallbackHandler, SecurityUtils.

use std::collections::BTreeMap;
use std::time::Duration;

use config::Ensemble;
use config::kerberos::KerberosName;
use proto::Sid;
use tokio::io::{AsyncRead, AsyncWrite};
use transport::canonical_host;
use transport::sasl::gssapi::{Accepted, Acceptor, Initiator, TOKEN_BYTES_MAX, off_thread};

use super::packet::{IN_PROGRESS, SUCCESS, expect_magic, read_rest, write, write_nothing};
use super::{AuthError, DialledServer, Refusal};

/// Placeholder for the host of the remote server. Source: SecurityUtils.getServerPrincipal.
const HOST: &str = "/_HOST";

/// Time limit for the lookup of a host's canonical name. If the lookup takes longer, the configured
/// name is used.
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(5);

/// Hosts of the members, and the principal of their services.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// Hosts in the member list at the start of this server.
    by_sid: BTreeMap<Sid, Vec<String>>,
    service_principal: String,
    /// Whether names are canonicalized by a reverse lookup (`kerberos.canonicalizeHostNames`).
    canonicalizes: bool,
}

impl Hosts {
    pub(super) fn new(ensemble: &Ensemble, canonicalizes: bool) -> Self {
        let members = ensemble.membership.members.values();
        let hosts = members.map(|member| {
            let addresses = member.addresses.iter();
            let hosts = addresses.map(|address| address.host.clone()).collect();
            (member.sid, hosts)
        });
        Self {
            by_sid: hosts.collect(),
            service_principal: ensemble.sasl.service_principal.clone(),
            canonicalizes,
        }
    }

    /// Returns the service principal of a server to which this server has connected.
    pub(super) async fn service_of(&self, dialled: DialledServer<'_>) -> String {
        let Some(service) = self.service_principal.strip_suffix(HOST) else {
            return self.service_principal.clone();
        };
        let listed = dialled.sid.and_then(|sid| self.by_sid.get(&sid)?.first());
        let host = listed.map_or(dialled.host, String::as_str);
        let host = self.name_of(host).await.to_lowercase();
        format!("{service}/{host}")
    }

    /// Returns whether `name` is a service of a member's host.
    async fn names_member(&self, name: &str) -> bool {
        let Some(KerberosName {
            host: Some(host),
            realm: Some(_),
            ..
        }) = KerberosName::parse(name)
        else {
            return false;
        };
        for listed in self.by_sid.values().flatten() {
            if self.name_of(listed).await.eq_ignore_ascii_case(host) {
                return true;
            }
        }
        false
    }

    async fn name_of(&self, host: &str) -> String {
        if self.canonicalizes {
            canonical_host(host, LOOKED_UP_WITHIN).await
        } else {
            host.to_owned()
        }
    }
}

/// Logs in as `principal` to `service`.
pub(super) async fn log_in<S>(
    stream: &mut S,
    principal: &str,
    service: String,
) -> Result<(), AuthError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (name, target) = (principal.to_owned(), service.clone());
    let begun = off_thread(move || {
        let mut exchange = Initiator::acquire(Some(&name))?.exchange(&target)?;
        let token = exchange.begin()?;
        Ok((exchange, token))
    });
    let (mut exchange, token) = begun.await?;
    write(stream, IN_PROGRESS, &token).await?;
    let mut is_last = false;
    loop {
        expect_magic(stream).await?;
        let (status, token) = read_rest(stream, TOKEN_BYTES_MAX).await?;
        match status {
            SUCCESS if is_last => return Ok(()),
            IN_PROGRESS if !is_last => {}
            SUCCESS | IN_PROGRESS => return Err(AuthError::NoPacket),
            _ => {
                return Err(AuthError::TicketDenied {
                    principal: principal.to_owned(),
                    service,
                });
            }
        }
        let stepped = off_thread(move || {
            let response = exchange.step(&token)?;
            Ok((exchange, response))
        });
        let (stepped, response) = stepped.await?;
        exchange = stepped;
        write(stream, IN_PROGRESS, &response.token).await?;
        is_last = response.is_last;
    }
}

/// Runs the exchange on the listening side, after the magic of the first packet has been read.
/// Returns the authenticated name.
pub(super) async fn admit<R, W>(
    input: &mut R,
    output: &mut W,
    principal: &str,
    hosts: &Hosts,
) -> Result<String, AuthError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let principal = principal.to_owned();
    let mut exchange = off_thread(move || Ok(Acceptor::acquire(&principal)?.exchange())).await?;
    loop {
        let (_, token) = read_rest(input, TOKEN_BYTES_MAX).await?;
        let stepped = off_thread(move || {
            let accepted = exchange.step(&token)?;
            Ok((exchange, accepted))
        });
        let (stepped, accepted) = stepped.await?;
        exchange = stepped;
        match accepted {
            Accepted::Challenge(challenge) => write(output, IN_PROGRESS, &challenge).await?,
            Accepted::Done { name, acts_as } => {
                if acts_as.is_some_and(|acts_as| acts_as != name) {
                    return Err(Refusal::OtherUser.into());
                }
                if !hosts.names_member(&name).await {
                    return Err(AuthError::NoMember(name));
                }
                write_nothing(output, SUCCESS).await?;
                return Ok(name);
            }
        }
        expect_magic(input).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(service_principal: &str) -> Hosts {
        let of = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect();
        let by_sid = [
            (Sid(1), of(&["Zk1.example.com"])),
            (Sid(2), of(&["zk2", "zk2b"])),
        ];
        Hosts {
            by_sid: by_sid.into(),
            service_principal: service_principal.to_owned(),
            canonicalizes: false,
        }
    }

    /// Source: SecurityUtils.getServerPrincipal, which does not change a principal that has a
    /// realm.
    #[tokio::test]
    async fn the_service_host_comes_from_the_member_list() {
        let service = async |principal: &str, sid, host| {
            let dialled = DialledServer { sid, host };
            hosts(principal).service_of(dialled).await
        };
        let (one, three) = (Some(Sid(1)), Some(Sid(3)));
        assert_eq!(
            service("zk/_HOST", one, "192.0.2.1").await,
            "zk/zk1.example.com"
        );
        assert_eq!(service("zk/_HOST", three, "New").await, "zk/new");
        assert_eq!(service("zk/_HOST", None, "zk9").await, "zk/zk9");
        for fixed in ["zk/localhost", "zk/_HOST@REALM"] {
            assert_eq!(service(fixed, one, "zk1").await, fixed);
        }
    }

    #[tokio::test]
    async fn only_services_of_member_hosts_are_admitted() {
        let hosts = hosts("zk/_HOST");
        for member in ["zk/zk1.example.com@R", "any/zk2@R", "zk/zk2b@OTHER"] {
            assert!(hosts.names_member(member).await, "{member}");
        }
        for stranger in [
            "zk/zk3@R",
            "zk@R",
            "zk1.example.com@R",
            "zk/zk2",
            "zk2",
            "a/zk2/b@R",
        ] {
            assert!(!hosts.names_member(stranger).await, "{stranger}");
        }
    }
}
