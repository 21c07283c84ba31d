//! Values of TLA+, as TLC prints them.

use std::collections::BTreeMap;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A number.
    Number(i64),
    /// A string, a truth value or a model value.
    Word(String),
    /// A sequence, or a function whose domain is 1..n.
    Sequence(Vec<Self>),
    /// A set.
    Set(Vec<Self>),
    /// A record.
    Record(BTreeMap<String, Self>),
}

/// Value of a field that does not exist.
pub(super) const NOTHING: &Value = &Value::Set(Vec::new());

impl Value {
    /// Returns a field of a record.
    pub(super) fn field(&self, name: &str) -> &Self {
        match self {
            Self::Record(fields) => fields.get(name).unwrap_or(NOTHING),
            _ => NOTHING,
        }
    }

    /// Returns the value of a function whose domain is 1..n, counted from 0.
    pub(super) fn of(&self, index: usize) -> &Self {
        self.items().get(index).unwrap_or(NOTHING)
    }

    /// Returns the items of a sequence or a set.
    pub(super) fn items(&self) -> &[Self] {
        match self {
            Self::Sequence(items) | Self::Set(items) => items,
            _ => &[],
        }
    }

    /// Returns a set. Its numbers are in ascending order, so that equal sets are equal values.
    pub(super) fn set(mut items: Vec<Self>) -> Self {
        items.sort_by_key(Self::number);
        Self::Set(items)
    }

    /// Returns a record with these fields.
    pub(super) fn record<const N: usize>(fields: [(&str, Self); N]) -> Self {
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        Self::Record(fields.into())
    }

    pub(super) fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            _ => i64::MIN,
        }
    }

    pub(super) fn word(&self) -> &str {
        match self {
            Self::Word(word) => word,
            _ => "",
        }
    }

    pub(super) fn is_true(&self) -> bool {
        self.word() == "TRUE"
    }

    /// Returns the index of the server with this sid, if the value is one.
    pub(super) fn server(&self) -> Option<usize> {
        usize::try_from(self.number()).ok()?.checked_sub(1)
    }
}

/// Returns the states of a behaviour, each with its variables. Returns `None` for any other text.
pub(super) fn parse_states(text: &str) -> Option<Vec<Value>> {
    let mut input = Input(text);
    let mut states = Vec::new();
    while let Some(at) = input.0.find("STATE_") {
        input.0 = &input.0[at..];
        input.word();
        input.expect("==")?;
        let mut variables = BTreeMap::new();
        while input.accept("/\\") {
            let name = input.word().to_owned();
            input.expect("=")?;
            variables.insert(name, input.value()?);
        }
        states.push(Value::Record(variables));
    }
    (!states.is_empty()).then_some(states)
}

/// The rest of a text.
struct Input<'a>(&'a str);

impl<'a> Input<'a> {
    fn accept(&mut self, token: &str) -> bool {
        self.0 = self.0.trim_start();
        match self.0.strip_prefix(token) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.accept(token).then_some(())
    }

    fn word(&mut self) -> &'a str {
        self.0 = self.0.trim_start();
        let is_part = |at: char| at.is_alphanumeric() || at == '_' || at == '-';
        let end = self.0.find(|at| !is_part(at)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    fn value(&mut self) -> Option<Value> {
        if self.accept("<<") {
            return self.list(">>").map(Value::Sequence);
        }
        if self.accept("{") {
            return self.list("}").map(Value::set);
        }
        if self.accept("[") {
            let mut fields = BTreeMap::new();
            while !self.accept("]") {
                self.accept(",");
                let name = self.word().to_owned();
                self.expect("|->")?;
                fields.insert(name, self.value()?);
            }
            return Some(Value::Record(fields));
        }
        if self.accept("\"") {
            let (word, rest) = self.0.split_once('"')?;
            self.0 = rest;
            return Some(Value::Word(word.to_owned()));
        }
        let word = self.word();
        match word.parse() {
            Ok(number) => Some(Value::Number(number)),
            Err(_) if word.is_empty() => None,
            Err(_) => Some(Value::Word(word.to_owned())),
        }
    }

    fn list(&mut self, end: &str) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        while !self.accept(end) {
            self.accept(",");
            items.push(self.value()?);
        }
        Some(items)
    }
}
