//! Kerberos names, and the rules that map them to user names.
//!
//! ```text
//! service/host@REALM      full name; names of people are usually name@REALM
//! DEFAULT                 removes host and realm from a name in the default realm
//! RULE:[2:$1;$2](.*;h)s/;.*//   for names with two parts: their format, the pattern that the result
//!                               must match, and a replacement
//! ```
//!
//! The first matching rule applies. Source: KerberosName, SaslServerCallbackHandler. Patterns have
//! the syntax of `regex-lite`, without Java's backreferences and lookaround, so that matching is
//! always fast.

mod rule;

use std::fmt;

use rule::Rule;
pub use rule::RuleFault;

/// Parts of a Kerberos name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KerberosName<'a> {
    /// Name of the service or person.
    pub service: &'a str,
    /// Part after the slash.
    pub host: Option<&'a str>,
    /// Part after the `@`.
    pub realm: Option<&'a str>,
}

/// Rules that map Kerberos names to user names. `KerberosNames::default()` does not contain rules,
/// so it does not map names with a realm.
#[derive(Debug, Clone, Default)]
pub struct KerberosNames {
    rules: Vec<Rule>,
    remove_host: bool,
    remove_realm: bool,
}

/// Reason why a name has no user name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoUserName {
    /// The name does not have the form `a[/b]@c`.
    Malformed,
    /// None of the rules matches.
    NoRule,
    /// The result of a matching rule contains a slash or an `@`.
    NotSimple,
    /// A rule for this number of parts refers to a part that the name lacks.
    NoPart,
}

impl<'a> KerberosName<'a> {
    /// Parses a name. Text without an `@` is a service.
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
    /// Parses the rules of `security.auth_to_local`. The flags determine which parts are removed.
    ///
    /// # Errors
    /// If a rule is invalid. Returns the error in the first invalid rule.
    pub fn parse(rules: &str, remove_host: bool, remove_realm: bool) -> Result<Self, RuleFault> {
        Ok(Self {
            rules: rule::parse_all(rules)?,
            remove_host,
            remove_realm,
        })
    }

    /// Returns the user name of a client: the short name, followed by host and realm unless they
    /// are removed.
    ///
    /// # Errors
    /// If the name has no user name.
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
                return if user.contains(['/', '@']) {
                    Err(NoUserName::NotSimple)
                } else {
                    Ok(user)
                };
            }
        }
        Err(NoUserName::NoRule)
    }
}

impl fmt::Display for NoUserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the name does not have the form of a Kerberos name",
            Self::NoRule => "no rule of security.auth_to_local matches",
            Self::NotSimple => {
                "the result of a rule of security.auth_to_local contains a slash or @"
            }
            Self::NoPart => {
                "a rule of security.auth_to_local uses a part that the name does not have"
            }
        })
    }
}

impl std::error::Error for NoUserName {}

#[cfg(test)]
mod tests;
