//! User names of clients that log in with Kerberos.

use std::sync::Arc;

use config::Config;
use config::kerberos::KerberosNames;

/// Returns the rules for names of clients. The configuration has already validated them.
pub(crate) fn names(config: &Config) -> Arc<KerberosNames> {
    let sasl = &config.auth.sasl;
    let (remove_host, remove_realm) = (
        sasl.remove_host_from_principal,
        sasl.remove_realm_from_principal,
    );
    let names = KerberosNames::parse(&sasl.auth_to_local, remove_host, remove_realm);
    Arc::new(names.unwrap_or_default())
}

/// Returns the user name of a client. If no rule applies, returns the whole name, as in Java. The
/// call blocks.
pub(crate) fn user_name(names: &KerberosNames, name: &str) -> String {
    match names.user_name(name, &transport::sasl::gssapi::default_realm()) {
        Ok(user) => user,
        Err(reason) => {
            log_limiter::limited!(warn, name = ?name, err = %reason, "no rule maps a Kerberos name, using the complete name");
            name.to_owned()
        }
    }
}
