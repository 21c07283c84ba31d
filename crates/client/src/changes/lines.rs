//! Parser that splits the bytes of a feed into lines and decodes them.

use bytes::{Buf, Bytes, BytesMut};
use hyper::StatusCode;
use proto::position::{Position, parse_zxid};
use serde_json::Value;

use super::Progress;
use super::change::Change;
use crate::admin::{AdminError, unreachable};
use crate::limits::LINE_BYTES_MAX;

/// Parsed line.
#[derive(Debug)]
pub(super) enum Line {
    Change(Change),
    Progress(Progress),
    End(End),
}

impl Line {
    /// Returns the feed's position after this line.
    pub(super) fn position(&self) -> Option<Position> {
        match self {
            Self::Change(change) => Some(change.position()),
            Self::Progress(progress) => Some(progress.position),
            Self::End(end) => end.position,
        }
    }
}

/// Last line of a member that cannot continue the feed.
#[derive(Debug)]
pub(super) struct End {
    /// Position up to which the member has sent all visible changes.
    pub(super) position: Option<Position>,
    /// Whether the member does not keep the next change.
    is_not_kept: bool,
    text: String,
    answer: Value,
}

impl End {
    fn new(answer: &Value) -> Self {
        let position = answer["position"].as_str();
        Self {
            position: position.and_then(|text| Position::parse(text).ok()),
            is_not_kept: matches!(answer["reason"].as_str(), Some("not_kept" | "hole")),
            text: answer["text"].as_str().unwrap_or("the feed ended").into(),
            answer: answer.clone(),
        }
    }

    /// Converts the line to an error. If the member does not keep the next change, the error equals
    /// its answer to a request for this change (410 Gone).
    pub(super) fn into_error(self, server: &str) -> AdminError {
        if !self.is_not_kept {
            return unreachable(server, &self.text);
        }
        AdminError::Refused {
            server: server.to_owned(),
            status: StatusCode::GONE,
            text: self.text,
            answer: self.answer,
        }
    }
}

/// Received bytes that the reader has not consumed.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: BytesMut,
    /// Number of bytes that have already been searched for the end of a line.
    searched: usize,
}

impl Lines {
    pub(super) fn put(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// Returns the next complete line, or `None` until more data arrives. `position` is the
    /// position of the feed. A line with an earlier position, or a change at this position, is an
    /// error.
    pub(super) fn next(&mut self, position: Option<Position>) -> Result<Option<Line>, String> {
        let end = self.bytes[self.searched..].iter().position(|b| *b == b'\n');
        let Some(end) = end else {
            self.searched = self.bytes.len();
            if self.bytes.len() > LINE_BYTES_MAX {
                return Err(format!("a line has more than {LINE_BYTES_MAX} bytes"));
            }
            return Ok(None);
        };
        let line = self.bytes.split_to(self.searched + end + 1).freeze();
        self.searched = 0;
        let line = read(line)?;
        match (line.position(), position) {
            (Some(new), Some(old))
                if new < old || new == old && matches!(line, Line::Change(_)) =>
            {
                Err(format!("the position {new} is out of order"))
            }
            _ => Ok(Some(line)),
        }
    }
}

fn read(line: Bytes) -> Result<Line, String> {
    let value = serde_json::from_reader(line.clone().reader());
    let value: Value =
        value.map_err(|error| format!("the server sent an invalid line: {error}"))?;
    if let Some(end) = value.get("end") {
        return Ok(Line::End(End::new(end)));
    }
    let Some(position) = value["progress"].as_str() else {
        return Change::new(value, line).map(Line::Change);
    };
    Ok(Line::Progress(Progress {
        position: Position::parse(position)?,
        hidden: value["hidden"].as_u64().unwrap_or(0),
        head: value["head"]
            .as_str()
            .and_then(|text| parse_zxid(text).ok()),
        line,
    }))
}
