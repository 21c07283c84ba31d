//! A learner as a plain socket: it knows the protocol, and may violate it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jute::{Decode, Encode, Reader};
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket, LearnerRequest};
use proto::packet::{Extent, QuorumPacket};
use proto::request::Request;
use proto::txn::{Txn, TxnRecord};
use proto::{Epoch, ErrorCode, Id, OpCode, SessionId, Sid, Zxid};
use tests::ensemble::{Ensemble, SESSION_TIMEOUT_MS};

/// An id that is not in any member list.
pub(crate) const STRANGER: i64 = 77;
/// Time limit for each expected event.
const PATIENCE: Duration = Duration::from_secs(30);

/// An observer that is not in any member list.
pub(crate) struct RawObserver {
    stream: TcpStream,
    /// The same socket. Other threads may also send whole packets on it.
    pub(crate) output: Arc<Mutex<TcpStream>>,
    buffer: BytesMut,
    pub(crate) session: SessionId,
    /// Whether it answers pings. A leader drops a learner that stays silent.
    pub(crate) answers_pings: bool,
}

impl RawObserver {
    /// Returns an observer that is up to date with the leader of `ensemble`, through the quorum
    /// port or the observer port at `address`.
    pub(crate) fn join(ensemble: &Ensemble, address: SocketAddr) -> RawObserver {
        RawObserver::join_as(ensemble, address, STRANGER)
    }

    /// Connects under this id, which no other member has.
    pub(crate) fn join_as(ensemble: &Ensemble, address: SocketAddr, sid: i64) -> RawObserver {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        let output = stream.try_clone().expect("the socket again");
        let mut observer = RawObserver {
            stream,
            output: Arc::new(Mutex::new(output)),
            buffer: BytesMut::new(),
            session: SessionId(sid << 56 | 1),
            answers_pings: true,
        };
        let zxid = ensemble.member(crate::LEADER).zxid().expect("a zxid");
        let zxid = Zxid(i64::try_from(zxid).expect("a zxid"));
        let mut info = LearnerInfo::new(Sid(sid), 0);
        info.config_version = None;
        observer.send(LearnerPacket::ObserverInfo {
            accepted_epoch: Epoch(0),
            info: Some(info),
        });
        observer.wait_for(|packet| matches!(packet, LeaderPacket::LeaderInfo { .. }));
        observer.send(LearnerPacket::AckEpoch {
            last_logged: zxid,
            current_epoch: Some(zxid.epoch()),
        });
        let is_new_leader = |packet: &_| matches!(packet, LeaderPacket::NewLeader { .. });
        let new_leader = observer.wait_for(is_new_leader);
        let LeaderPacket::NewLeader { zxid, .. } = new_leader else {
            unreachable!("it was looked for");
        };
        observer.send(LearnerPacket::Ack { zxid });
        observer.wait_for(|packet| matches!(packet, LeaderPacket::UpToDate));
        observer
    }

    pub(crate) fn send(&mut self, packet: LearnerPacket) {
        let bytes = QuorumPacket::from(packet).to_bytes();
        let mut output = self.output.lock().expect("no other sender has failed");
        output.write_all(&bytes).expect("the packet is taken");
    }

    /// Opens a session and waits until it exists.
    pub(crate) fn open_session(&mut self) {
        let request = LearnerRequest {
            session: self.session,
            cxid: 0,
            op: OpCode::CreateSession.number(),
            body: SESSION_TIMEOUT_MS.to_bytes(),
            authinfo: None,
        };
        self.send(LearnerPacket::Request(request));
        assert_eq!(self.answer(0), ErrorCode::Ok);
    }

    /// Returns a request of its session as a packet.
    pub(crate) fn request(
        &self,
        cxid: i32,
        request: &Request,
        identities: Vec<Id>,
    ) -> LearnerPacket {
        let mut body = Vec::new();
        request.encode(&mut body).expect("a request of a client");
        LearnerPacket::Request(LearnerRequest {
            session: self.session,
            cxid,
            op: request.op().number(),
            body: body.into(),
            authinfo: Some(identities),
        })
    }

    /// Waits for the result of a request of its session.
    pub(crate) fn answer(&mut self, cxid: i32) -> ErrorCode {
        let session = self.session;
        let record = |packet: &LeaderPacket| {
            let LeaderPacket::Inform { txn, .. } = packet else {
                return None;
            };
            let record = TxnRecord::decode(&mut Reader::new(txn.clone())).expect("a transaction");
            let is_ours = record.header.session == session && record.header.cxid == cxid;
            is_ours.then_some(record)
        };
        let packet = self.wait_for(|packet| record(packet).is_some());
        match record(&packet).map(|record| record.txn) {
            Some(Txn::Error { code }) => ErrorCode::from_i32(code).expect("a known error"),
            _ => ErrorCode::Ok,
        }
    }

    /// Reads packets until one matches. Panics if the connection ends first.
    pub(crate) fn wait_for(&mut self, is_it: impl Fn(&LeaderPacket) -> bool) -> LeaderPacket {
        loop {
            let packet = self.next().expect("a packet");
            if let LeaderPacket::Ping { zxid } = packet
                && self.answers_pings
            {
                let touched = Vec::new();
                self.send(LearnerPacket::Ping { zxid, touched });
            }
            if is_it(&packet) {
                return packet;
            }
        }
    }

    /// Returns the next packet, or `None` after the end of the connection.
    pub(crate) fn next(&mut self) -> Option<LeaderPacket> {
        let mut some = vec![0; 64 << 10];
        loop {
            let extent = QuorumPacket::extent(&self.buffer, testkit::LIMITS);
            if let Some(Extent::Whole(len)) = extent.expect("a packet") {
                let frame: Bytes = self.buffer.split_to(len).freeze();
                let packet = QuorumPacket::decode(&mut Reader::new(frame)).expect("a packet");
                return Some(LeaderPacket::try_from(packet).expect("a leader's packet"));
            }
            match self.stream.read(&mut some) {
                Ok(0) | Err(_) => return None,
                Ok(len) => self.buffer.extend_from_slice(&some[..len]),
            }
        }
    }
}
