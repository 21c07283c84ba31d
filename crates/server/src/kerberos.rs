//! Support for Kerberos logins: blocking steps on separate threads, user names, and a check of the
//! keys at the start.

use std::ffi::OsString;
use std::sync::{Arc, LazyLock};

use config::kerberos::KerberosNames;
use config::{Config, KerberosKey, SaslAcceptor, SaslInitiator};
use tokio::sync::Semaphore;
use transport::sasl::gssapi::{AcceptingExchange, Acceptor, GssapiRefusal, environment};

use crate::error::StartError;
use crate::limits::KERBEROS_STEPS_AT_A_TIME;

/// Limit on concurrent steps. A client's step keeps its thread until the KDC answers, even if the
/// client has disconnected.
static STEPS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(KERBEROS_STEPS_AT_A_TIME)));

/// Runs a step that reads files or queries the KDC on a thread that may block.
pub(crate) async fn off_thread<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, GssapiRefusal> + Send + 'static,
) -> Result<T, GssapiRefusal> {
    let ended = || GssapiRefusal::Library {
        doing: "log in",
        reason: "the server is stopping".to_owned(),
    };
    // The semaphore is never closed.
    let turn = STEPS.clone().acquire_owned().await.map_err(|_| ended())?;
    let worked = blocking::run(move || {
        let stepped = step();
        drop(turn);
        stepped
    });
    worked.await.map_err(|_| ended())?
}

/// Begins to accept a login with the key of this principal. Blocks.
pub(crate) fn accept(principal: &str) -> Result<AcceptingExchange, GssapiRefusal> {
    Ok(Acceptor::acquire(principal)?.exchange())
}

/// Returns the rules for names of clients. They were already validated.
pub(crate) fn names(config: &Config) -> Arc<KerberosNames> {
    let sasl = &config.auth.sasl;
    let (remove_host, remove_realm) = (
        sasl.remove_host_from_principal,
        sasl.remove_realm_from_principal,
    );
    let names = KerberosNames::parse(&sasl.auth_to_local, remove_host, remove_realm);
    Arc::new(names.unwrap_or_default())
}

/// Returns the user name of a client. If no rule applies, this is the whole name, as in Java.
/// Blocks.
pub(crate) fn user_name(names: &KerberosNames, name: &str) -> String {
    match names.user_name(name, &transport::sasl::gssapi::default_realm()) {
        Ok(user) => user,
        Err(reason) => {
            log_limiter::limited!(warn, name = ?name, err = %reason, "no rule maps a Kerberos name, using the complete name");
            name.to_owned()
        }
    }
}

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

/// Checks that the keys for logins to this server exist. Without this check, the first login would
/// report a missing key.
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
        let looked = off_thread(move || accept(&principal).map(drop)).await;
        looked.map_err(|refusal| StartError::Kerberos {
            principal: key.principal.clone(),
            key_tab,
            refusal,
        })?;
    }
    Ok(())
}
