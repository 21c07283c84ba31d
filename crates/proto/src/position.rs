//! Positions in the order of all changes, used by the change history and its feed. They are the
//! same on all members of an ensemble.

use crate::Zxid;

/// A position in the order of all changes, either after a whole transaction or after one of its
/// changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Zxid of the transaction.
    pub zxid: Zxid,
    /// Index of the change that the position follows; `u32::MAX` if it is the transaction's last
    /// change.
    pub index: u32,
}

impl Position {
    /// Returns the position after all changes of a transaction.
    pub fn after(zxid: Zxid) -> Self {
        Self {
            zxid,
            index: u32::MAX,
        }
    }

    /// Parses `0x1a`, the position after a transaction, or `0x1a.3`, the position after its change
    /// with index 3.
    ///
    /// # Errors
    /// If the string has neither form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((zxid, index)) = text.split_once('.') else {
            return parse_zxid(text).map(Self::after);
        };
        let index = index.parse();
        Ok(Self {
            zxid: parse_zxid(zxid)?,
            index: index
                .map_err(|_| "the part after the dot must be the index of a change".to_owned())?,
        })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            u32::MAX => write!(f, "{:#x}", self.zxid.0),
            index => write!(f, "{:#x}.{index}", self.zxid.0),
        }
    }
}

/// Parses a zxid as `0x1a` or `26`.
///
/// # Errors
/// If the string is not such a number.
pub fn parse_zxid(text: &str) -> Result<Zxid, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    match parsed {
        Ok(number) if number >= 0 => Ok(Zxid(number)),
        Ok(_) => Err("a zxid must not be negative".to_owned()),
        Err(_) => Err("not a zxid; write a decimal number, or 0x and hex digits".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxids_are_decimal_or_marked_hex() {
        assert_eq!(parse_zxid("0x1F"), Ok(Zxid(31)));
        assert_eq!(parse_zxid("31"), Ok(Zxid(31)));
        for wrong in ["", "1f", "-1", "0x", "0x-1", "0x8000000000000000"] {
            assert!(parse_zxid(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn positions_are_read_as_they_are_written() {
        for text in ["0x1a", "0x1a.0", "0x1a.17"] {
            let position = Position::parse(text).unwrap();
            assert_eq!(position.to_string(), text);
        }
        assert!(Position::parse("0x1a.7").unwrap() < Position::parse("0x1a").unwrap());
        for wrong in ["", ".", "0x1.", "0x1.-1", "1.4294967296"] {
            assert!(Position::parse(wrong).is_err(), "{wrong}");
        }
    }
}
