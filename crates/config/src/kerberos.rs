//! Kerberos names, and the rules that make user names of them.
//!
//! ```text
//! service/host@REALM      the whole name; of people mostly name@REALM
//! DEFAULT                 a name of the default realm loses host and realm
//! RULE:[2:$1;$2](.*;h)s/;.*//   of names with two parts: how they are put together, which of them are meant,
//!                               and what is replaced
//! ```
//!
//! The first rule that fits holds. Source: KerberosName, SaslServerCallbackHandler. Patterns are those of `regex-lite`:
//! without references back and looks around, which Java has, so that none takes long.

mod rule;

use std::fmt;

use rule::Rule;
pub use rule::RuleFault;

/// A name, by its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KerberosName<'a> {
    /// Of the service, or of the person.
    pub service: &'a str,
    /// What follows the slash.
    pub host: Option<&'a str>,
    /// What follows the `@`.
    pub realm: Option<&'a str>,
}

/// What user names are made by. The default has no rules: no name with a realm has a user name.
#[derive(Debug, Clone, Default)]
pub struct KerberosNames {
    rules: Vec<Rule>,
    remove_host: bool,
    remove_realm: bool,
}

/// Why a name has no user name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoUserName {
    /// It is no name `a[/b]@c`.
    Malformed,
    /// No rule fits.
    NoRule,
    /// A rule that fits leaves a slash or an `@` in it.
    NotSimple,
    /// A rule that fits names a part that the name does not have.
    NoPart,
}

impl<'a> KerberosName<'a> {
    /// The parts of a name; what has no `@` is a service.
    pub fn parse(name: &'a str) -> Option<Self> {
        let Some((principal, realm)) = name.split_once('@') else {
            return Some(Self {
                service: name,
                host: None,
                realm: None,
            });
        };
        let (service, host) = match principal.split_once('/') {
            Some((service, host)) => (service, Some(host)),
            None => (principal, None),
        };
        let is_simple = !realm.contains(['/', '@']) && !host.unwrap_or_default().contains('/');
        is_simple.then_some(Self {
            service,
            host,
            realm: Some(realm),
        })
    }
}

impl KerberosNames {
    /// The rules of `security.auth_to_local`, and what is cut off.
    ///
    /// # Errors
    /// The first rule that makes no sense.
    pub fn parse(rules: &str, remove_host: bool, remove_realm: bool) -> Result<Self, RuleFault> {
        Ok(Self {
            rules: rule::parse_all(rules)?,
            remove_host,
            remove_realm,
        })
    }

    /// The user name of a client: the short name, and behind it what is not cut off of the rest.
    ///
    /// # Errors
    /// Why there is none.
    pub fn user_name(&self, name: &str, default_realm: &str) -> Result<String, NoUserName> {
        let parts = KerberosName::parse(name).ok_or(NoUserName::Malformed)?;
        let mut user = self.short_name(&parts, default_realm)?;
        for (mark, part, is_removed) in [
            ('/', parts.host, self.remove_host),
            ('@', parts.realm, self.remove_realm),
        ] {
            if let Some(part) = part.filter(|_| !is_removed) {
                user.push(mark);
                user.push_str(part);
            }
        }
        Ok(user)
    }

    fn short_name(
        &self,
        name: &KerberosName<'_>,
        default_realm: &str,
    ) -> Result<String, NoUserName> {
        let Some(realm) = name.realm else {
            return Ok(name.service.to_owned());
        };
        let mut parts = vec![realm, name.service];
        parts.extend(name.host);
        for rule in &self.rules {
            if let Some(user) = rule.apply(&parts, default_realm)? {
                return match user.contains(['/', '@']) {
                    true => Err(NoUserName::NotSimple),
                    false => Ok(user),
                };
            }
        }
        Err(NoUserName::NoRule)
    }
}

impl fmt::Display for NoUserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it is no Kerberos name",
            Self::NoRule => "no rule of security.auth_to_local fits",
            Self::NotSimple => "a rule of security.auth_to_local leaves a slash or an @ in it",
            Self::NoPart => "a rule of security.auth_to_local names a part that it does not have",
        })
    }
}

impl std::error::Error for NoUserName {}

#[cfg(test)]
mod tests;
