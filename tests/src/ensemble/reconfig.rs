//! Changes of an ensemble's members by a client.

use std::time::Duration;

use proto::request::{ReconfigRequest, Request, WriteRequest};
use proto::response::GetDataResponse;
use proto::{ErrorCode, OpCode};

use super::{Ensemble, SESSION_TIMEOUT_MS, SETTLE_LIMIT, SUPER};
use crate::raw_session::{RawSession, handshake};
use crate::requests::get_data;
use crate::wait::wait_for;

const CONFIG_NODE: &str = "/zookeeper/config";

/// An incremental change: lines of members to add or change, and ids to remove.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Lines as in a list of servers.
    pub joining: Vec<String>,
    /// Ids of members to remove.
    pub leaving: Vec<u64>,
}

impl Change {
    fn request(&self) -> Request {
        let joining = self.joining.join(",");
        let leaving: Vec<_> = self.leaving.iter().map(u64::to_string).collect();
        let leaving = leaving.join(",");
        let given = |text: String| (!text.is_empty()).then(|| text.as_str().into());
        Request::Write(WriteRequest::Reconfig(ReconfigRequest {
            joining: given(joining),
            leaving: given(leaving),
            new_members: None,
            config_version: -1,
        }))
    }
}

impl Ensemble {
    /// Requests the change from a member, repeatedly while there is no quorum of the new members or
    /// another change is pending. Returns the text of the new configuration.
    pub fn reconfigure(&self, through: u64, change: &Change) -> String {
        let request = change.request();
        let op = OpCode::Reconfig;
        wait_for(&format!("{op:?} {change:?}"), SETTLE_LIMIT, || {
            let mut session = self.super_session(through)?;
            session.set_patience(Duration::from_secs(20));
            let answer = session.call(&request).ok()?;
            session.close().ok();
            match ErrorCode::from_i32(answer.err) {
                Some(ErrorCode::NewConfigNoQuorum | ErrorCode::ReconfigInProgress) => None,
                _ => {
                    assert_eq!(answer.err, 0, "{change:?}");
                    Some(text(&answer.record()))
                }
            }
        })
    }

    /// Requests the change from a member once, and returns the text of the new configuration.
    ///
    /// # Errors
    /// If the member accepts no session or refuses, or has not answered within `limit`. In the last
    /// case the change may still be executed.
    pub fn try_reconfigure(
        &self,
        through: u64,
        change: &Change,
        limit: Duration,
    ) -> Result<String, String> {
        let mut session = self.super_session_within(through, limit)?;
        session.set_patience(limit);
        let answer = session.call(&change.request()).map_err(|lost| lost.0)?;
        session.close().ok();
        match answer.err {
            0 => Ok(text(&answer.record())),
            code => Err(format!("error {code}")),
        }
    }

    fn super_session_within(&self, id: u64, limit: Duration) -> Result<RawSession, String> {
        let address = self.member(id).client_address().to_string();
        let handshake = handshake(SESSION_TIMEOUT_MS).with_connect_timeout(limit);
        let opened = RawSession::with_handshake(&address, &handshake);
        let mut session = opened.map_err(|error| error.to_string())?;
        session.set_patience(limit);
        let answer = session.authenticate("digest", SUPER);
        answer.map_err(|lost| lost.0)?;
        Ok(session)
    }

    /// Returns the configuration as this member sees it.
    pub fn configuration(&self, id: u64) -> Option<String> {
        let mut session = self.super_session(id)?;
        session.sync().ok()?;
        let answer = session.call(&get_data(CONFIG_NODE)).ok()?;
        session.close().ok();
        (answer.err == 0).then(|| text(&answer.record()))
    }

    /// Opens a super user's session with one member, or returns `None` while it accepts none.
    pub fn super_session(&self, id: u64) -> Option<RawSession> {
        let address = self.member(id).client_address().to_string();
        let mut session = RawSession::open(&address, None, SESSION_TIMEOUT_MS).ok()?;
        session.authenticate("digest", SUPER).ok()?;
        Some(session)
    }
}

fn text(response: &GetDataResponse) -> String {
    String::from_utf8_lossy(response.data.as_deref().unwrap_or_default()).into_owned()
}
