//! Options of a command, parsed as Apache Commons CLI parses them: anywhere among the words,
//! several letters after one hyphen, and a value after the letter, an equals sign or a blank.
//!
//! Source: org.apache.commons.cli.DefaultParser.

use crate::failure::Failure;

/// Option of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandOption {
    pub(crate) name: &'static str,
    pub(crate) has_value: bool,
}

/// Returns an option without a value.
pub(crate) const fn flag(name: &'static str) -> CommandOption {
    CommandOption {
        name,
        has_value: false,
    }
}

/// Returns an option with a value.
pub(crate) const fn value(name: &'static str) -> CommandOption {
    CommandOption {
        name,
        has_value: true,
    }
}

/// Parsed words of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    options: Vec<(&'static str, String)>,
    /// Words that are not options.
    pub(crate) words: Vec<String>,
}

impl Arguments {
    /// Parses the words after the command.
    ///
    /// # Errors
    /// If an option is invalid. The error contains Commons CLI's message and the name of its
    /// exception.
    pub(crate) fn parse(words: &[String], known: &[CommandOption]) -> Result<Self, Failure> {
        let mut given = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                given.words.extend(words.by_ref().cloned());
                break;
            }
            let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else {
                given.words.push(word.clone());
                continue;
            };
            given.take(name, known, &mut words)?;
        }
        Ok(given)
    }

    fn take<'a>(
        &mut self,
        text: &str,
        known: &[CommandOption],
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), Failure> {
        let find = |name: &str| known.iter().find(|opt| opt.name == name);
        let (name, with_equals) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if let Some(opt) = find(name) {
            let inside = with_equals.map(str::to_owned);
            return self.note(*opt, inside, known, words);
        }
        // Several letters follow one hyphen. The first letter that takes a value takes the rest as
        // its value.
        for (at, letter) in text.char_indices() {
            let behind = &text[at + letter.len_utf8()..];
            let unknown = || Failure::unrecognized(&format!("-{text}"));
            let opt = find(letter.encode_utf8(&mut [0; 4])).ok_or_else(unknown)?;
            if opt.has_value && !behind.is_empty() {
                return self.note(*opt, Some(behind.to_owned()), known, words);
            }
            self.note(*opt, None, known, words)?;
        }
        Ok(())
    }

    fn note<'a>(
        &mut self,
        opt: CommandOption,
        inside: Option<String>,
        known: &[CommandOption],
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), Failure> {
        let missing = || Failure::missing_argument(opt.name);
        let text = match (opt.has_value, inside) {
            (false, _) => String::new(),
            (true, Some(inside)) => inside,
            (true, None) => words
                .next()
                .filter(|word| !is_option(word, known))
                .cloned()
                .ok_or_else(missing)?,
        };
        self.options.push((opt.name, text));
        Ok(())
    }

    /// Returns whether the option is present.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Returns the option's first value.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let mut found = self.options.iter().filter(|(option, _)| *option == name);
        found.next().map(|(_, text)| text.as_str())
    }

    /// Returns the options in the order of the words.
    pub(crate) fn options(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.options
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
    }

    /// Returns a word by its index.
    pub(crate) fn word(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(String::as_str)
    }

    /// Returns the value of an option as a number.
    ///
    /// # Errors
    /// If the value is not a number. As in Java, this error ends a script.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let parse = |text: &str| text.parse().map_err(|_| Failure::no_number(name, text));
        self.value(name).map(parse).transpose()
    }
}

fn is_option(word: &str, known: &[CommandOption]) -> bool {
    let Some(name) = word.strip_prefix('-') else {
        return false;
    };
    let name = name.split('=').next().unwrap_or(name);
    let first = name.chars().next().map(String::from).unwrap_or_default();
    known
        .iter()
        .any(|opt| opt.name == name || opt.name == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[CommandOption] = &[flag("s"), flag("w"), value("v"), value("add")];

    fn parse(line: &str) -> Result<Arguments, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Arguments::parse(&words, KNOWN).map_err(|failure| failure.text)
    }

    #[test]
    fn options_may_be_anywhere_and_combined() {
        let given = parse("/a -sw data -v 5").unwrap();
        assert_eq!(given.words, ["/a", "data"]);
        assert!(given.has("s") && given.has("w"));
        assert_eq!(given.number("v").unwrap(), Some(5));
        assert_eq!(parse("-v5").unwrap().value("v"), Some("5"));
        assert_eq!(parse("-v=5").unwrap().value("v"), Some("5"));
        assert_eq!(
            parse("-add 1=a:1:2;3").unwrap().value("add"),
            Some("1=a:1:2;3")
        );
        assert_eq!(parse("-- -s").unwrap().words, ["-s"]);
    }

    #[test]
    fn a_negative_number_is_a_value() {
        assert_eq!(parse("-v -5").unwrap().number("v").unwrap(), Some(-5));
    }

    #[test]
    fn errors_have_the_texts_of_commons_cli() {
        let cli = "org.apache.commons.cli";
        let unknown = format!("{cli}.UnrecognizedOptionException: Unrecognized option: -x");
        assert_eq!(parse("-x").unwrap_err(), unknown);
        let missing = format!("{cli}.MissingArgumentException: Missing argument for option: v");
        assert_eq!(parse("-v").unwrap_err(), missing);
        assert_eq!(parse("-v -s").unwrap_err(), missing);
    }
}
