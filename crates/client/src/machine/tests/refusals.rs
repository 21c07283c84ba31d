//! Servers that accept a session, but refuse what the client needs.

use super::*;

impl Site {
    /// Returns the session that the next handshake offers.
    fn offered(&mut self, now: Duration) -> Option<SessionId> {
        let order = self.machine.poll_order(now).expect("the pause is over");
        let HostOrder::Dial { handshake, .. } = order;
        handshake.session.map(|session| session.id)
    }
}

/// A server may accept each session and then close the connection.
#[test]
fn servers_that_serve_nothing_are_dialed_with_pauses() {
    let mut site = Site::new(options());
    let (mut now, mut dials) = (at(0), 0);
    while now < at(2) {
        site.machine.handle_lost(&LossReason::ClosedByServer, now);
        while site.machine.poll_order(now).is_none() {
            now = site.machine.deadline().unwrap();
        }
        dials += 1;
        let granted = Ok(accepted(1));
        site.machine.handle_dialed(granted, &mut site.out, now);
    }
    assert!((4..40).contains(&dials), "{dials}");
    site.sent();
    assert!(
        site.machine
            .handle_deadline(&mut site.out, now + at(3))
            .is_ok()
    );
    site.reply(Xid::PING, now + at(3));
    let lost_at = now + at(3);
    site.machine
        .handle_lost(&LossReason::ClosedByServer, lost_at);
    assert!(site.machine.poll_order(lost_at).is_some(), "no pause");
}

#[test]
fn a_server_that_refuses_the_watches_is_left() {
    const THROTTLED: i32 = -127;
    let mut site = Site::new(options());
    let left = site.reply_as(Xid::SET_WATCHES, THROTTLED, &[], at(1));
    assert!(matches!(left, Err(LossReason::WatchesRefused(THROTTLED))));
    assert!(site.reply_as(Xid::SET_WATCHES, 0, &[], at(1)).is_ok());
}

#[test]
fn background_work_is_repeated_after_a_temporary_refusal() {
    for err in [-127, -119] {
        let mut site = Site::new(options());
        site.cleanups.push(Cleanup::Delete("/lock".into()));
        site.machine.handle_cleanups(&mut site.out, at(1));
        let [delete] = &site.sent()[..] else {
            panic!("one request");
        };
        site.reply_as(delete.xid, err, &[], at(1)).unwrap();
        assert!(site.sent().is_empty());
        site.machine.handle_deadline(&mut site.out, at(4)).unwrap();
        let again = site.sent();
        let delete = again.iter().find(|sent| sent.op == OpCode::Delete.number());
        let xid = delete.expect("the request is repeated").xid;
        site.reply(Xid::PING, at(4));
        site.reply(xid, at(4));
        site.machine.handle_deadline(&mut site.out, at(7)).unwrap();
        let later = site.sent();
        assert!(later.iter().all(|sent| sent.op == OpCode::Ping.number()));
    }
}

/// Other servers do not know the session of a server without a quorum.
#[test]
fn a_session_of_a_read_only_server_is_not_offered_to_other_servers() {
    let mut site = Site::new(options());
    site.machine.is_known_to_quorum = false;
    site.machine.handle_lost(&LossReason::ClosedByServer, at(1));
    assert_eq!(site.offered(at(1)), None);
    let refusal = Error::SessionExpired {
        session: SessionId::NONE,
        server: "a:1".into(),
    };
    let refused = Err(refusal);
    site.machine.handle_dialed(refused, &mut site.out, at(1));
    assert_ne!(site.state(), State::Expired);
    assert_eq!(site.offered(at(2)), None);
    let read_only = Accepted {
        read_only: true,
        ..accepted(2)
    };
    site.machine
        .handle_dialed(Ok(read_only), &mut site.out, at(2));
    site.machine.handle_lost(&LossReason::ClosedByServer, at(3));
    assert_eq!(site.offered(at(4)), None);
    site.machine
        .handle_dialed(Ok(accepted(3)), &mut site.out, at(4));
    site.machine.handle_lost(&LossReason::ClosedByServer, at(5));
    assert_eq!(site.offered(at(6)), Some(SessionId(3)));
}
