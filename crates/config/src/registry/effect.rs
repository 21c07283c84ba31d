//! Effect of a setting in Zoarium: it works, has no effect, or prevents the start because it
//! requires a missing feature.
//!
//! An operator must not rely on protection, auditing or monitoring that does not exist. If a
//! missing feature is harmless, the server starts and warns once about settings without effect.

/// Effect of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The setting works with every value.
    Works,
    /// These values are harmless but have no effect, for this reason. The server warns once at its
    /// start. Other values are accepted silently.
    NoEffect(ValueSet, &'static str),
    /// These values require a missing feature, so the server does not start. Other values are
    /// accepted silently.
    Refused(ValueSet, &'static Refusal),
    /// The first case that matches the value applies. Values without a matching case work.
    Partly(&'static [Effect]),
}

/// Condition on the value of a setting. The condition is never true for an empty value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSet {
    /// All values.
    Any,
    /// `true`, in upper or lower case.
    True,
    /// Every value that a flag interprets as `false`.
    False,
    /// One of these words, in upper or lower case.
    OneOf(&'static [&'static str]),
    /// All values except these, which must have exactly this spelling.
    OtherThan(&'static [&'static str]),
    /// A list, separated by commas, that contains a word other than these.
    ListsOtherThan(&'static [&'static str]),
}

/// Reason why the server does not start, and the recommended action.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason, as a phrase that follows the name of the setting. A complete sentence begins with a
    /// capital letter.
    pub reason: &'static str,
    /// Recommended action.
    pub way_out: &'static str,
}

/// Setting, by its name in zoo.cfg, and a condition on its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// Name of the setting.
    pub name: &'static str,
    /// Condition on the value.
    pub set: ValueSet,
}

