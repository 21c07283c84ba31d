//! Ends of connections, and the messages that travel between them.

use bytes::Bytes;
use proto::hello::Hello;
use proto::notification::Notification;

/// A process of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Index of the server.
    pub server: usize,
    /// Number of the process among the server's processes.
    pub life: u64,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// A process of a server.
    Server(Process),
    /// A client that is not a process, identified by its number.
    Client(usize),
    /// A process of an application with the shipped client. Each restart creates a new process.
    Application {
        /// Number of the application.
        number: usize,
        /// Number of the process among the application's processes.
        life: u64,
    },
}

impl From<Process> for Endpoint {
    fn from(process: Process) -> Self {
        Self::Server(process)
    }
}

impl Endpoint {
    /// Returns the index of the server, if this end is a server.
    pub fn server(self) -> Option<usize> {
        match self {
            Self::Server(Process { server, .. }) => Some(server),
            Self::Client(_) | Self::Application { .. } => None,
        }
    }
}

/// Port that was dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Port for elections.
    Election,
    /// Port for learners, on a leader or on an observer master.
    Members(replica::Port),
    /// Port for clients.
    Client,
}

/// Content of a message.
#[derive(Debug, Clone)]
pub enum Message {
    /// First message on an election connection.
    Hello(Hello),
    /// Notification of an election.
    Vote(Box<Notification>),
    /// Complete packets between a leader and a learner.
    Packets(Bytes),
    /// Some bytes of the tree after a SNAP packet, and whether they are the last ones.
    Tree(Bytes, bool),
    /// A frame from a client, without its length prefix.
    ToServer(Bytes),
    /// Frames for a client.
    ToClient(Bytes),
    /// Notice that the sender has closed the connection.
    End,
}

/// One end of a connection, as seen by the server at that end.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionEnd {
    /// Number of the connection.
    pub number: u64,
    /// Port that was dialled.
    pub port: Port,
}

/// Event at a server's end of a connection.
#[derive(Debug)]
pub enum LinkEvent {
    /// A peer has connected.
    Accepted,
    /// The dial has reached this server.
    Reached(usize),
    /// The dial has not reached the server.
    NotReached {
        /// Index of the dialled server.
        server: usize,
        /// Whether the server's host refused the connection. Otherwise the path to the host is cut.
        is_refusal: bool,
    },
    /// A message has arrived.
    Message(Message),
    /// The connection has ended.
    Closed,
}
