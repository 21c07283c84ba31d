//! What a request is answered.

use http::StatusCode;

use super::json::{Json, Object};

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Headers besides the type and length of the body.
    pub headers: Vec<(&'static str, String)>,
    /// What is sent.
    pub body: Body,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Nothing.
    None,
    /// Bytes of this type; of no type if it is `None`.
    Bytes(Option<&'static str>, Vec<u8>),
    /// What a command has found, before `command` and `error` are put behind it.
    Fields(Object),
}

/// The type of the answers of commands.
pub(super) const JSON: &str = "application/json";

/// The type of pages about errors. Source: Jetty's ErrorHandler.
const HTML: &str = "text/html;charset=iso-8859-1";

impl Answer {
    /// What a command has found.
    pub fn found(fields: Object) -> Self {
        Self::of(StatusCode::OK, Body::Fields(fields))
    }

    /// A command that has done what it was asked for and has nothing to tell.
    pub fn done() -> Self {
        Self::found(Object::new())
    }

    /// A command says itself what is wrong: then `error` comes before `command`.
    pub fn error(error: impl Into<String>) -> Self {
        Self::found(Object::new().with("error", error.into()))
    }

    /// A status and nothing more.
    pub fn status(status: StatusCode) -> Self {
        Self::of(status, Body::None)
    }

    /// A command ended with this status, and its fields are empty.
    pub fn refused(status: StatusCode) -> Self {
        Self::of(status, Body::Fields(Object::new()))
    }

    /// The server has no room for the request.
    pub fn busy(text: &str) -> Self {
        let object = Object::new().with("error", text);
        Self::json(StatusCode::SERVICE_UNAVAILABLE, &object).with_header("retry-after", "1")
    }

    /// JSON as it is.
    pub fn json(status: StatusCode, object: &Object) -> Self {
        let bytes = object.print().into_bytes();
        Self::of(status, Body::Bytes(Some(JSON), bytes))
    }

    /// A page about an error, for people. `uri` and `message` may come from anyone.
    pub fn page(status: StatusCode, uri: &str, message: &str) -> Self {
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

    pub(super) fn of(status: StatusCode, body: Body) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
        }
    }

    /// With one more header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// With `command` and `error` behind the fields, as text. Source: CommandBase, CommandResponse.
    #[must_use]
    pub fn under(self, command: &str, error: Option<&str>) -> Self {
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

/// Text that is nothing but text in a page, and ASCII.
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
