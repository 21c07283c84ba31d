//! Scanner that splits the text of a JAAS file into words, quoted strings and symbols.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// Token of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// Word or quoted string.
    Text(String),
    /// Any other character.
    Mark(char),
    /// End of the text.
    End,
}

/// Fault in the text. It quotes only names from the file, because other words may be passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    Expected { what: String, found: String },
    Flag(String),
    Twice(String),
    Property(String),
    OpenQuote,
    Number,
}

impl Fault {
    pub(super) fn expected(what: &str, found: &Token) -> Self {
        Self::Expected {
            what: what.to_owned(),
            found: found.describe(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected { what, found } => write!(f, "expected {what}, found {found}"),
            Self::Flag(found) => write!(
                f,
                "expected required, requisite, sufficient or optional after the class of a login \
                 module, found {found}"
            ),
            Self::Twice(name) => write!(f, "the file contains two sections {name:?}"),
            Self::Property(name) => write!(f, "the system property {name:?} is not set"),
            Self::OpenQuote => f.write_str("the quote is not closed on its line"),
            Self::Number => {
                f.write_str("a value that begins with a digit, a dot or a minus requires quotes")
            }
        }
    }
}

impl Token {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Text(_) => "a word or a quoted text".to_owned(),
            Self::Mark(mark) => format!("{mark:?}"),
            Self::End => "the end of the file".to_owned(),
        }
    }
}

/// Scanner. Source: StreamTokenizer as configured by ConfigFile.
pub(super) struct Scanner<'a> {
    rest: Peekable<Chars<'a>>,
    line: u32,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars().peekable(),
            line: 1,
        }
    }

    /// Returns the next token and its first line.
    pub(super) fn next(&mut self) -> Result<(u32, Token), (u32, Fault)> {
        loop {
            let Some(letter) = self.take() else {
                return Ok((self.line, Token::End));
            };
            let line = self.line;
            let token = match letter {
                '\0'..=' ' => continue,
                '/' => {
                    self.skip_comment();
                    continue;
                }
                '"' => Token::Text(self.quoted().ok_or((line, Fault::OpenQuote))?),
                '0'..='9' | '.' | '-' => return Err((line, Fault::Number)),
                _ if is_in_word(letter) => Token::Text(self.word(letter)),
                mark => Token::Mark(mark),
            };
            return Ok((line, token));
        }
    }

    fn take(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        if letter == '\n' {
            self.line = self.line.saturating_add(1);
        }
        Some(letter)
    }

    /// Skips a comment after a slash. Any character except an asterisk hides the rest of the line,
    /// not only a second slash.
    fn skip_comment(&mut self) {
        if self.rest.next_if_eq(&'*').is_some() {
            let mut before = '\0';
            while let Some(letter) = self.take() {
                if before == '*' && letter == '/' {
                    return;
                }
                before = letter;
            }
        } else {
            while self.rest.next_if(|letter| *letter != '\n').is_some() {}
        }
    }

    fn word(&mut self, first: char) -> String {
        let mut word = String::from(first);
        let goes_on =
            |letter: &char| is_in_word(*letter) || letter.is_ascii_digit() || *letter == '.';
        while let Some(letter) = self.rest.next_if(goes_on) {
            word.push(letter);
        }
        word
    }

    /// Reads up to the closing quote. Returns `None` if the line ends before it.
    fn quoted(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.rest.next_if(|letter| !matches!(letter, '\n' | '\r'))? {
                '"' => return Some(text),
                '\\' => text.push(self.escaped()?),
                letter => text.push(letter),
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let letter = self.rest.next_if(|letter| !matches!(letter, '\n' | '\r'))?;
        Some(match letter {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '0'..='7' => self.octal(letter),
            other => other,
        })
    }

    /// Reads up to three octal digits, at most `\377`.
    fn octal(&mut self, first: char) -> char {
        let digits_max = if first <= '3' { 3 } else { 2 };
        let mut value = first.to_digit(8).unwrap_or_default();
        for _ in 1..digits_max {
            let Some(digit) = self.rest.next_if(|digit| digit.is_digit(8)) else {
                break;
            };
            value = value * 8 + digit.to_digit(8).unwrap_or_default();
        }
        char::from_u32(value).unwrap_or_default()
    }
}

/// Returns whether a word may contain this character. Digits and dots are checked separately.
fn is_in_word(letter: char) -> bool {
    letter.is_ascii_alphabetic() || matches!(letter, '_' | '$' | '-' | '*') || letter >= '\u{a0}'
}
