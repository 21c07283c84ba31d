//! Connections that use the limits of a server at the same time, under random schedules.

#![allow(
    clippy::unwrap_used,
    reason = "a thread of a model that panics fails the check"
)]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use config::{Budget, BudgetClients};
use executor::sync;
use proto::SessionId;
use replica::connection::ResourceCounts;
use testkit::interleavings::{check, check_fails, future, thread};
use tree::WatcherId;
use zoarium_admission::{
    Budgets, ConnectionBudgets, ConnectionCounts, ConnectionLimits, LargeRequests, MemoryBudget,
    RequestThrottle, Share,
};

const THREADS: usize = 3;
const ROUNDS: usize = 2;

/// Runs a closure on each of the threads of a model, and waits for all of them.
fn run(thread: impl Fn(usize) + Send + Sync + 'static) {
    let thread = Arc::new(thread);
    let running = (0..THREADS).map(|number| {
        let thread = thread.clone();
        thread::spawn(move || thread(number))
    });
    let running: Vec<_> = running.collect();
    running.into_iter().for_each(|one| one.join().unwrap());
}

/// A number that the model knows, which must never exceed a maximum.
#[derive(Default)]
struct Held(AtomicUsize);

impl Held {
    fn add(&self, count: usize, max: usize) {
        let held = self.0.fetch_add(count, Ordering::SeqCst) + count;
        assert!(held <= max, "{held} of {max}");
    }

    fn remove(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::SeqCst);
    }
}

fn address(number: usize) -> IpAddr {
    ["192.0.2.1", "192.0.2.2"][number % 2].parse().unwrap()
}

#[test]
fn shuttle_finds_no_connection_above_a_limit() {
    const LIMITS: ConnectionLimits = ConnectionLimits {
        per_address: Some(1),
        total: Some(2),
    };
    check(|| {
        let counts = Arc::new(ConnectionCounts::default());
        let open = Arc::new(Mutex::new((
            HashMap::<IpAddr, usize>::new(),
            BTreeSet::new(),
        )));
        let entered = counts.clone();
        run(move |number| {
            let address = address(number);
            for _ in 0..ROUNDS {
                let Ok(id) = entered.enter(address, LIMITS) else {
                    continue;
                };
                {
                    let (by_address, ids) = &mut *open.lock().unwrap();
                    *by_address.entry(address).or_default() += 1;
                    assert!(by_address[&address] <= 1 && by_address.values().sum::<usize>() <= 2);
                    assert!(ids.insert(id.0), "{id:?} is used twice");
                }
                thread::yield_now();
                *open.lock().unwrap().0.get_mut(&address).unwrap() -= 1;
                entered.leave(address);
            }
        });
        // Ended connections do not count.
        assert!(counts.enter(address(0), LIMITS).is_ok());
        assert!(counts.enter(address(1), LIMITS).is_ok());
    });
}

#[test]
fn shuttle_finds_no_large_request_above_the_limit() {
    const BYTES: usize = 60;
    const BYTES_MAX: usize = 2 * BYTES;
    check(|| {
        let requests = LargeRequests::new(&config::LargeRequests {
            threshold_bytes: Some(10),
            max_bytes: u32::try_from(BYTES_MAX).unwrap(),
        });
        let (admitting, held) = (requests.clone(), Held::default());
        run(move |number| {
            for _ in 0..ROUNDS {
                let reserved = admitting.room.take_now(number);
                let Ok(admitted) = admitting.admit(BYTES, reserved) else {
                    continue;
                };
                held.add(BYTES, BYTES_MAX);
                thread::yield_now();
                held.remove(BYTES);
                if number % 2 == 0 {
                    drop(admitted);
                } else {
                    // The core releases the bytes of several requests together.
                    admitting.release(admitted.unwrap().into_bytes());
                }
            }
        });
        let all = [(); 2].map(|()| requests.admit(BYTES, None).unwrap());
        assert!(requests.admit(BYTES, None).is_err());
        drop(all);
        let budget = MemoryBudget::new(zoarium_admission::limits::LARGE_REQUESTS_BYTES);
        assert_eq!(requests.room.free(), budget.free());
    });
}

#[test]
fn shuttle_finds_no_stop_that_waits_forever_for_requests() {
    check(|| {
        let throttle = Arc::new(RequestThrottle::new(&config::RequestThrottle {
            max_requests: Some(1),
            stall_time_ms: 100,
            drop_stale: true,
            stale_connection_check: true,
            stale_latency_check: false,
            throttled_op_wait_time_ms: None,
            shutdown_timeout_ms: 10_000,
        }));
        run(move |number| {
            if number == 0 {
                throttle.begin_stop();
                future::block_on(throttle.drained());
                return;
            }
            for _ in 0..ROUNDS {
                if throttle.is_stopping() {
                    return;
                }
                let _waiting = throttle.wait();
                assert!((1..THREADS).contains(&throttle.waiting()));
            }
        });
    });
}

#[test]
fn shuttle_finds_no_watch_above_a_budget() {
    const WATCHES_MAX: usize = 3;
    let bounded = Budget {
        watches: u32::try_from(WATCHES_MAX).ok(),
        ..Budget::unlimited("all", BudgetClients::Anyone)
    };
    check(move || {
        let budgets = Arc::new(Budgets::new(std::slice::from_ref(&bounded)).unwrap());
        let (found, held) = (budgets.clone(), Held::default());
        let watches = |watches| ResourceCounts {
            watches,
            ..ResourceCounts::default()
        };
        run(move |number| {
            let identities = Arc::from([]);
            let shares = found.find(address(number), &[], 0);
            let id = WatcherId(number as u64);
            let connection = ConnectionBudgets::begin(id, identities, shares);
            let mut watched = 0;
            for _ in 0..ROUNDS {
                let permitted = connection.permits_resources(watches(watched), watches(1));
                if permitted.is_ok() {
                    held.add(1, WATCHES_MAX);
                    watched += 1;
                }
            }
            thread::yield_now();
            held.remove(watched);
            connection.leave();
        });
        // Connections that have ended hold nothing.
        let shares = budgets.find(address(0), &[], 0);
        let connection = ConnectionBudgets::begin(WatcherId(9), Arc::from([]), shares);
        let all = connection.permits_resources(watches(0), watches(WATCHES_MAX));
        assert!(all.is_ok());
    });
}

