//! What becomes of a setting: it works, it has nothing to act on here, or what it asks for is not
//! there and the server does not start.
//!
//! Nobody may believe to be protected, audited or watched by what is not there. Where nothing of
//! the kind is lost the server starts, and says once what has no effect.

/// What becomes of a setting that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It works, whatever its value.
    Works,
    /// These values have nothing to act on, for this reason, and nobody is the worse for it: one
    /// warning at the start. Other values ask for nothing.
    NoEffect(Asks, &'static str),
    /// What these values ask for is not there: the server does not start. Other values ask for
    /// nothing.
    Refused(Asks, &'static Refusal),
    /// The first case that fits the value holds; a value that none fits works.
    Partly(&'static [Fate]),
}

/// Which values of a setting ask for something. An empty one never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// All.
    Any,
    /// `true`, in any case.
    True,
    /// Whatever a flag takes for `false`.
    False,
    /// One of these words, in any case.
    OneOf(&'static [&'static str]),
    /// All but these, in exactly this spelling.
    OtherThan(&'static [&'static str]),
    /// A list, separated by commas, with a word that is none of these.
    ListsOtherThan(&'static [&'static str]),
}

/// Why the server does not start, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, behind the name of the setting.
    pub reason: &'static str,
    /// What to do.
    pub way_out: &'static str,
}

/// A setting by the name it has in zoo.cfg, and the values of it that are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// The name.
    pub name: &'static str,
    /// The values.
    pub asks: Asks,
}

/// What becomes of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It works, or asks for nothing.
    Fine,
    /// It has no effect, for this reason.
    NoEffect(&'static str),
    /// The server does not start.
    Refused(&'static Refusal),
}

impl Fate {
    /// What becomes of this value.
    pub fn judge(self, value: &str) -> Verdict {
        match self {
            Self::NoEffect(asks, why) if asks.fits(value) => Verdict::NoEffect(why),
            Self::Refused(asks, refusal) if asks.fits(value) => Verdict::Refused(refusal),
            Self::Partly(cases) => cases
                .iter()
                .map(|case| case.judge(value))
                .find(|verdict| *verdict != Verdict::Fine)
                .unwrap_or(Verdict::Fine),
            _ => Verdict::Fine,
        }
    }

    /// The fate as a list of cases, none of which is [`Self::Partly`].
    pub fn cases(&self) -> &[Self] {
        match self {
            Self::Partly(cases) => cases,
            single => std::slice::from_ref(single),
        }
    }
}

impl Asks {
    /// Whether this value asks for something.
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

    /// The values in words, for documents.
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
            Self::ListsOtherThan(words) => format!("with others than {}", listed(words)),
        }
    }
}

pub(super) const TLS_PROVIDER: Refusal = Refusal {
    reason: "asks that another provider than x509 authenticates TLS clients, and this server loads \
             no Java classes",
    way_out: "leave it out",
};
pub(super) const BCFKS: Refusal = Refusal {
    reason: "BCFKS stores are not read here",
    way_out: "convert the store: keytool -importkeystore -srcstoretype BCFKS -deststoretype PKCS12",
};
pub(super) const REVOCATION: Refusal = Refusal {
    reason: "asks whether certificates are revoked, at the places on the network that they name, \
             which this release does not do",
    way_out: "leave it out, and name a file with lists of revoked certificates in ssl.crl.location \
              (between members ssl.quorum.crl.location)",
};
pub(super) const CONTEXT_SUPPLIER: Refusal = Refusal {
    reason: "names a Java class that makes the TLS context, and this server loads no Java classes",
    way_out: "leave it out; the key and trust stores have settings of their own",
};
pub(super) const METRICS_TLS: Refusal = Refusal {
    reason: "asks for TLS of the metrics exporter, as in release 3.10, and the exporter has none here: its answers \
             would travel in plain text",
    way_out: "leave it out, and close metricsProvider.httpPort by a firewall, or read the metrics at the admin port \
              with admin.forceHttps=true",
};
/// Holds for builds without the feature `gssapi` only.
pub(crate) const KERBEROS: Refusal = Refusal {
    reason: "asks for Kerberos (GSSAPI), which this build does not have",
    way_out: "use a build with the feature `gssapi`, or leave it out: SASL is there with DIGEST-MD5",
};
pub(super) const KEY_SCHEME: Refusal = Refusal {
    reason: "asks for the scheme key, which this release does not have",
    way_out: "leave it out; clients can authenticate by scheme digest",
};
pub(super) const UNKNOWN_PROVIDER: Refusal = Refusal {
    reason: "names an authentication provider that is not known here, and this server loads no \
             Java classes",
    way_out: "leave it out; the schemes ip, digest, x509, sasl and ensemble are there",
};
pub(super) const SCHEMES: Refusal = Refusal {
    reason: "names a scheme by which no client can authenticate here",
    way_out: "digest, ip, x509 and sasl are there",
};
pub(super) const MD5: Refusal = Refusal {
    reason: "MD5 is too weak to hide a password",
    way_out: "choose SHA1 or better",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_asks_for_nothing() {
        for asks in [
            Asks::Any,
            Asks::True,
            Asks::False,
            Asks::OneOf(&[""]),
            Asks::OtherThan(&["a"]),
            Asks::ListsOtherThan(&["a"]),
        ] {
            assert!(!asks.fits(""), "{asks:?}");
        }
    }

    #[test]
    fn values_are_told_apart_as_their_settings_do() {
        assert!(Asks::True.fits("TRUE") && !Asks::True.fits("yes"));
        assert!(Asks::False.fits("no") && !Asks::False.fits("True"));
        assert!(Asks::OneOf(&["need"]).fits("NEED") && !Asks::OneOf(&["need"]).fits("none"));
        let enabled = Asks::OtherThan(&["false"]);
        assert!(enabled.fits("FALSE") && !enabled.fits("false"));
        let schemes = Asks::ListsOtherThan(&["digest", "ip"]);
        assert!(schemes.fits("digest, sasl") && !schemes.fits("ip,,digest "));
    }

    #[test]
    fn the_first_case_that_fits_holds_and_other_values_work() {
        let fate = Fate::Partly(&[
            Fate::NoEffect(Asks::OneOf(&["a"]), "why"),
            Fate::Refused(Asks::OtherThan(&["b"]), &MD5),
        ]);
        assert_eq!(fate.judge("a"), Verdict::NoEffect("why"));
        assert_eq!(fate.judge("b"), Verdict::Fine);
        assert_eq!(fate.judge("c"), Verdict::Refused(&MD5));
        assert_eq!(Fate::Works.judge("c"), Verdict::Fine);
    }
}
