//! The table of words, and the whitelist.

macro_rules! words {
    ($( $name:ident $text:literal; )+) => {
        /// A four-letter word. Source: FourLetterCommands.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Word {
            $(
                #[doc = concat!("`", $text, "`.")]
                $name,
            )+
        }

        impl Word {
            /// All words.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the letters of the word, or a name if the word does not consist of letters.
            pub fn text(self) -> &'static str {
                match self { $( Self::$name => $text, )+ }
            }
        }
    };
}

words! {
    Conf "conf";
    Cons "cons";
    Crst "crst";
    Dirs "dirs";
    Dump "dump";
    Envi "envi";
    Gtmk "gtmk";
    Hash "hash";
    Isro "isro";
    Mntr "mntr";
    Ruok "ruok";
    Srst "srst";
    Srvr "srvr";
    Stat "stat";
    Stmk "stmk";
    TelnetClose "telnet close";
    Wchc "wchc";
    Wchp "wchp";
    Wchs "wchs";
}

impl Word {
    /// Returns the word in the first four bytes of a connection, or `None` if the bytes are not a
    /// word but, for example, the length of a frame.
    pub fn recognise(bytes: [u8; 4]) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.bytes() == bytes)
    }

    /// Returns the bytes that a client sends.
    fn bytes(self) -> &'static [u8] {
        match self {
            // Bytes that a telnet client sends for an interrupt.
            Self::TelnetClose => &[0xff, 0xf4, 0xff, 0xfd],
            _ => self.text().as_bytes(),
        }
    }

    /// Returns whether the answer grows with the number of connections, sessions or watches.
    pub fn may_be_long(self) -> bool {
        use Word::{Cons, Dump, Stat, Wchc, Wchp};
        matches!(self, Cons | Dump | Stat | Wchc | Wchp)
    }

    /// Returns the number of bytes to read after the word, which is 0 except for the new trace mask
    /// of `stmk`.
    pub fn argument_bytes(self) -> usize {
        if self == Self::Stmk {
            size_of::<i64>()
        } else {
            0
        }
    }
}

/// Set of enabled words. All other words are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whitelist(u32);

impl Whitelist {
    /// Creates the whitelist from `4lw.commands.whitelist`, a comma-separated list of words or `*`,
    /// and from `readonlymode.enabled`. Unknown words are ignored. `srvr` is always enabled,
    /// because zkServer.sh uses it. `isro` is enabled with the read-only mode, because clients
    /// search for read-only servers with it.
    pub fn new(list: Option<&str>, read_only_enabled: bool) -> Self {
        let mut allowed = Self(0);
        allowed.allow(Word::Srvr);
        if read_only_enabled {
            allowed.allow(Word::Isro);
        }
        for name in list.unwrap_or_default().split(',').map(str::trim) {
            let named = Word::ALL
                .iter()
                .filter(|word| name == "*" || word.text() == name);
            named.for_each(|word| allowed.allow(*word));
        }
        allowed
    }

    fn allow(&mut self, word: Word) {
        self.0 |= 1 << word as u8;
    }

    /// Returns whether `word` is enabled.
    pub fn allows(self, word: Word) -> bool {
        self.0 & 1 << word as u8 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(list: Option<&str>, read_only_enabled: bool) -> Vec<&'static str> {
        let whitelist = Whitelist::new(list, read_only_enabled);
        let words = Word::ALL.iter().filter(|word| whitelist.allows(**word));
        words.map(|word| word.text()).collect()
    }

    #[test]
    fn words_are_recognised_by_their_exact_bytes() {
        for word in Word::ALL.iter().filter(|word| **word != Word::TelnetClose) {
            let bytes = word.text().as_bytes().try_into().expect("four letters");
            assert_eq!(Word::recognise(bytes), Some(*word));
        }
        for unknown in [b"RUOK", b"kill", b"reqs", b"abcd", b"teln", &[0, 0, 0, 44]] {
            assert_eq!(Word::recognise(*unknown), None);
        }
        assert_eq!(
            Word::recognise([0xff, 0xf4, 0xff, 0xfd]),
            Some(Word::TelnetClose)
        );
    }

    #[test]
    fn srvr_is_always_allowed_and_isro_with_read_only_mode() {
        assert_eq!(allowed(None, false), ["srvr"]);
        assert_eq!(allowed(Some(""), true), ["isro", "srvr"]);
    }

    #[test]
    fn a_list_allows_what_it_names() {
        assert_eq!(
            allowed(Some("ruok, mntr ,nosuch,,RUOK"), false),
            ["mntr", "ruok", "srvr"]
        );
        assert_eq!(allowed(Some("ruok, *"), false).len(), Word::ALL.len());
    }

    #[test]
    fn only_stmk_has_an_argument() {
        let with: Vec<_> = Word::ALL
            .iter()
            .filter(|word| word.argument_bytes() > 0)
            .collect();
        assert_eq!(with, [&Word::Stmk]);
    }
}
