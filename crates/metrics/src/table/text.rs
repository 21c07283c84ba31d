//! Numbers in ZooKeeper's format.

use std::fmt;

/// Decimal in the text format of Java's `double`, which readers of `srvr` and `mntr` parse. It has
/// at least one digit after the point. Values of at least ten million and values below a
/// thousandth, except 0, have an exponent.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Decimal(pub f64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.abs();
        if self.0.is_nan() {
            f.write_str("NaN")
        } else if magnitude.is_infinite() {
            f.write_str(if self.0 > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            })
        } else if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
            write!(f, "{:?}", self.0)
        } else {
            let text = format!("{:E}", self.0);
            match text.split_once('E') {
                Some((digits, exponent)) if !digits.contains('.') => {
                    write!(f, "{digits}.0E{exponent}")
                }
                _ => f.write_str(&text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_java_does() {
        for (value, text) in [
            (0.0, "0.0"),
            (26.0, "26.0"),
            (3.1194, "3.1194"),
            (0.001, "0.001"),
            (0.0005, "5.0E-4"),
            (9_999_999.5, "9999999.5"),
            (1e7, "1.0E7"),
            (12_345_678.5, "1.23456785E7"),
            (-1.0, "-1.0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(Decimal(value).to_string(), text);
        }
    }
}
