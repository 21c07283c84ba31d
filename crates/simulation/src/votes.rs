//! Votes that the owner of the servers has chosen. They arrive over connections that are not in the
//! network.

use election::links::ConnectionId;
use proto::notification::Notification;
use replica::Input;
use replica::elections::ElectionInput;

use crate::checks::StepChecks;
use crate::configured::{hello_of, sid_of};
use crate::server::SimHost;

/// Returns the number of a connection that is not in the network.
fn unreal(peer: usize) -> ConnectionId {
    ConnectionId(u64::MAX - peer as u64)
}

impl<C: StepChecks> SimHost<C> {
    /// Connects the server to another one for elections, without a network. Only
    /// [`SimHost::hear_vote`] uses this connection.
    pub fn meet(&mut self, peer: usize) {
        let (connection, sid) = (unreal(peer), sid_of(peer));
        self.inputs
            .push_back(Input::Election(if peer < self.process.server {
                ElectionInput::Dialled { sid, connection }
            } else {
                let hello = hello_of(peer);
                ElectionInput::Hello { connection, hello }
            }));
    }

    /// Handles a vote of another server that the script of a run has chosen.
    pub fn hear_vote(&mut self, peer: usize, notification: Notification) {
        let input = ElectionInput::ReceivedNotification {
            connection: unreal(peer),
            notification,
        };
        self.inputs.push_back(Input::Election(input));
    }
}
