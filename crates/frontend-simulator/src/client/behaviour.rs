//! Behaviour of a client on one connection.

use bytes::Bytes;
use proto::{SessionId, Zxid};
use testkit::Random;

use crate::client::requests::{self, Mix, Sent};
use crate::client::wire;
use crate::settings::{PATIENT_MS, Settings};

/// Session that a client knows.
pub(super) struct Known {
    pub(super) session: SessionId,
    pub(super) password: Bytes,
}

/// Behaviour of a client on one connection.
pub(super) struct Behaviour {
    pub(super) hello: Hello,
    timeout_ms: i32,
    read_only: Option<bool>,
    requests: usize,
    mix: Mix,
    pub(super) reading: Reading,
    pub(super) writing: Writing,
    pub(super) end: End,
    /// Whether the client stops and remains connected until the end of the run.
    pub(super) stops: bool,
    is_probe: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hello {
    New,
    Renewed,
    WrongPassword,
    UnknownSession,
    Garbage,
    /// Only some bytes of the handshake.
    Partial,
}

/// Speed of a client that reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) chunk: usize,
    /// Share of reads before which the client pauses, in percent.
    pub(super) pause_percent: usize,
    pub(super) pause_ms: i64,
    /// Number of frames after which the client reads no further.
    pub(super) frames_max: usize,
    /// Length of the first such frame in whose middle the client stops, in bytes.
    pub(super) stop_len_min: usize,
}

/// Speed of a client that writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) chunk: usize,
    pub(super) pause_percent: usize,
    pub(super) pause_ms: i64,
    /// Number of requests of which the last one is sent only in part, after which the client sends
    /// nothing.
    pub(super) requests_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// After all replies.
    Disconnect,
    /// A closeSession after the other requests.
    Close,
    /// A closeSession with further requests behind it.
    CloseThenMore,
    /// An invalid frame after the other requests.
    Invalid,
    /// A closeSession, and then an invalid frame.
    CloseThenInvalid,
    /// Without a wait for the replies.
    Abrupt,
}

const NEVER: usize = usize::MAX;

impl Reading {
    const PROMPT: Self = Self {
        chunk: 1 << 20,
        pause_percent: 0,
        pause_ms: 0,
        frames_max: NEVER,
        stop_len_min: 0,
    };
}

impl Writing {
    const PROMPT: Self = Self {
        chunk: 1 << 20,
        pause_percent: 0,
        pause_ms: 0,
        requests_max: NEVER,
    };
}

impl Behaviour {
    pub(super) fn draw(settings: &Settings, may_stop: bool, random: &mut Random) -> Self {
        let hello = match random.below(100) {
            0..3 => Hello::Garbage,
            3..6 => Hello::Partial,
            6..9 => Hello::WrongPassword,
            9..11 => Hello::UnknownSession,
            11..40 => Hello::Renewed,
            _ => Hello::New,
        };
        let is_fast = random.percent(50);
        let mut reading = Reading {
            chunk: random.pick(&[1000, 20_000, 1 << 20]).unwrap_or(1000),
            pause_percent: if is_fast {
                0
            } else {
                random.pick(&[5, 20, 70]).unwrap_or(20)
            },
            pause_ms: random.pick(&[2, 100, 1000, 30_000]).unwrap_or(2),
            frames_max: NEVER,
            stop_len_min: 0,
        };
        let is_quick = random.percent(60);
        let mut writing = Writing {
            chunk: random.pick(&[3, 1000, 1 << 20]).unwrap_or(1000),
            pause_percent: if is_quick { 0 } else { 20 },
            pause_ms: random.pick(&[1, 50, 15_000]).unwrap_or(1),
            requests_max: NEVER,
        };
        if is_quick {
            writing.chunk = 1 << 20;
        }
        let requests = random.pick(&[3, 15, 60]).unwrap_or(3);
        if may_stop {
            let at = random.below(requests);
            if random.percent(70) {
                reading.frames_max = at;
                reading.stop_len_min = random.pick(&[0, 90_000, 200_000]).unwrap_or(0);
            } else {
                writing.requests_max = at;
            }
        }
        let ends = [
            End::Disconnect,
            End::Disconnect,
            End::Disconnect,
            End::Close,
            End::Close,
            End::CloseThenMore,
            End::Invalid,
            End::CloseThenInvalid,
            End::Abrupt,
        ];
        let timeouts = [PATIENT_MS, PATIENT_MS, 200, 5000];
        Self {
            hello,
            timeout_ms: random.pick(&timeouts).unwrap_or(PATIENT_MS),
            read_only: random
                .pick(&[None, Some(false), Some(true)])
                .unwrap_or(None),
            requests,
            mix: Mix::draw(settings, random),
            reading,
            writing,
            end: random.pick(&ends).unwrap_or(End::Close),
            stops: may_stop,
            is_probe: false,
        }
    }

