//! Tokens as lists of directives: `name=value,name="quoted \" value"`.
//!
//! Source: DigestMD5Base.parseDirectives.

use super::refusal::Refusal;

/// Names and values, in the order of the token.
pub(super) struct Directives(Vec<(String, Vec<u8>)>);

impl Directives {
    /// Parses a token.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] if the token is not a list of directives.
    pub(super) fn parse(token: &[u8]) -> Result<Self, Refusal> {
        let mut rest = token;
        let mut found = Vec::new();
        loop {
            rest = skip(rest, |byte| is_blank(byte) || byte == b',');
            if rest.is_empty() {
                return Ok(Self(found));
            }
            let mut parts = rest.splitn(2, |byte| *byte == b'=');
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
                return Err(Refusal::Malformed);
            };
            let name = name.trim_ascii_end();
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
            if name.is_empty() || !name.iter().all(is_name) {
                return Err(Refusal::Malformed);
            }
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            let (value, behind) = take_value(skip(value, is_blank))?;
            found.push((name, value));
            rest = skip(behind, is_blank);
            if !matches!(rest.first(), None | Some(b',')) {
                return Err(Refusal::Malformed);
            }
        }
    }

    /// Returns the value of an optional directive.
    ///
    /// # Errors
    /// [`Refusal::Twice`] if the directive occurs twice.
    pub(super) fn optional(&self, name: &'static str) -> Result<Option<&[u8]>, Refusal> {
        let mut values = self.all(name);
        let first = values.next();
        match values.next() {
            None => Ok(first),
            Some(_) => Err(Refusal::Twice(name)),
        }
    }

    /// Returns the value of a required directive.
    ///
    /// # Errors
    /// [`Refusal::Twice`] if the directive occurs twice, [`Refusal::Missing`] if it is missing.
    pub(super) fn required(&self, name: &'static str) -> Result<&[u8], Refusal> {
        self.optional(name)?.ok_or(Refusal::Missing(name))
    }

    /// Returns all values of a directive, in order.
    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_slice())
    }
}

fn take_value(text: &[u8]) -> Result<(Vec<u8>, &[u8]), Refusal> {
    let Some((b'"', mut rest)) = text.split_first() else {
        let ends = |byte: &u8| *byte == b',' || is_blank(*byte);
        let end = text.iter().position(ends);
        let split = end.and_then(|end| text.split_at_checked(end));
        let (value, behind) = split.unwrap_or((text, &[]));
        return Ok((value.to_vec(), behind));
    };
    let mut value = Vec::new();
    loop {
        let (byte, behind) = rest.split_first().ok_or(Refusal::Malformed)?;
        rest = behind;
        match byte {
            b'"' => return Ok((value, rest)),
            b'\\' => {
                let (byte, behind) = rest.split_first().ok_or(Refusal::Malformed)?;
                value.push(*byte);
                rest = behind;
            }
            other => value.push(*other),
        }
    }
}

fn skip(text: &[u8], skipped: impl Fn(u8) -> bool) -> &[u8] {
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first()
        && skipped(*byte)
    {
        rest = behind;
    }
    rest
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Appends `name="value"`, after a comma unless it is the first directive.
pub(super) fn put_quoted(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    put_name(out, name);
    out.push(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Appends `name=value`, after a comma unless it is the first directive.
pub(super) fn put(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    put_name(out, name);
    out.extend_from_slice(value);
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    if !out.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(token: &str) -> Result<Vec<(String, String)>, Refusal> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let parsed = Directives::parse(token.as_bytes())?;
        Ok(parsed
            .0
            .into_iter()
            .map(|(name, value)| (name, text(value)))
            .collect())
    }

    #[test]
    fn names_and_values_are_separated() {
        for (token, name, value) in [
            ("a=b", "a", "b"),
            (" , a = b , ,", "a", "b"),
            ("A=\"b\"", "a", "b"),
            (r#"a="x,y=\"z\" \\""#, "a", r#"x,y="z" \"#),
            ("a=", "a", ""),
            ("digest-uri=\"s/h\"\r\n", "digest-uri", "s/h"),
        ] {
            let expected = Ok(vec![(name.to_owned(), value.to_owned())]);
            assert_eq!(shown(token), expected, "{token}");
        }
        assert_eq!(shown("").unwrap().len(), 0);
        assert_eq!(shown("a=1,b=2,a=3").unwrap().len(), 3);
    }

    #[test]
    fn an_invalid_list_is_refused() {
        for token in [
            "a", "a,b=c", "=b", "a b=c", "a=\"b", "a=\"b\\", "a=\"b\"c", "a=b c=d", "\0=x",
        ] {
            assert_eq!(shown(token), Err(Refusal::Malformed), "{token}");
        }
    }

    #[test]
    fn encoded_directives_round_trip() {
        let mut token = Vec::new();
        put_quoted(&mut token, "username", b"a\"b\\c,d=e");
        put(&mut token, "nc", b"00000001");
        let read = Directives::parse(&token).unwrap();
        assert_eq!(read.required("username"), Ok(&b"a\"b\\c,d=e"[..]));
        assert_eq!(read.required("nc"), Ok(&b"00000001"[..]));
        assert_eq!(read.required("qop"), Err(Refusal::Missing("qop")));
        let twice = Directives::parse(b"a=1,a=2").unwrap();
        assert_eq!(twice.optional("a"), Err(Refusal::Twice("a")));
    }
}
