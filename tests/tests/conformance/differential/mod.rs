//! Random requests go to Zoarium and to Apache ZooKeeper simultaneously. Each answer, each zxid,
//! each watch event and its position among the answers must be equal. Times and session ids differ,
//! and lists that Java keeps in hash order are sorted.
//!
//! `ZOARIUM_DIFFERENTIAL_SEEDS=1000-1020` selects other seeds.

mod answers;
mod pair;
mod requests;

use std::env;
use std::ops::RangeInclusive;

use tests::{Flavour, Missing, Server, ServerBuilder, or_skip};

use pair::{Pair, Servers};
use requests::Requests;

const SEEDS: RangeInclusive<u64> = 1..=2;
/// Number of requests per seed.
const STEPS: usize = 2500;
/// Number of concurrent sessions, each on both servers.
const SESSIONS: usize = 3;

/// Starts a server on which nothing happens by itself during a seed.
fn server(flavour: Flavour) -> Result<Server, Missing> {
    ServerBuilder::new(flavour)
        .setting("tickTime", "2000")
        .setting("maxSessionTimeout", "600000")
        .setting("enforceQuota", "true")
        .setting("reconfigEnabled", "true")
        .property("znode.container.checkIntervalMs", "10000000")
        .start()
}

fn both() -> Result<[Server; 2], Missing> {
    Ok([server(Flavour::Apache)?, server(Flavour::under_test())?])
}

fn seeds() -> RangeInclusive<u64> {
    let Ok(text) = env::var("ZOARIUM_DIFFERENTIAL_SEEDS") else {
        return SEEDS;
    };
    let number = |text: &str| text.parse().expect("ZOARIUM_DIFFERENTIAL_SEEDS: a number");
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    number(first)..=number(last)
}

#[test]
#[ignore = "runs other people's programs"]
fn every_answer_equals_apache_zookeepers() {
    for seed in seeds() {
        let Some(servers) = or_skip("a comparison with Apache ZooKeeper", both()) else {
            return;
        };
        compare(Servers::new(servers), seed);
        println!("seed {seed}: {STEPS} requests with the same answers");
    }
}

fn compare(mut servers: Servers, seed: u64) {
    let mut requests = Requests::new(seed);
    let mut pairs: Vec<Pair> = (0..SESSIONS).map(|_| servers.open()).collect();
    for number in 0..STEPS {
        let at = requests.below(SESSIONS);
        let step = requests.next();
        let what = || format!("seed {seed}, step {number}, session {at}: {step:?}");
        if !pairs[at].take(&step, &servers, &what) {
            pairs[at] = servers.open();
        }
        // Effects on the other sessions, and the current state.
        for pair in &mut pairs {
            pair.compare_state(&step, &servers, &what);
        }
    }
}
