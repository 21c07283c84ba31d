//! Description of a setting.

use super::effect::{Condition, Effect, Refusal, ValueSet};

/// Setting: names, type, default, range and meaning.
///
/// These facts exist only here. The parser, the suggestions for misspelt keys and docs/CONFIG.md
/// use them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Name in zoo.cfg, or name of a property that cannot be written there. A name that ends in `*`
    /// matches all names with this prefix.
    pub name: &'static str,
    /// Places where the setting may be written.
    pub scope: Scope,
    /// Further system properties, which are read when the setting's own property is missing.
    pub also: &'static [&'static str],
    /// Type of the value.
    pub kind: ValueKind,
    /// Unit of a number.
    pub unit: &'static str,
    /// Default value.
    pub default: DefaultValue,
    /// Limits of a number.
    pub range: Option<Range>,
    /// Whether an invalid value is refused. For most settings that Java reads from system
    /// properties, an invalid value falls back to the default.
    pub is_strict: bool,
    /// Whether a number must be decimal. Java's `getInteger` also accepts `0x10` and `010`.
    pub is_decimal: bool,
    /// Usage of the setting in practice.
    pub tier: Tier,
    /// Effect of the setting in Zoarium.
    pub effect: Effect,
    /// Condition on another setting. If it is not true, this setting is ignored.
    pub only_with: Option<Condition>,
    /// Purpose of the setting, in one sentence.
    pub doc: &'static str,
}

/// Places where a setting may be written, and their precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// zoo.cfg only. A `-D` flag is ignored.
    File,
    /// zoo.cfg. Without an entry there, this system property applies.
    FileOrProperty(&'static str),
    /// zoo.cfg, but this system property takes precedence.
    FileUnderProperty(&'static str),
    /// zoo.cfg as `name`, or `-Dzookeeper.name`. The file takes precedence.
    Prefixed,
    /// `-Dname` only. In zoo.cfg it would become `zookeeper.name`, which is never read.
    Property,
    /// `-Dname`. Without such a flag, zoo.cfg applies.
    PropertyOrFile,
    /// Member list: zoo.cfg or the dynamic file.
    Members,
}

/// Type of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
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
    /// Text that is compared with `special` in exactly this spelling. `other` is the usual
    /// alternative.
    Word {
        /// Word with a special meaning.
        special: &'static str,
        /// Usual alternative.
        other: &'static str,
    },
    /// One of several words, ignoring the case.
    Choice(&'static [&'static str]),
    /// A path of a file or directory.
    Path,
    /// A host name or address.
    Host,
    /// Any text.
    Text,
    /// Text that must not be shown.
    Secret,
    /// Words separated by commas.
    List,
    /// Name of a Java class.
    Class,
    /// Line of the member list.
    Member,
}

/// Default of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// The setting is absent.
    Unset,
    /// Constant value.
    Value(&'static str),
    /// Value that is derived from other settings, described in words.
    Derived(&'static str),
}

/// Limits of a number, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
    /// Handling of a number outside the range.
    pub outside: OutOfRange,
}

/// Handling of a number outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfRange {
    /// The configuration is refused.
    Refused,
    /// The default applies.
    Default,
    /// The nearest value in the range applies.
    Nearest,
}

/// Usage of a setting in practice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Used in common production configurations, container images or charts.
    Must,
    /// Used in real deployments, but less often.
    Should,
    /// Internals of the Java server. Accepted, and reported as having no effect.
    Warn,
}

impl Key {
    const fn new(name: &'static str, scope: Scope, kind: ValueKind, doc: &'static str) -> Self {
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
            effect: Effect::Works,
            only_with: None,
            doc,
        }
    }

    pub(super) const fn file(name: &'static str, kind: ValueKind, doc: &'static str) -> Self {
        Self::new(name, Scope::File, kind, doc).strict()
    }

    pub(super) const fn file_or_property(
        name: &'static str,
        property: &'static str,
        kind: ValueKind,
        doc: &'static str,
    ) -> Self {
        Self::new(name, Scope::FileOrProperty(property), kind, doc)
    }

    pub(super) const fn file_under_property(
        name: &'static str,
        property: &'static str,
        kind: ValueKind,
        doc: &'static str,
    ) -> Self {
        Self::new(name, Scope::FileUnderProperty(property), kind, doc)
    }

    pub(super) const fn prefixed(name: &'static str, kind: ValueKind, doc: &'static str) -> Self {
        Self::new(name, Scope::Prefixed, kind, doc)
    }

    pub(super) const fn property(name: &'static str, kind: ValueKind, doc: &'static str) -> Self {
        Self::new(name, Scope::Property, kind, doc)
    }

    pub(super) const fn property_or_file(
        name: &'static str,
        kind: ValueKind,
        doc: &'static str,
    ) -> Self {
        Self::new(name, Scope::PropertyOrFile, kind, doc)
    }

    pub(super) const fn member(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Scope::Members, ValueKind::Member, doc).strict()
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

    pub(super) const fn at_least(self, min: i64, outside: OutOfRange) -> Self {
        self.between(min, i64::MAX, outside)
    }

    pub(super) const fn between(mut self, min: i64, max: i64, outside: OutOfRange) -> Self {
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

    /// Marks internals of the Java server. Their values never prevent the start and never have an
    /// effect.
    pub(super) const fn internal(mut self, why: &'static str) -> Self {
        self.tier = Tier::Warn;
        self.no_effect(ValueSet::Any, why)
    }

    /// Marks values that are harmless but have no effect.
    pub(super) const fn no_effect(mut self, set: ValueSet, why: &'static str) -> Self {
        self.effect = Effect::NoEffect(set, why);
        self
    }

    /// Marks values that require a missing feature.
    pub(super) const fn refused(mut self, set: ValueSet, refusal: &'static Refusal) -> Self {
        self.effect = Effect::Refused(set, refusal);
        self
    }

    /// Marks a setting that works except for some values.
    pub(super) const fn partly(mut self, cases: &'static [Effect]) -> Self {
        self.effect = Effect::Partly(cases);
        self
    }

    /// Makes the setting depend on another setting with one of these values.
    pub(super) const fn only_with(mut self, name: &'static str, set: ValueSet) -> Self {
        self.only_with = Some(Condition { name, set });
        self
    }

    /// Returns the prefix of a family's names, or `None` for a single setting.
    pub fn family(&self) -> Option<&'static str> {
        self.name.strip_suffix('*')
    }

    /// Returns whether the value of zoo.cfg is used directly, without becoming the property
    /// `zookeeper.<name>`.
    pub fn is_parsed_directly(&self) -> bool {
        matches!(
            self.scope,
            Scope::File | Scope::FileOrProperty(_) | Scope::FileUnderProperty(_)
        )
    }

    /// Returns the system property of the setting, if any.
    pub fn property_name(&self) -> Option<String> {
        match self.scope {
            Scope::File | Scope::Members => None,
            Scope::FileOrProperty(name) | Scope::FileUnderProperty(name) => Some(name.to_owned()),
            Scope::Prefixed => Some(format!("{PREFIX}{}", self.name)),
            Scope::Property | Scope::PropertyOrFile => Some(self.name.to_owned()),
        }
    }
}

/// Prefix of the property that an unknown setting in zoo.cfg becomes.
pub const PREFIX: &str = "zookeeper.";
