//! Support for Kerberos logins: the library's environment, and a check of the keys when the server
//! starts.

use std::ffi::OsString;

use config::{Config, KerberosKey, SaslAcceptor, SaslInitiator};
use transport::sasl::gssapi::{Acceptor, environment, off_thread};

use crate::error::StartError;

/// Returns the environment variables that the Kerberos library needs for this configuration.
pub fn kerberos_environment(config: &Config) -> Vec<(&'static str, OsString)> {
    let (of_clients, ensemble) = (&config.auth.sasl, config.ensemble.as_ref());
    let of_members = ensemble.map(|ensemble| &ensemble.sasl);
    let may_join = of_members.and_then(|sasl| sasl.may_join.as_ref());
    let accepts_with = [of_clients.acceptor.as_ref(), may_join]
        .into_iter()
        .flatten()
        .find_map(|acceptor| match acceptor {
            SaslAcceptor::Kerberos(key) => Some(key.key_tab.as_path()),
            SaslAcceptor::DigestMd5(_) => None,
        });
    let initiates_with = match of_members.and_then(|sasl| sasl.learner.as_ref()) {
        Some(SaslInitiator::Kerberos(key)) => Some(key.key_tab.as_path()),
        _ => None,
    };
    let is_used = accepts_with.is_some() || initiates_with.is_some();
    let krb5_conf = of_clients.krb5_conf.as_deref().filter(|_| is_used);
    environment(accepts_with, initiates_with, krb5_conf)
}

/// Checks that the keys for logins to this server exist. Without this check, a missing key would
/// only be reported at the first login.
pub(crate) async fn check_keys(config: &Config) -> Result<(), StartError> {
    if let Some(acceptor) = &config.auth.sasl.acceptor {
        check_key("clients", acceptor).await?;
    }
    let members = config.ensemble.as_ref();
    if let Some(acceptor) = members.and_then(|ensemble| ensemble.sasl.may_join.as_ref()) {
        check_key("members", acceptor).await?;
    }
    Ok(())
}

async fn check_key(peers: &'static str, acceptor: &SaslAcceptor) -> Result<(), StartError> {
    let SaslAcceptor::Kerberos(KerberosKey { principal, key_tab }) = acceptor else {
        return Ok(());
    };
    let name = principal.clone();
    let looked = off_thread(move || Acceptor::acquire(&name).map(drop)).await;
    looked.map_err(|refusal| StartError::Kerberos {
        peers,
        principal: principal.clone(),
        key_tab: key_tab.clone(),
        refusal,
    })
}

#[cfg(test)]
mod tests {
    use config::{RawConfig, Surroundings, SystemProperties};

    use super::*;

    /// Surroundings of member 1.
    struct Member;

    impl Surroundings for Member {
        fn read(&mut self, _: &std::path::Path, _: usize) -> std::io::Result<Vec<u8>> {
            Ok(b"1".to_vec())
        }

        fn resolve(&mut self, _: &str) -> std::io::Result<std::net::IpAddr> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    #[tokio::test]
    async fn the_error_names_the_peers_whose_logins_cannot_be_accepted() {
        let text = "dataDir=/d\nclientPort=1\nserver.1=127.0.0.1:2:3\nserver.2=127.0.0.1:4:5\n\
                    initLimit=5\nsyncLimit=2\n";
        let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).unwrap();
        let mut config = Config::parse(raw, SystemProperties::new(), &mut Member).unwrap();
        // The key does not exist.
        let key = SaslAcceptor::Kerberos(KerberosKey {
            principal: "zookeeper/host@REALM".to_owned(),
            key_tab: "/d/absent.keytab".into(),
        });
        config.ensemble.as_mut().unwrap().sasl.may_join = Some(key.clone());
        let refused = check_keys(&config).await.unwrap_err().to_string();
        assert!(refused.contains("logins of members as"), "{refused}");
        config.auth.sasl.acceptor = Some(key);
        let refused = check_keys(&config).await.unwrap_err().to_string();
        assert!(refused.contains("logins of clients as"), "{refused}");
    }
}
