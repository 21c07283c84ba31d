//! Notifications, the only messages of leader election.
//!
//! ```text
//! state i32 | leader i64 | zxid i64 | round i64                        28 bytes, oldest
//!           ... | peer epoch i64 | unused i32                          40 bytes, 3.4
//!           ... | peer epoch i64 | version i32 | length i32 | config   since 3.5, version 2
//! ```
//!
//! On the connection each message follows its length (i32, 1 to [`FRAME_BYTES_MAX`]). It does not
//! contain the sender, which is the peer of the connection.
//!
//! Source: FastLeaderElection's worker receiver, buildMsg.

use bytes::Bytes;
use jute::{Decode, DecodeError, Encode, Reader, put_with_len};

use crate::{ElectionRound, Epoch, Sid, Zxid};

/// Maximum length of a frame on an election connection, bytes. A greater, zero or negative length
/// closes the connection.
pub const FRAME_BYTES_MAX: usize = 524_288;

/// Maximum length of a configuration text that fits into a notification, bytes. With a longer text,
/// no server could be elected.
pub const CONFIG_BYTES_MAX: usize = FRAME_BYTES_MAX - 44;

/// State that a server announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerState {
    /// The server is looking for a leader.
    Looking,
    /// The server follows a leader as a voter.
    Following,
    /// The server is the leader.
    Leading,
    /// The server follows a leader without a vote.
    Observing,
    /// An unknown number. If a voter sends it, the whole message is invalid. A server without a
    /// vote is answered nevertheless.
    Unknown(i32),
}

impl PeerState {
    /// Returns the number on the wire.
    pub fn number(self) -> i32 {
        match self {
            Self::Looking => 0,
            Self::Following => 1,
            Self::Leading => 2,
            Self::Observing => 3,
            Self::Unknown(number) => number,
        }
    }

    /// Returns the state with this number.
    pub fn from_i32(number: i32) -> Self {
        match number {
            0 => Self::Looking,
            1 => Self::Following,
            2 => Self::Leading,
            3 => Self::Observing,
            _ => Self::Unknown(number),
        }
    }
}

/// A vote, together with the state of its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// State of the sender.
    pub state: PeerState,
    /// Server for which the sender votes.
    pub leader: Sid,
    /// Last zxid of the server for which the sender votes.
    pub zxid: Zxid,
    /// Round of the sender (`electionEpoch` in ZooKeeper).
    pub round: ElectionRound,
    /// Epoch of the log of the server for which the sender votes. In the oldest form, the epoch in
    /// `zxid`.
    pub peer_epoch: Epoch,
    /// Form of the message, with the remaining fields.
    pub form: Form,
}

/// Form of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// The oldest form, 28 bytes, without the peer epoch.
    WithoutEpoch,
    /// The form with 40 bytes, without the configuration.
    WithoutConfig {
        /// Field at the position that the version has in longer messages. Receivers ignore it.
        unread: i32,
    },
    /// The form of any other length.
    Versioned {
        /// Version, [`Notification::VERSION`] since 3.5.
        version: i32,
        /// Text of the configuration that the sender has committed, not parsed yet. Present from
        /// version 2 on.
        config: Option<Bytes>,
    },
}

impl Notification {
    /// Version that every release since 3.5 sends.
    pub const VERSION: i32 = 2;

    /// Returns the version for comparing votes: 0 for the short forms.
    pub fn version(&self) -> i32 {
        match self.form {
            Form::WithoutEpoch | Form::WithoutConfig { .. } => 0,
            Form::Versioned { version, .. } => version,
        }
    }

    /// Returns the text of the configuration if the message contains one.
    pub fn config(&self) -> Option<&Bytes> {
        match &self.form {
            Form::Versioned { config, .. } => config.as_ref(),
            _ => None,
        }
    }

    /// Decodes a frame without its length. Bytes after the configuration are ignored.
    ///
    /// # Errors
    /// If the frame is too short for its form, or if the configuration's length is impossible. The
    /// message is then dropped, and the connection stays open.
    pub fn decode(frame: Bytes) -> Result<Self, DecodeError> {
        let len = frame.len();
        let mut input = Reader::new(frame);
        let state = PeerState::from_i32(input.i32()?);
        let leader = Sid::decode(&mut input)?;
        let zxid = Zxid::decode(&mut input)?;
        let round = ElectionRound::decode(&mut input)?;
        let (peer_epoch, form) = if len == WITHOUT_EPOCH_BYTES {
            (zxid.epoch(), Form::WithoutEpoch)
        } else {
            (Epoch::decode(&mut input)?, decode_form(len, &mut input)?)
        };
        Ok(Self {
            state,
            leader,
            zxid,
            round,
            peer_epoch,
            form,
        })
    }

