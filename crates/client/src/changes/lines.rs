//! Splits the bytes of a feed into lines.

use bytes::{Buf, Bytes, BytesMut};
use proto::position::Position;
use serde_json::Value;

use super::Progress;
use super::change::Change;
use crate::limits::LINE_BYTES_MAX;

/// Meaning of a line.
#[derive(Debug)]
pub(super) enum Line {
    Change(Change),
    Progress(Progress),
}

impl Line {
    pub(super) fn position(&self) -> Position {
        match self {
            Self::Change(change) => change.position(),
            Self::Progress(progress) => progress.position,
        }
    }
}

/// Received bytes that the reader has not consumed.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: BytesMut,
    /// Number of bytes that were already searched for the end of a line.
    searched: usize,
}

impl Lines {
    pub(super) fn put(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// Returns the next complete line. `position` is the position of the feed. A change at or
    /// before this position is an error.
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
        let is_behind = match (&line, position) {
            (Line::Change(_), Some(position)) => line.position() > position,
            (Line::Progress(_), Some(position)) => line.position() >= position,
            (_, None) => true,
        };
        if is_behind {
            Ok(Some(line))
        } else {
            Err(format!("{} is out of order", line.position()))
        }
    }
}

fn read(line: Bytes) -> Result<Line, String> {
    let value = serde_json::from_reader(line.clone().reader());
    let value: Value = value.map_err(|error| format!("sent an invalid line: {error}"))?;
    if let Some(end) = value.get("end") {
        return Err(end["text"].as_str().unwrap_or("the feed ended").to_owned());
    }
    let Some(position) = value["progress"].as_str() else {
        return Change::new(value, line).map(Line::Change);
    };
    Ok(Line::Progress(Progress {
        position: Position::parse(position)?,
        hidden: value["hidden"].as_u64().unwrap_or(0),
        line,
    }))
}
