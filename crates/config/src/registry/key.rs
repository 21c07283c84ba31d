//! What is known about one setting.

use super::fate::{Asks, Condition, Fate, Refusal};

/// One setting: its names, type, default, range and meaning.
///
/// This is the only place where these facts stand. The parser, the suggestions for misspelt keys
/// and docs/CONFIG.md are made from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// The name in zoo.cfg; of a property without a file form, the property's name. A name that
    /// ends in `*` stands for all names that begin with what is before it.
    pub name: &'static str,
    /// Where the setting may be written.
    pub scope: Scope,
    /// Further system properties that are consulted when the setting's own is not set.
    pub also: &'static [&'static str],
    /// What a value looks like.
    pub kind: Kind,
    /// What a number counts.
    pub unit: &'static str,
    /// What holds when the setting is not written.
    pub default: DefaultValue,
    /// Limits of a number.
    pub range: Option<Range>,
    /// Whether a value that cannot be read is refused. Java falls back to the default for most
    /// settings that it reads from system properties.
    pub is_strict: bool,
    /// Whether a number is decimal only, where Java's `getInteger` would also take `0x10` and `010`.
    pub is_decimal: bool,
    /// How widely the setting is used.
    pub tier: Tier,
    /// What becomes of it here.
    pub fate: Fate,
    /// Another setting without which it asks for nothing.
    pub only_with: Option<Condition>,
    /// One sentence on what it is for.
    pub doc: &'static str,
}

/// Where a setting may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In zoo.cfg only; a `-D` flag is not consulted.
    File,
    /// In zoo.cfg; this system property is what holds otherwise.
    FileOrProperty(&'static str),
    /// In zoo.cfg; but this system property wins.
    FileUnderProperty(&'static str),
    /// In zoo.cfg as `name` or with `-Dzookeeper.name`; the file wins.
    Prefixed,
    /// With `-Dname` only: in zoo.cfg it would become `zookeeper.name`, which nobody reads.
    Property,
    /// With `-Dname`, or in zoo.cfg if there is no such flag.
    PropertyOrFile,
    /// A member list: zoo.cfg or the dynamic file.
    Members,
}

/// What the value of a setting looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number of 32 bits.
    Int,
    /// A whole number of 64 bits.
    Long,
    /// A number with a fraction.
    Ratio,
    /// A TCP port.
    Port,
    /// `true` or `false`.
    Flag,
    /// Only `special` is special, in exactly this spelling; it is usually set against `other`.
    Word {
        /// The word that makes the difference.
        special: &'static str,
        /// What people write otherwise.
        other: &'static str,
    },
    /// One of several words, in any case.
    Choice(&'static [&'static str]),
    /// A path of a file or directory.
    Path,
    /// A host name or address.
    Host,
    /// Any text.
    Text,
    /// Any text that is not to be shown.
    Secret,
    /// Words separated by commas.
    List,
    /// The name of a Java class, of which some are known here.
    Class,
    /// A line of the member list.
    Member,
}

/// What holds when a setting is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// Nothing: the setting is absent.
    Unset,
    /// This value.
    Value(&'static str),
    /// Something that follows from other settings, in words.
    Derived(&'static str),
}

/// Limits of a number, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub min: i64,
    /// The greatest.
    pub max: i64,
    /// What becomes of a number outside.
    pub outside: Outside,
}

/// What becomes of a number outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// The configuration is refused.
    Refused,
    /// The default holds.
    Default,
    /// The nearest number inside holds.
    Nearest,
}

/// How widely a setting is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// In common production configurations, container images or charts.
    Must,
    /// Real deployments use it, less often.
    Should,
    /// Internals of the Java server: accepted, and reported as having no effect.
    Warn,
}

impl Key {
    const fn new(name: &'static str, scope: Scope, kind: Kind, doc: &'static str) -> Self {
        Self {
            name,
            scope,
            also: &[],
            kind,
            unit: "",
            default: DefaultValue::Unset,
            range: None,
            is_strict: false,
            is_decimal: false,
            tier: Tier::Must,
            fate: Fate::Works,
            only_with: None,
            doc,
        }
    }

    pub(super) const fn file(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self::new(name, Scope::File, kind, doc).strict()
    }