/// Effect of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The value works, or does not request anything.
    Fine,
    /// The value has no effect, for this reason.
    NoEffect(&'static str),
    /// The server does not start.
    Refused(&'static Refusal),
}

impl Effect {
    /// Returns the effect of this value.
    pub fn judge(self, value: &str) -> Verdict {
        match self {
            Self::NoEffect(set, why) if set.fits(value) => Verdict::NoEffect(why),
            Self::Refused(set, refusal) if set.fits(value) => Verdict::Refused(refusal),
            Self::Partly(cases) => cases
                .iter()
                .map(|case| case.judge(value))
                .find(|verdict| *verdict != Verdict::Fine)
                .unwrap_or(Verdict::Fine),
            _ => Verdict::Fine,
        }
    }

    /// Returns the effect as a list of cases other than [`Self::Partly`].
    pub fn cases(&self) -> &[Self] {
        match self {
            Self::Partly(cases) => cases,
            single => std::slice::from_ref(single),
        }
    }
}

impl ValueSet {
    /// Returns whether the condition is true for this value.
    pub fn fits(self, value: &str) -> bool {
        let is_one_of =
            |words: &[&str], value: &str| words.iter().any(|word| word.eq_ignore_ascii_case(value));
        let mut listed = value
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        !value.is_empty()
            && match self {
                Self::Any => true,
                Self::True => value.eq_ignore_ascii_case("true"),
                Self::False => !value.eq_ignore_ascii_case("true"),
                Self::OneOf(words) => is_one_of(words, value),
                Self::OtherThan(words) => !words.contains(&value),
                Self::ListsOtherThan(words) => listed.any(|word| !words.contains(&word)),
            }
    }

    /// Describes the values in words, for documents.
    pub fn describe(self) -> String {
        let listed = |words: &[&str]| {
            let shown: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            shown.join(", ")
        };
        match self {
            Self::Any => "any".to_owned(),
            Self::True => "`true`".to_owned(),
            Self::False => "`false`".to_owned(),
            Self::OneOf(words) => listed(words),
            Self::OtherThan(words) => format!("all but {}", listed(words)),
            Self::ListsOtherThan(words) => {
                format!("lists with values other than {}", listed(words))
            }
        }
    }
}

pub(super) const TLS_PROVIDER: Refusal = Refusal {
    reason: "selects a provider other than x509 for TLS clients, which is not supported",
    way_out: "remove the setting",
};
pub(super) const BCFKS: Refusal = Refusal {
    reason: "BCFKS stores are not supported",
    way_out: "convert the store: keytool -importkeystore -srcstoretype BCFKS -deststoretype PKCS12",
};
pub(super) const REVOCATION: Refusal = Refusal {
    reason: "enables revocation checks over the network, which this release does not support",
    way_out: "remove the setting, and set ssl.crl.location or ssl.quorum.crl.location to a file with \
              revocation lists",
};
pub(super) const CONTEXT_SUPPLIER: Refusal = Refusal {
    reason: "names a Java class for the TLS context, but this server does not load Java classes",
    way_out: "remove the setting, and use the settings of the key and trust stores",
};
pub(super) const METRICS_TLS: Refusal = Refusal {
    reason: "enables TLS for the metrics exporter, but Zoarium's exporter supports only plain HTTP",
    way_out: "remove the setting, and block metricsProvider.httpPort with a firewall, or read the \
              metrics from the admin port with admin.forceHttps=true",
};
/// Applies only to builds without the feature `gssapi`.
pub(crate) const KERBEROS: Refusal = Refusal {
    reason: "requires Kerberos (GSSAPI), which a build without the feature `gssapi` does not support",
    way_out: "use a build with this feature, or remove the Kerberos settings and use DIGEST-MD5",
};
pub(super) const KEY_SCHEME: Refusal = Refusal {
    reason: "requires the scheme `key`, which this release does not support",
    way_out: "remove the setting, and use the scheme `digest`",
};
pub(super) const UNKNOWN_PROVIDER: Refusal = Refusal {
    reason: "names an authentication provider in Java, which this server does not load",
    way_out: "remove the setting; the schemes ip, digest, x509, sasl and ensemble are supported",
};
pub(super) const SCHEMES: Refusal = Refusal {
    reason: "contains a scheme with which clients cannot authenticate",
    way_out: "use digest, ip, x509 or sasl",
};
pub(super) const MD5: Refusal = Refusal {
    reason: "MD5 is too weak to protect a password",
    way_out: "choose SHA1 or better",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_meets_no_condition() {
        for set in [
            ValueSet::Any,
            ValueSet::True,
            ValueSet::False,
            ValueSet::OneOf(&[""]),
            ValueSet::OtherThan(&["a"]),
            ValueSet::ListsOtherThan(&["a"]),
        ] {
            assert!(!set.fits(""), "{set:?}");
        }
    }

    #[test]
    fn values_are_compared_as_their_settings_do() {
        assert!(ValueSet::True.fits("TRUE") && !ValueSet::True.fits("yes"));
        assert!(ValueSet::False.fits("no") && !ValueSet::False.fits("True"));
        assert!(
            ValueSet::OneOf(&["need"]).fits("NEED") && !ValueSet::OneOf(&["need"]).fits("none")
        );
        let enabled = ValueSet::OtherThan(&["false"]);
        assert!(enabled.fits("FALSE") && !enabled.fits("false"));
        let schemes = ValueSet::ListsOtherThan(&["digest", "ip"]);
        assert!(schemes.fits("digest, sasl") && !schemes.fits("ip,,digest "));
    }

    #[test]
    fn the_first_case_that_fits_holds_and_other_values_work() {
        let effect = Effect::Partly(&[
            Effect::NoEffect(ValueSet::OneOf(&["a"]), "why"),
            Effect::Refused(ValueSet::OtherThan(&["b"]), &MD5),
        ]);
        assert_eq!(effect.judge("a"), Verdict::NoEffect("why"));
        assert_eq!(effect.judge("b"), Verdict::Fine);
        assert_eq!(effect.judge("c"), Verdict::Refused(&MD5));
        assert_eq!(Effect::Works.judge("c"), Verdict::Fine);
    }
}