    /// Returns the behaviour of a client that requests long replies and stops within one of them.
    pub(super) fn hoard(random: &mut Random) -> Self {
        let requests = random.pick(&[3, 6, 15]).unwrap_or(3);
        Self {
            timeout_ms: PATIENT_MS,
            mix: Mix::of_hoarder(),
            requests,
            reading: Reading {
                frames_max: random.below(2),
                stop_len_min: 80_000,
                ..Reading::PROMPT
            },
            end: End::Disconnect,
            stops: true,
            is_probe: false,
            ..Self::probe()
        }
    }

    /// Returns the behaviour of a client that sends a few requests at once, and reads the replies
    /// slowly. Nothing that it sends later can wake its task.
    pub(super) fn burst(random: &mut Random) -> Self {
        Self {
            timeout_ms: PATIENT_MS,
            mix: Mix::of_burst(),
            requests: random.pick(&[8, 12, 16]).unwrap_or(8),
            reading: Reading {
                chunk: 20_000,
                pause_percent: 70,
                pause_ms: random.pick(&[20, 300, 2000]).unwrap_or(20),
                ..Reading::PROMPT
            },
            // The writes are then in different groups of the log.
            writing: Writing {
                pause_percent: random.pick(&[0, 20, 40]).unwrap_or(0),
                pause_ms: random.pick(&[20, 300]).unwrap_or(20),
                ..Writing::PROMPT
            },
            end: End::Disconnect,
            is_probe: false,
            ..Self::probe()
        }
    }

    /// Returns the behaviour of a client that only needs to be served.
    pub(super) fn probe() -> Self {
        Self {
            hello: Hello::New,
            timeout_ms: PATIENT_MS,
            read_only: None,
            requests: 0,
            mix: Mix::default(),
            reading: Reading::PROMPT,
            writing: Writing::PROMPT,
            end: End::Close,
            stops: false,
            is_probe: true,
        }
    }

    /// Returns whether the server has no reason to end the connection.
    pub(super) fn is_proper(&self, settings: &Settings) -> bool {
        self.hello == Hello::New
            && self.timeout_ms == PATIENT_MS
            && self.reading.pause_percent == 0
            && self.writing.pause_percent == 0
            && !self.stops
            && !settings.closes_large
    }

    pub(super) fn frames(&self, settings: &Settings, random: &mut Random) -> Vec<Sent> {
        let mut xid = 0;
        let mut next = || {
            xid += 1;
            xid
        };
        let mut frames: Vec<Sent> = if self.is_probe {
            requests::probe(settings).collect()
        } else {
            let draws = 0..self.requests;
            draws
                .map(|_| requests::draw(self.mix, settings, next(), random))
                .collect()
        };
        let mut xid = 1000;
        let mut next = || {
            xid += 1;
            xid
        };
        if matches!(
            self.end,
            End::Close | End::CloseThenMore | End::CloseThenInvalid
        ) {
            frames.push(requests::close(next()));
        }
        if self.end == End::CloseThenMore {
            for _ in 0..=random.below(5) {
                frames.push(requests::draw(self.mix, settings, next(), random));
            }
        }
        if matches!(self.end, End::Invalid | End::CloseThenInvalid) {
            frames.push(requests::invalid(settings, next(), random));
        }
        frames
    }
}

impl Behaviour {
    pub(super) fn hello_frame(&self, known: &Known, random: &mut Random) -> Vec<u8> {
        let (session, mut password) = match self.hello {
            Hello::Renewed | Hello::WrongPassword if known.session != SessionId::NONE => {
                (known.session, known.password.to_vec())
            }
            Hello::UnknownSession => (SessionId(77), vec![1; 16]),
            _ => (SessionId::NONE, vec![0; 16]),
        };
        if self.hello == Hello::WrongPassword
            && let Some(first) = password.first_mut()
        {
            *first ^= 1;
        }
        let mut frame = wire::hello(
            session,
            password.into(),
            self.timeout_ms,
            self.read_only,
            Zxid::ZERO,
        );
        match self.hello {
            Hello::Garbage => wire::framed(&[9; 20]),
            Hello::Partial => {
                frame.truncate(random.below(frame.len()));
                frame
            }
            _ => frame,
        }
    }
}
