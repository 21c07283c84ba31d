use proto::OpCode;

use super::*;
use crate::forwarding::from_learners::owner_of;

const MIB: usize = 1 << 20;

fn order(link: u64, session: i64, cxid: i32, bytes: usize) -> OrderItem {
    let link = LinkId(link);
    OrderItem::Order(ServerRequest {
        owner: owner_of(link),
        cxid,
        op: OpCode::SetData,
        link: Some(link),
        record_bytes: bytes,
        bytes,
        ..ServerRequest::own(SessionId(session), WriteRequest::CloseSession)
    })
}

fn sync(link: u64, session: i64) -> OrderItem {
    let (link, session) = (LinkId(link), SessionId(session));
    OrderItem::Sync { link, session }
}

/// Returns the session and cxid of the item, and whether the item is refused.
fn named(incoming: &OrderItem) -> (i64, i32, bool) {
    match incoming {
        OrderItem::Order(order) => (order.session.0, order.cxid, order.request.is_err()),
        other => (other.session().0, -1, false),
    }
}

/// Returns a state in which another long request does not fit.
fn full() -> LongRequests {
    let mut requests = LongRequests::default();
    requests.proposed(Zxid(1), 2 * LONG_BYTES_AHEAD_OF_FOLLOWERS);
    requests
}

fn drain(requests: &mut LongRequests) -> Vec<(i64, i32, bool)> {
    std::iter::from_fn(|| requests.next())
        .map(|incoming| named(&incoming))
        .collect()
}

#[test]
fn a_single_long_request_always_fits_and_the_next_waits() {
    let mut requests = LongRequests::default();
    let huge = 4 * LONG_BYTES_UNDER_WAY;
    assert!(requests.admit(order(1, 1, 1, huge)).is_some());
    requests.proposed(Zxid(1), huge);
    assert!(requests.admit(order(1, 1, 2, MIB)).is_none());
    requests.done(Zxid(1), Zxid(0));
    assert!(requests.next().is_none(), "the followers do not have it");
    requests.done(Zxid(1), Zxid(1));
    assert_eq!(drain(&mut requests), [(1, 2, false)]);
    assert!(requests.is_empty() && !requests.has_unconfirmed());
}

#[test]
fn short_requests_pass_long_ones_of_other_sessions() {
    let mut requests = full();
    assert!(requests.admit(order(1, 1, 1, MIB)).is_none());
    assert!(requests.admit(order(1, 2, 1, 100)).is_some());
    assert!(requests.admit(order(1, 1, 2, 100)).is_none());
    assert!(requests.admit(sync(1, 2)).is_some());
    requests.done(Zxid(1), Zxid(1));
    // A request that arrives while others wait does not overtake them.
    assert!(requests.admit(order(2, 3, 1, MIB)).is_none());
    let expected = [(1, 1, false), (1, 2, false), (3, 1, false)];
    assert_eq!(drain(&mut requests), expected);
    assert!(requests.admit(order(1, 1, 3, 100)).is_some());
}

/// The learner matches an answer with its oldest `sync`.
#[test]
fn syncs_of_a_connection_stay_in_order() {
    let mut requests = full();
    assert!(requests.admit(order(1, 1, 1, MIB)).is_none());
    assert!(requests.admit(sync(1, 1)).is_none());
    assert!(requests.admit(sync(1, 2)).is_none());
    assert!(requests.admit(sync(2, 3)).is_some());
    requests.done(Zxid(1), Zxid(1));
    let expected = [(1, 1, false), (1, -1, false), (2, -1, false)];
    assert_eq!(drain(&mut requests), expected);
    assert!(requests.admit(sync(1, 2)).is_some());
}

#[test]
fn requests_over_the_limit_are_refused_in_order() {
    let mut requests = full();
    let most = i32::try_from(LONG_BYTES_WAITING / MIB).unwrap();
    for cxid in 0..most + 3 {
        assert!(requests.admit(order(1, 1, cxid, MIB)).is_none());
    }
    // The other link has its own share.
    for cxid in 0..4 {
        assert!(requests.admit(order(2, 2, cxid, MIB)).is_none());
    }
    requests.done(Zxid(1), Zxid(1));
    let drained = drain(&mut requests);
    let refused = |of| {
        let refused = drained.iter().filter(|(_, _, is_refused)| *is_refused);
        let cxids = refused.filter_map(|(session, cxid, _)| (*session == of).then_some(*cxid));
        cxids.collect::<Vec<_>>()
    };
    assert_eq!(refused(1), (most..most + 3).collect::<Vec<_>>());
    assert_eq!(refused(2), [2, 3]);
    let of_first = drained.iter().filter(|(session, _, _)| *session == 1);
    assert!(of_first.map(|(_, cxid, _)| *cxid).eq(0..most + 3));
    assert_eq!(requests.bytes, 0);
}

#[test]
fn close_session_is_admitted_at_any_load() {
    let mut requests = full();
    for cxid in 0..40 {
        assert!(requests.admit(order(1, 1, cxid, MIB)).is_none());
    }
    let OrderItem::Order(mut close) = order(1, 1, 40, 100) else {
        unreachable!("it is one");
    };
    close.op = OpCode::CloseSession;
    close.bytes = 3 * LONG_BYTES_WAITING;
    assert!(requests.admit(OrderItem::Order(close)).is_none());
    requests.done(Zxid(1), Zxid(1));
    assert_eq!(drain(&mut requests).last(), Some(&(1, 40, false)));
}

#[test]
fn waiting_requests_are_dropped_with_their_connection() {
    let mut requests = full();
    assert!(requests.admit(order(1, 1, 1, MIB)).is_none());
    assert!(requests.admit(order(2, 2, 1, MIB)).is_none());
    assert!(requests.admit(sync(1, 1)).is_none());
    requests.drop_link(LinkId(1));
    requests.drop_link(LinkId(7));
    assert_eq!(requests.bytes, MIB);
    assert_eq!(requests.end().len(), 1);
    assert!(requests.is_empty() && requests.bytes == 0);
}