    /// Appends the frame with its length.
    pub fn encode_frame(&self, out: &mut Vec<u8>) {
        put_with_len(out, |out| self.encode_payload(out));
    }

    fn encode_payload(&self, out: &mut Vec<u8>) {
        self.state.number().encode(out);
        self.leader.encode(out);
        self.zxid.encode(out);
        self.round.encode(out);
        match &self.form {
            Form::WithoutEpoch => {}
            Form::WithoutConfig { unread } => {
                self.peer_epoch.encode(out);
                unread.encode(out);
            }
            Form::Versioned { version, config } => {
                self.peer_epoch.encode(out);
                version.encode(out);
                config.iter().for_each(|config| config.encode(out));
            }
        }
    }
}

fn decode_form(len: usize, input: &mut Reader) -> Result<Form, DecodeError> {
    let version = input.i32()?;
    if len == WITHOUT_CONFIG_BYTES {
        return Ok(Form::WithoutConfig { unread: version });
    }
    if version <= 1 {
        return Ok(Form::Versioned {
            version,
            config: None,
        });
    }
    let offset = input.position();
    let config_len = input.i32()?;
    let config = match usize::try_from(config_len) {
        Ok(wanted) if wanted <= len => input.take(wanted)?,
        _ => {
            return Err(DecodeError::Length {
                offset,
                len: config_len,
                limit: len,
            });
        }
    };
    Ok(Form::Versioned {
        version,
        config: Some(config),
    })
}

const WITHOUT_EPOCH_BYTES: usize = 28;
const WITHOUT_CONFIG_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &[u8] = b"server.1=127.0.0.1:23201:23301:participant\nversion=0";

    fn first(form: Form) -> Notification {
        Notification {
            state: PeerState::Looking,
            leader: Sid(1),
            zxid: Zxid(0x3_0000_0009),
            round: ElectionRound(1),
            peer_epoch: Epoch(3),
            form,
        }
    }

    fn frame(notification: &Notification) -> Vec<u8> {
        let mut out = Vec::new();
        notification.encode_frame(&mut out);
        assert_eq!(
            out[..4],
            i32::try_from(out.len() - 4).unwrap().to_be_bytes()
        );
        out.split_off(4)
    }

    fn read(frame: &[u8]) -> Result<Notification, DecodeError> {
        Notification::decode(Bytes::copy_from_slice(frame))
    }

    fn current() -> Notification {
        first(Form::Versioned {
            version: Notification::VERSION,
            config: Some(Bytes::from_static(CONFIG)),
        })
    }

    #[test]
    fn every_form_reads_back() {
        for (notification, len, version) in [
            (current(), 44 + CONFIG.len(), 2),
            (first(Form::WithoutConfig { unread: 1 }), 40, 0),
            (first(Form::WithoutEpoch), 28, 0),
        ] {
            let bytes = frame(&notification);
            assert_eq!((bytes.len(), notification.version()), (len, version));
            assert_eq!(read(&bytes), Ok(notification));
        }
    }

    #[test]
    fn an_unknown_length_is_refused() {
        let bytes = frame(&current());
        for len in 0..bytes.len() {
            let is_a_form = len == 28 || len == 40;
            assert_eq!(read(&bytes[..len]).is_ok(), is_a_form, "{len}");
        }
    }

    #[test]
    fn bytes_after_the_configuration_are_ignored() {
        let bytes = [&frame(&current())[..], b"more"].concat();
        assert_eq!(read(&bytes), Ok(current()));
    }

    #[test]
    fn a_version_without_configuration_may_have_any_length() {
        let mut bytes = frame(&first(Form::WithoutConfig { unread: 1 }));
        bytes.push(7);
        let form = Form::Versioned {
            version: 1,
            config: None,
        };
        assert_eq!(read(&bytes), Ok(first(form)));
    }

    #[test]
    fn a_configuration_longer_than_the_message_is_refused() {
        let bytes = frame(&current());
        for len in [-1, i32::MIN, i32::MAX, 0x270f, 97, 53] {
            let mut wrong = bytes.clone();
            wrong[40..44].copy_from_slice(&i32::to_be_bytes(len));
            assert!(read(&wrong).is_err(), "{len}");
        }
    }

    #[test]
    fn an_unknown_state_is_kept() {
        let mut bytes = frame(&current());
        bytes[..4].copy_from_slice(&7i32.to_be_bytes());
        let read = read(&bytes).unwrap();
        assert_eq!(read.state, PeerState::Unknown(7));
        assert_eq!(frame(&read), bytes);
    }
}
