//! Answers to admin requests.

mod json;
mod listing;

use http::StatusCode;
use serde_json::{Value, json};

pub(crate) use json::{Json, Object};
pub(crate) use listing::Listing;

/// Answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// Headers other than content type and length.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Body of the answer.
    pub(crate) body: Body,
}

/// Body of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    /// Empty body.
    None,
    /// Bytes with their content type, if any.
    Bytes(Option<&'static str>, Vec<u8>),
    /// Result of a command, before `command` and `error` are appended.
    Fields(Object),
}

/// Content type of command answers.
pub(crate) const JSON: &str = "application/json";

/// Content type of error pages. Source: Jetty's ErrorHandler.
const HTML: &str = "text/html;charset=iso-8859-1";

impl Answer {
    /// Creates the answer to a successful command with a result.
    pub(crate) fn found(fields: Object) -> Self {
        Self::of(StatusCode::OK, Body::Fields(fields))
    }

    /// Creates the answer to a successful command without a result.
    pub(crate) fn done() -> Self {
        Self::found(Object::new())
    }

    /// Creates the answer to a command that reports an error itself. In this answer, `error`
    /// precedes `command`.
    pub(crate) fn error(error: impl Into<String>) -> Self {
        Self::found(Object::new().with("error", error.into()))
    }

    /// Creates an answer that consists only of a status.
    pub(crate) fn status(status: StatusCode) -> Self {
        Self::of(status, Body::None)
    }

    /// Creates the answer, without fields, to a command that was refused with this status.
    pub(crate) fn refused(status: StatusCode) -> Self {
        Self::of(status, Body::Fields(Object::new()))
    }

    /// Creates the answer that refuses a request because of insufficient capacity.
    pub(crate) fn busy(text: &str) -> Self {
        let object = Object::new().with("error", text);
        Self::json(StatusCode::SERVICE_UNAVAILABLE, &object).with_header("retry-after", "1")
    }

    /// Creates an answer with a JSON object.
    pub(crate) fn json(status: StatusCode, object: &Object) -> Self {
        let bytes = object.print().into_bytes();
        Self::of(status, Body::Bytes(Some(JSON), bytes))
    }

    /// Creates an error page for human readers. `uri` and `message` may come from an attacker and
    /// are escaped.
    pub(crate) fn page(status: StatusCode, uri: &str, message: &str) -> Self {
        let title = format!("{} {}", status.as_str(), escape(message));
        let text = format!(
            "<html>\n<head>\n<meta http-equiv=\"Content-Type\" content=\"{HTML}\"/>\n<title>Error \
             {title}</title>\n</head>\n<body><h2>HTTP ERROR {title}</h2>\n<table>\n<tr><th>URI:</th>\
             <td>{}</td></tr>\n<tr><th>STATUS:</th><td>{}</td></tr>\n</table>\n</body>\n</html>\n",
            escape(uri),
            status.as_str()
        );
        let mut page = Self::of(status, Body::Bytes(Some(HTML), text.into_bytes()));
        let cache = (
            "cache-control",
            "must-revalidate,no-cache,no-store".to_owned(),
        );
        page.headers.push(cache);
        page
    }

    pub(crate) fn of(status: StatusCode, body: Body) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
        }
    }

    /// Adds a header.
    #[must_use]
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Appends `command` to the fields, and `error` unless the fields contain it already. Then
    /// converts the fields to text. Other bodies do not change. Source: CommandBase,
    /// CommandResponse.
    #[must_use]
    pub(crate) fn under(self, command: &str, error: Option<&str>) -> Self {
        let Body::Fields(mut fields) = self.body else {
            return self;
        };
        let says_itself = fields.get("error").is_some();
        fields.put("command", command);
        if !says_itself {
            fields.put("error", error.map_or(Json::Null, Json::from));
        }
        let bytes = fields.print().into_bytes();
        Self {
            body: Body::Bytes(Some(JSON), bytes),
            ..self
        }
    }
}

/// Returns the answer to a command. Its JSON is on one line, because the JSON may be long and
/// programs read it.
pub(crate) fn written(status: StatusCode, name: &str, mut fields: Value) -> Answer {
    set(&mut fields, "command", json!(name));
    if fields.get("error").is_none() {
        set(&mut fields, "error", Value::Null);
    }
    let mut bytes = fields.to_string().into_bytes();
    bytes.push(b'\n');
    Answer::of(status, Body::Bytes(Some(JSON), bytes))
}

/// Sets a field of an answer, which is an object.
pub(crate) fn set(fields: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = fields {
        fields.insert(name.to_owned(), value);
    }
}

/// Escapes a string for HTML. Characters other than printable ASCII become `?`.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            ' '..='~' => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_repeats_no_markup() {
        let page = Answer::page(StatusCode::NOT_FOUND, "/<script>\u{1b}é", "Not Found");
        let Body::Bytes(_, bytes) = page.body else {
            panic!("a page")
        };
        let text = String::from_utf8(bytes).expect("ASCII");
        assert!(text.contains("<td>/&lt;script&gt;??</td>"), "{text}");
        assert!(text.contains("<title>Error 404 Not Found</title>"));
    }

    #[test]
    fn an_error_of_the_command_itself_comes_first() {
        let text = |answer: Answer| match answer.under("leader", None).body {
            Body::Bytes(_, bytes) => String::from_utf8(bytes).expect("UTF-8"),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            text(Answer::error("server is not initialized")),
            "{\n  \"error\" : \"server is not initialized\",\n  \"command\" : \"leader\"\n}"
        );
        assert_eq!(
            text(Answer::done()),
            "{\n  \"command\" : \"leader\",\n  \"error\" : null\n}"
        );
    }
}