/// A budget for all clients, a share of it, and a connection with that share.
fn share_and_connection(budget: &Budget) -> (Arc<Budgets>, Arc<Share>) {
    let budgets = Budgets::new(std::slice::from_ref(budget)).unwrap();
    let share = budgets.find(address(0), &[], 0)[0].clone();
    (Arc::new(budgets), share)
}

fn connect(budgets: &Budgets, number: u64) -> ConnectionBudgets {
    let shares = budgets.find(address(0), &[], 0);
    ConnectionBudgets::begin(WatcherId(number), Arc::from([]), shares)
}

fn ephemerals(ephemerals: usize) -> ResourceCounts {
    ResourceCounts {
        ephemerals,
        ..ResourceCounts::default()
    }
}

/// A connection of the model and the ephemerals of its session. The lock is the connection's.
struct Client {
    connection: ConnectionBudgets,
    is_connected: bool,
    held: usize,
}

impl Client {
    fn new(budgets: &Budgets, number: u64) -> SharedClient {
        Arc::new(sync::Mutex::new(Self {
            connection: connect(budgets, number),
            is_connected: true,
            held: 0,
        }))
    }

    /// Creates an ephemeral znode if the budget permits it.
    fn create(&mut self) -> bool {
        let (held, more) = (ephemerals(self.held), ephemerals(1));
        let is_permitted = self.connection.permits_resources(held, more).is_ok();
        self.held += usize::from(is_permitted);
        is_permitted
    }
}

type SharedClient = Arc<sync::Mutex<Client>>;

/// Time from which a count is due.
const COUNT_MS: u64 = 1000;

const SESSION: SessionId = SessionId(7);

/// Counts the ephemerals of a client, whose connection has the number 1, and of its session.
/// `keeps_lock` states whether the connection stays locked until the share knows the result.
fn count(share: &Share, client: &SharedClient, now_ms: u64, keeps_lock: bool) {
    let Some(ids) = share.connections_to_count(now_ms) else {
        return;
    };
    let mut connected = HashSet::new();
    if ids.contains(&WatcherId(1)) {
        let mut locked = Some(client.lock());
        let found = locked.as_ref().filter(|client| client.is_connected);
        let found = found.map(|client| ephemerals(client.held));
        if !keeps_lock {
            locked = None;
        }
        connected.extend(found.map(|_| SESSION));
        share.note_resources(WatcherId(1), found);
        drop(locked);
    }
    let disconnected = share.disconnected(&connected, now_ms).into_iter();
    let left = disconnected.map(|session| {
        assert_eq!(session, SESSION);
        client.lock().held
    });
    share.note_disconnected(left.sum());
}

/// A client reconnects while the ephemerals of its session are counted. The new connection must not
/// create more of them.
fn reconnect(budget: &Budget) {
    let (budgets, share) = share_and_connection(budget);
    let client = Client::new(&budgets, 1);
    while client.lock().create() {}
    let ending = {
        let client = client.clone();
        thread::spawn(move || {
            let mut client = client.lock();
            client.connection.end(SESSION, 10 * COUNT_MS);
            client.is_connected = false;
        })
    };
    let counting = {
        let (client, share) = (client.clone(), share.clone());
        thread::spawn(move || count(&share, &client, COUNT_MS, true))
    };
    let again = Client::new(&budgets, 2);
    assert!(!again.lock().create());
    ending.join().unwrap();
    counting.join().unwrap();
    assert!(!again.lock().create());
    count(&share, &client, 2 * COUNT_MS, true);
    assert!(!again.lock().create());
}

/// Two connections create ephemerals while one of them is counted.
fn creation_during_count(budget: &Budget, keeps_lock: bool) {
    let (budgets, share) = share_and_connection(budget);
    let clients = [1, 2].map(|number| Client::new(&budgets, number));
    let creating = clients.clone().map(|client| {
        thread::spawn(move || {
            for _ in 0..ROUNDS {
                client.lock().create();
            }
        })
    });
    count(&share, &clients[0], COUNT_MS, keeps_lock);
    creating.into_iter().for_each(|one| one.join().unwrap());
    let held: usize = clients.iter().map(|client| client.lock().held).sum();
    assert!(held <= EPHEMERALS_MAX, "{held} ephemerals");
}

const EPHEMERALS_MAX: usize = 2;

fn bounded_ephemerals() -> Budget {
    Budget {
        ephemerals: u32::try_from(EPHEMERALS_MAX).ok(),
        ..Budget::unlimited("all", BudgetClients::Anyone)
    }
}

#[test]
fn shuttle_finds_no_ephemeral_above_a_budget() {
    let budget = bounded_ephemerals();
    let again = budget.clone();
    check(move || reconnect(&budget));
    check(move || creation_during_count(&again, true));
}

#[test]
fn shuttle_finds_a_count_that_does_not_hold_the_lock() {
    let budget = bounded_ephemerals();
    check_fails("a count without the lock", move || {
        creation_during_count(&budget, false);
    });
}