    pub(super) const fn file_or_property(
        name: &'static str,
        property: &'static str,
        kind: Kind,
        doc: &'static str,
    ) -> Self {
        Self::new(name, Scope::FileOrProperty(property), kind, doc)
    }

    pub(super) const fn file_under_property(
        name: &'static str,
        property: &'static str,
        kind: Kind,
        doc: &'static str,
    ) -> Self {
        Self::new(name, Scope::FileUnderProperty(property), kind, doc)
    }

    pub(super) const fn prefixed(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self::new(name, Scope::Prefixed, kind, doc)
    }

    pub(super) const fn property(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self::new(name, Scope::Property, kind, doc)
    }

    pub(super) const fn property_or_file(
        name: &'static str,
        kind: Kind,
        doc: &'static str,
    ) -> Self {
        Self::new(name, Scope::PropertyOrFile, kind, doc)
    }

    pub(super) const fn member(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Scope::Members, Kind::Member, doc).strict()
    }

    pub(super) const fn also(mut self, properties: &'static [&'static str]) -> Self {
        self.also = properties;
        self
    }

    pub(super) const fn default(mut self, value: &'static str) -> Self {
        self.default = DefaultValue::Value(value);
        self
    }

    pub(super) const fn derived(mut self, words: &'static str) -> Self {
        self.default = DefaultValue::Derived(words);
        self
    }

    pub(super) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    pub(super) const fn at_least(self, min: i64, outside: Outside) -> Self {
        self.between(min, i64::MAX, outside)
    }

    pub(super) const fn between(mut self, min: i64, max: i64, outside: Outside) -> Self {
        self.range = Some(Range { min, max, outside });
        self
    }

    pub(super) const fn strict(mut self) -> Self {
        self.is_strict = true;
        self.decimal()
    }

    pub(super) const fn decimal(mut self) -> Self {
        self.is_decimal = true;
        self
    }

    pub(super) const fn should(mut self) -> Self {
        self.tier = Tier::Should;
        self
    }

    /// Internals of the Java server: no value of them fails the start, and none has an effect.
    pub(super) const fn internal(mut self, why: &'static str) -> Self {
        self.tier = Tier::Warn;
        self.no_effect(Asks::Any, why)
    }

    /// What these values ask for has nothing to act on here, and nobody is the worse for it.
    pub(super) const fn no_effect(mut self, asks: Asks, why: &'static str) -> Self {
        self.fate = Fate::NoEffect(asks, why);
        self
    }

    /// What these values ask for is not there.
    pub(super) const fn refused(mut self, asks: Asks, refusal: &'static Refusal) -> Self {
        self.fate = Fate::Refused(asks, refusal);
        self
    }

    /// It works, but for some values.
    pub(super) const fn partly(mut self, cases: &'static [Fate]) -> Self {
        self.fate = Fate::Partly(cases);
        self
    }

    /// It asks for something only where another setting has one of these values.
    pub(super) const fn only_with(mut self, name: &'static str, asks: Asks) -> Self {
        self.only_with = Some(Condition { name, asks });
        self
    }

    /// The beginning that all names of a family have in common; `None` for a single setting.
    pub fn family(&self) -> Option<&'static str> {
        self.name.strip_suffix('*')
    }

    /// Whether zoo.cfg's value is taken as it is, and does not become the property
    /// `zookeeper.<name>`.
    pub fn is_parsed_directly(&self) -> bool {
        matches!(
            self.scope,
            Scope::File | Scope::FileOrProperty(_) | Scope::FileUnderProperty(_)
        )
    }

    /// The system property that carries the setting, if there is one.
    pub fn property_name(&self) -> Option<String> {
        match self.scope {
            Scope::File | Scope::Members => None,
            Scope::FileOrProperty(name) | Scope::FileUnderProperty(name) => Some(name.to_owned()),
            Scope::Prefixed => Some(format!("{PREFIX}{}", self.name)),
            Scope::Property | Scope::PropertyOrFile => Some(self.name.to_owned()),
        }
    }
}

/// What a setting of zoo.cfg that the parser does not know gets in front to become a property.
pub const PREFIX: &str = "zookeeper.";
