//! Member lists that the servers have at their first start.

use std::fmt::Write;

use crate::settings::{EnsembleSettings, Features};

/// Role of a server in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A voter.
    Participant,
    /// A server without a vote.
    Observer,
}

/// Returns the member list in the files of a server at its first start. It is empty for a
/// standalone server.
pub fn first_list(index: usize, settings: &EnsembleSettings) -> String {
    let mut text = String::new();
    if settings.is_standalone() {
        return text;
    }
    for server in 0..settings.servers() {
        let is_founder = server < settings.voters;
        // A server that joins later knows the ensemble, but the ensemble does not know the server.
        if is_founder || !settings.features.grows || server == index {
            let role = if is_founder || (settings.features.grows && server % 2 == 1) {
                Role::Participant
            } else {
                Role::Observer
            };
            let _ = writeln!(text, "{}", line(server, role, settings.features));
        }
    }
    text
}

/// Returns the line for a server in a list.
pub fn line(server: usize, role: Role, features: Features) -> String {
    let number = server + 1;
    let role = match role {
        Role::Participant => "participant",
        Role::Observer => "observer",
    };
    let client = if features.reconfigures {
        ";0.0.0.0:2181"
    } else {
        ""
    };
    format!("server.{number}=10.0.0.{number}:2888:3888:{role}{client}")
}
