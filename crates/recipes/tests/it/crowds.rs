//! Cost of a change of leader with many candidates.

use client::{Client, WatchEvent};
use tests::Server;
use tokio::sync::broadcast::Receiver;
use zoarium_recipes::{LeaderLatch, UnfairElection};

use std::fmt::Write as _;
use std::path::Path;

use crate::support::{connect, server, soon, until, until_children, until_watches};

/// Numbers of candidates.
const CROWDS: [usize; 2] = [10, 100];

/// Sessions of the candidates, and the events of their watches.
struct Crowd {
    clients: Vec<Client>,
    events: Vec<Receiver<WatchEvent>>,
}

impl Crowd {
    async fn gather(server: &Server, count: usize) -> Self {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(connect(&server.address()).await);
        }
        let events = clients.iter().map(Client::events).collect();
        Self { clients, events }
    }

    /// Returns the number of notifications since the last call.
    fn told(&mut self) -> usize {
        let count = |events: &mut Receiver<WatchEvent>| {
            let mut told = 0;
            while events.try_recv().is_ok() {
                told += 1;
            }
            told
        };
        self.events.iter_mut().map(count).sum()
    }

    /// Ends one session. Its own notifications are not counted.
    async fn lose(&mut self, number: usize) {
        drop(self.events.remove(number));
        end(&self.clients.remove(number)).await;
    }

    async fn part(self) {
        for client in self.clients {
            end(&client).await;
        }
    }
}

/// Ends a session. The answer may be lost, because dropped recipes delete their znodes
/// concurrently.
async fn end(client: &Client) {
    soon("the end of a session", async {
        while client.close().await.is_err() && !client.state().borrow().is_end() {}
    })
    .await;
}

/// Returns the number of notifications when the leader of a fair election dies.
async fn fair(server: &Server, count: usize) -> usize {
    let mut crowd = Crowd::gather(server, count).await;
    let mut latches = Vec::new();
    for (number, client) in crowd.clients.iter().enumerate() {
        let path = format!("/fair-{count}");
        latches.push(LeaderLatch::start(client, &path, "").unwrap());
        until_children(client, &path, number + 1).await;
    }
    // Each candidate has a watch on its predecessor, and the leader has a watch on its own znode.
    until_watches(server, count).await;
    assert_eq!(crowd.told(), 0);
    crowd.lose(0).await;
    latches[1].leads().await.unwrap();
    until_watches(server, count - 1).await;
    let told = crowd.told();
    drop(latches);
    crowd.part().await;
    until_watches(server, 0).await;
    told
}

/// Returns the number of notifications when the leader of an unfair election dies.
async fn unfair(server: &Server, count: usize) -> usize {
    let mut crowd = Crowd::gather(server, count).await;
    let path = format!("/unfair-{count}");
    let start = |client| UnfairElection::start(client, &path, "").unwrap();
    let elections: Vec<_> = crowd.clients.iter().map(start).collect();
    until_watches(server, count).await;
    let leads = |election: &UnfairElection| election.leadership().is_some();
    until("a leader", async || elections.iter().any(leads)).await;
    let leader = elections.iter().position(leads).unwrap();
    assert_eq!(crowd.told(), 0);
    crowd.lose(leader).await;
    let others = || elections.iter().enumerate().filter(|(at, _)| *at != leader);
    until("another", async || others().any(|(_, one)| leads(one))).await;
    until_watches(server, count - 1).await;
    let told = crowd.told();
    drop(elections);
    crowd.part().await;
    until_watches(server, 0).await;
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_notifies_one_in_a_fair_election_and_all_in_an_unfair_one() {
    let server = server();
    for count in CROWDS {
        assert_eq!(fair(&server, count).await, 1, "of {count}");
        assert_eq!(unfair(&server, count).await, count - 1, "of {count}");
    }
}

/// Numbers of candidates in the figure of docs/lab/recipes.md.
const MEASURED: [usize; 5] = [10, 30, 100, 300, 1000];
const FIGURE: &str = "../../docs/figures/change_of_leader.svg";
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 60.0;
/// Number of powers of ten on each axis.
const DECADES: f64 = 3.0;

#[tokio::test(flavor = "multi_thread")]
async fn measure_a_change_among_1000() {
    // Writes the figure of docs/lab/recipes.md in about 15 s: ZOARIUM_BY_HAND=1 cargo test -p zoarium-recipes --test it
    // measure_a_change
    if std::env::var_os("ZOARIUM_BY_HAND").is_none() {
        return;
    }
    let server = server();
    let (mut fairly, mut unfairly) = (Vec::new(), Vec::new());
    for count in MEASURED {
        fairly.push((count, fair(&server, count).await));
        unfairly.push((count, unfair(&server, count).await));
        println!("{count} {:?} {:?}", fairly.last(), unfairly.last());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIGURE);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, figure(&fairly, &unfairly)).unwrap();
    assert!(fairly.iter().all(|(_, told)| *told == 1), "{fairly:?}");
}

/// Returns the position of a value on a logarithmic axis.
fn along(value: usize, length: f64) -> f64 {
    let value = f64::from(u32::try_from(value).unwrap());
    value.log10() / DECADES * length
}

fn figure(fairly: &[(usize, usize)], unfairly: &[(usize, usize)]) -> String {
    let (width, height) = (WIDTH - 2.0 * MARGIN, HEIGHT - 2.0 * MARGIN);
    let x = |value| MARGIN + along(value, width);
    let y = |value| HEIGHT - MARGIN - along(value, height);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for value in [1, 10, 100, 1000] {
        let (left, right, top, bottom) = (x(1), x(1000), y(1000), y(1));
        let (x, y) = (x(value), y(value));
        writeln!(
            svg,
            "<path d=\"M{x:.1} {top:.1}V{bottom:.1}M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value}</text>\n\
             <text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{value}</text>",
            bottom + 20.0,
            left - 8.0,
        )
        .unwrap();
    }
    for (points, colour, name) in [
        (fairly, "#06c", "fair (LeaderLatch)"),
        (unfairly, "#c30", "unfair (UnfairElection)"),
    ] {
        let place = |&(count, told): &(usize, usize)| format!("{:.1},{:.1}", x(count), y(told));
        let line: Vec<_> = points.iter().map(place).collect();
        let &(count, told) = points.last().unwrap();
        writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{colour}\">{name}: {told}</text>",
            line.join(" "),
            x(count),
            y(told) - 8.0,
        )
        .unwrap();
    }
    writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">candidates</text>\n\
         <text x=\"{MARGIN}\" y=\"30\">notifications when the leader dies</text>\n</svg>",
        WIDTH / 2.0,
        HEIGHT - 15.0,
    )
    .unwrap();
    svg
}
