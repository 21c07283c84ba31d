//! Rule of `security.auth_to_local`.

use std::fmt;

use regex_lite::{Captures, Regex};

use super::NoUserName;

/// Rule that maps matching names to user names.
#[derive(Debug, Clone)]
pub(super) enum Rule {
    /// `DEFAULT`: the first part of a name in the default realm.
    Default,
    /// `RULE:[n:format](pattern)s/from/to/g`.
    Rewrite(Box<RuleParameters>),
}

/// Parameters of a rule.
#[derive(Debug, Clone)]
pub(super) struct RuleParameters {
    /// Required number of parts of a name, without the realm.
    parts: usize,
    format: Vec<Piece>,
    /// Pattern that the whole formatted name must match.
    pattern: Option<Regex>,
    replace: Option<Replace>,
}

/// Piece of a format or replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// In a format, number of a part of the name (0 for the realm). In a replacement, number of a
    /// group of the pattern.
    Part(usize),
}

#[derive(Debug, Clone)]
struct Replace {
    from: Regex,
    to: Vec<Piece>,
    is_everywhere: bool,
}

/// Reason why a rule is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleFault {
    /// The text is not a rule.
    NoRule(String),
    /// The pattern is invalid.
    Pattern {
        /// Text of the pattern.
        pattern: String,
        /// Reason for the refusal.
        reason: String,
    },
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule(text) => write!(f, "Invalid rule: {text}"),
            Self::Pattern { pattern, reason } => {
                write!(f, "the pattern {pattern} of a rule is invalid: {reason}")
            }
        }
    }
}

impl std::error::Error for RuleFault {}

/// Parses the rules of a setting. Source: KerberosName.parseRules.
pub(super) fn parse_all(text: &str) -> Result<Vec<Rule>, RuleFault> {
    let mut rest = text.trim();
    let mut rules = Vec::new();
    while !rest.is_empty() {
        let (rule, behind) = parse(rest)?;
        rules.push(rule);
        rest = behind.trim_start();
    }
    Ok(rules)
}

/// Parses the first rule of the text. Also returns the text after the rule.
fn parse(text: &str) -> Result<(Rule, &str), RuleFault> {
    if let Some(rest) = text.strip_prefix("DEFAULT") {
        return Ok((Rule::Default, rest));
    }
    let fault = || RuleFault::NoRule(text.to_owned());
    let rest = text.strip_prefix("RULE:[").ok_or_else(fault)?;
    let (head, mut rest) = rest.split_once(']').ok_or_else(fault)?;
    let (parts, format) = head.split_once(':').ok_or_else(fault)?;
    let mut made = RuleParameters {
        parts: parts.parse().map_err(|_| fault())?,
        format: pieces(format),
        pattern: None,
        replace: None,
    };
    if let Some((pattern, behind)) = rest
        .strip_prefix('(')
        .and_then(|inside| inside.split_once(')'))
    {
        made.pattern = Some(regex(pattern, &format!("^(?:{pattern})$"))?);
        rest = behind;
    }
    if let Some(inside) = rest.strip_prefix("s/") {
        let (from, behind) = inside.split_once('/').ok_or_else(fault)?;
        let (to, behind) = behind.split_once('/').ok_or_else(fault)?;
        let without_mark = behind.strip_prefix('g');
        made.replace = Some(Replace {
            from: regex(from, from)?,
            to: replacement(to).ok_or_else(fault)?,
            is_everywhere: without_mark.is_some(),
        });
        rest = without_mark.unwrap_or(behind);
    }
    Ok((Rule::Rewrite(Box::new(made)), rest))
}

fn regex(written: &str, used: &str) -> Result<Regex, RuleFault> {
    Regex::new(used).map_err(|error| RuleFault::Pattern {
        pattern: written.to_owned(),
        reason: error.to_string(),
    })
}

/// Splits a format. `$n` refers to a part. A dollar without a number is removed. Source:
/// KerberosName.replaceParameters.
fn pieces(format: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut texts = format.split('$');
    if let Some(first) = texts.next() {
        pieces.push(Piece::Text(first.to_owned()));
    }
    for text in texts {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = text.split_at(digits);
        if !number.is_empty() {
            // A name never has a part with such a large number.
            pieces.push(Piece::Part(number.parse().unwrap_or(usize::MAX)));
        }
        pieces.push(Piece::Text(rest.to_owned()));
    }
    pieces
}

/// Splits a replacement, or returns `None` if it is invalid. `$n` with one digit refers to a group,
/// and `\` escapes a character. Source: java.util.regex.Matcher.appendReplacement.
fn replacement(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => plain.push(letters.next()?),
            '$' => {
                let group = letters.next()?.to_digit(10)?;
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(Piece::Part(usize::try_from(group).ok()?));
            }
            other => plain.push(other),
        }
    }
    pieces.push(Piece::Text(plain));
    Some(pieces)
}

impl Rule {
    /// Applies the rule to a name with these parts, the realm first. Returns `None` if the rule
    /// does not match.
    pub(super) fn apply(
        &self,
        parts: &[&str],
        default_realm: &str,
    ) -> Result<Option<String>, NoUserName> {
        match self {
            Self::Default => {
                let is_ours = parts.first().is_some_and(|realm| *realm == default_realm);
                let first = parts.get(1).filter(|_| is_ours);
                Ok(first.map(|first| (*first).to_owned()))
            }
            Self::Rewrite(made) if parts.len() == made.parts.saturating_add(1) => made.apply(parts),
            Self::Rewrite(_) => Ok(None),
        }
    }
}

impl RuleParameters {
    fn apply(&self, parts: &[&str]) -> Result<Option<String>, NoUserName> {
        let mut base = String::new();
        for piece in &self.format {
            match piece {
                Piece::Text(text) => base.push_str(text),
                Piece::Part(number) => {
                    base.push_str(parts.get(*number).ok_or(NoUserName::NoPart)?);
                }
            }
        }
        if self
            .pattern
            .as_ref()
            .is_some_and(|pattern| !pattern.is_match(&base))
        {
            return Ok(None);
        }
        let Some(replace) = &self.replace else {
            return Ok(Some(base));
        };
        let with = |found: &Captures<'_>| replace.with(found);
        let count = usize::from(!replace.is_everywhere);
        Ok(Some(replace.from.replacen(&base, count, with).into_owned()))
    }
}

impl Replace {
    fn with(&self, found: &Captures<'_>) -> String {
        let pieces = self.to.iter();
        pieces
            .map(|piece| match piece {
                Piece::Text(text) => text.as_str(),
                Piece::Part(group) => found.get(*group).map_or("", |group| group.as_str()),
            })
            .collect()
    }
}
