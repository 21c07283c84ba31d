use std::net::Ipv4Addr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use config::BudgetClients;
use tree::auth::ANYONE;

use super::*;

const REQUESTS: u32 = 10;

fn budget(name: &str, who: BudgetClients) -> Budget {
    Budget {
        requests_per_second: Some(REQUESTS),
        bytes_per_second: Some(1000),
        ..Budget::unlimited(name, who)
    }
}

fn user(user: &str) -> BudgetClients {
    BudgetClients::User {
        scheme: "sasl".to_owned(),
        user: user.to_owned(),
    }
}

fn id(scheme: &str, id: &str) -> Id {
    Id {
        scheme: scheme.into(),
        id: id.into(),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn requests(requests: usize) -> Cost {
    Cost {
        requests,
        ..Cost::default()
    }
}

/// Returns the holders of the shares, with the names of their budgets.
fn found(budgets: &Budgets, address: &str, identities: &[Id]) -> Vec<String> {
    let shares = budgets.find(ip(address), identities, 0);
    let shares = shares.iter();
    shares
        .map(|share| format!("{} {}", share.name(), share.key()))
        .collect()
}

#[test]
fn without_budgets_there_are_no_shares() {
    assert!(Budgets::new(&[]).is_none());
}

#[test]
fn each_address_and_each_identity_has_a_share_of_its_own() {
    let scheme = "digest".to_owned();
    let budgets = Budgets::new(&[
        budget("all", BudgetClients::AnyAddress),
        budget("anyone", BudgetClients::Anyone),
        budget("digest", BudgetClients::AnyUser { scheme }),
        budget("alice", user("alice")),
    ]);
    let budgets = budgets.unwrap();
    let here = id("ip", "192.0.2.1");
    assert_eq!(
        found(&budgets, "192.0.2.1", std::slice::from_ref(&here)),
        ["all ip:192.0.2.1", "anyone anyone"]
    );
    let ids = [
        here,
        id("digest", "bob:aGFzaA=="),
        id("digest", "ann:aGFzaA=="),
        id("digest", "ann:bGFzaA=="),
        id("sasl", "alice"),
    ];
    assert_eq!(
        found(&budgets, "192.0.2.1", &ids),
        [
            "all ip:192.0.2.1",
            "digest digest:ann",
            "digest digest:bob",
            "alice sasl:alice"
        ]
    );
    // The network of an IPv6 address represents the address.
    assert_eq!(
        found(&budgets, "2001:db8::1:2", &[id("sasl", "carol")]),
        ["all ip:2001:db8::"]
    );
    let share = |address| budgets.find(ip(address), &[id("sasl", "carol")], 0);
    assert!(Arc::ptr_eq(&share("192.0.2.1")[0], &share("192.0.2.1")[0]));
    assert!(!Arc::ptr_eq(&share("192.0.2.1")[0], &share("192.0.2.2")[0]));
}

#[test]
fn the_identities_of_a_connection_cannot_hide_one_of_them() {
    let budgets = Budgets::new(&[budget("alice", user("alice"))]).unwrap();
    let made_up = (0..100).map(|number| id("digest", &format!("{number}:x")));
    let ids: Vec<Id> = made_up.chain([id("sasl", "alice")]).collect();
    assert_eq!(found(&budgets, "192.0.2.1", &ids), ["alice sasl:alice"]);
}

#[test]
fn an_exhausted_share_delays_all_its_connections() {
    let budgets = Budgets::new(&[budget("all", BudgetClients::AnyAddress)]).unwrap();
    let share = budgets.find(ip("192.0.2.1"), &[], 0)[0].clone();
    let other = budgets.find(ip("192.0.2.2"), &[], 0)[0].clone();
    assert!(share.pay_now(requests(10), 0) && share.pay_now(requests(1), 0));
    assert!(!share.pay_now(requests(1), 99));
    assert!(other.pay_now(requests(1), 99));
    assert!(share.pay_now(requests(1), 100));
    // Bytes have a separate bound, and both bounds apply.
    let long = Cost {
        bytes: 2000,
        ..Cost::default()
    };
    assert!(other.pay_now(long, 5000) && !other.pay_now(requests(1), 5999));
    assert!(other.pay_now(requests(1), 6000));
    // A turn may use a tenth of the budget of a second.
    let part = share.cost_max();
    assert_eq!((part.requests, part.bytes), (1, 100));
    let small = Share::new(
        Arc::new(Budget {
            requests_per_second: Some(1),
            bytes_per_second: None,
            ..budget("small", BudgetClients::Anyone)
        }),
        ShareKey::Identity(ANYONE.to_owned()),
        0,
    );
    assert_eq!(
        (small.cost_max().requests, small.cost_max().bytes),
        (1, usize::MAX)
    );
}

#[test]
fn waiting_connections_take_turns() {
    let budgets = Budgets::new(&[budget("all", BudgetClients::AnyAddress)]).unwrap();
    let share = budgets.find(ip("192.0.2.1"), &[], 0)[0].clone();
    assert!(share.pay_now(requests(30), 0));
    let Poll::Ready(first) = poll(pin!(share.turn())) else {
        panic!("nobody waits")
    };
    assert_eq!(
        first.pay(requests(1), 0),
        2000,
        "two seconds' worth is owed"
    );
    // A later connection does not overtake a waiting one, even after the debt is paid.
    assert!(!share.pay_now(requests(1), 60_000));
    let mut second = pin!(share.turn());
    assert!(poll(second.as_mut()).is_pending());
    assert_eq!(first.pay(requests(1), 2000), 0);
    drop(first);
    assert!(
        !share.pay_now(requests(1), 60_000),
        "the next one has the turn"
    );
    let Poll::Ready(second) = poll(second) else {
        panic!("it is its turn")
    };
    drop(second);
    assert!(share.pay_now(requests(1), 60_000));
    // A connection that stops waiting does not block the others.
    assert!(share.pay_now(requests(100_000), 60_000));
    {
        let Poll::Ready(turn) = poll(pin!(share.turn())) else {
            panic!("nobody waits")
        };
        let mut waiting = pin!(share.turn());
        assert!(poll(waiting.as_mut()).is_pending());
        assert_ne!(turn.pay(requests(1), 60_000), 0);
    }
    assert!(share.pay_now(requests(1), 100_000_000));
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn each_share_logs_once_per_minute_up_to_a_limit() {
    let budgets = Budgets::new(&[budget("all", BudgetClients::AnyAddress)]).unwrap();
    let share = budgets.find(ip("192.0.2.1"), &[], 0)[0].clone();
    assert_eq!(share.is_due(0), None, "nothing is owed");
    share.pay_now(requests(1000), 0);
    assert_eq!(share.is_due(10), Some(("requestsPerSecond", REQUESTS)));
    assert_eq!(share.is_due(60_009), None);
    assert_eq!(share.is_due(60_010), Some(("requestsPerSecond", REQUESTS)));
    let long = Cost {
        bytes: 1_000_000,
        ..Cost::default()
    };
    let other = budgets.find(ip("192.0.2.2"), &[], 0)[0].clone();
    other.pay_now(long, 0);
    assert_eq!(other.is_due(1), Some(("bytesPerSecond", 1000)));
}

#[test]
fn unused_shares_are_removed_when_there_are_many() {
    let budgets = Budgets::new(&[budget("all", BudgetClients::AnyAddress)]).unwrap();
    let address = |number: usize| IpAddr::from(Ipv4Addr::from(u32::try_from(number).unwrap()));
    let held = budgets.find(address(0), &[], 0);
    let owing = budgets.find(address(1), &[], 0)[0].clone();
    owing.pay_now(requests(1_000_000), 0);
    drop(owing);
    let len = || budgets.shares.lock().by_key.len();
    for number in 2..3 * limits::BUDGET_SHARES_KEPT {
        budgets.find(address(number), &[], 1);
        assert!(len() <= limits::BUDGET_SHARES_KEPT, "{}", len());
    }
    let again = budgets.find(address(0), &[], 1);
    assert!(Arc::ptr_eq(&held[0], &again[0]));
    let owing = budgets.find(address(1), &[], 1);
    assert!(!owing[0].pay_now(requests(1), 1), "its debt is forgotten");
}
