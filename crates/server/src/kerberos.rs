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
    let members = config.ensemble.as_ref();
    let acceptors = [
        config.auth.sasl.acceptor.as_ref(),
        members.and_then(|ensemble| ensemble.sasl.may_join.as_ref()),
    ];
    for acceptor in acceptors.into_iter().flatten() {
        let SaslAcceptor::Kerberos(key) = acceptor else {
            continue;
        };
        let KerberosKey { principal, key_tab } = key.clone();
        let looked = off_thread(move || Acceptor::acquire(&principal).map(drop)).await;
        looked.map_err(|refusal| StartError::Kerberos {
            principal: key.principal.clone(),
            key_tab,
            refusal,
        })?;
    }
    Ok(())
}
