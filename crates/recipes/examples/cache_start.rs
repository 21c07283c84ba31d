//! Measures the start of a tree cache with 1,001 and with 100,000 znodes.
//!
//! ```text
//! cargo run --profile dist -p zoarium-recipes --example cache_start -- HOST:PORT
//! ```
//!
//! The machine of the server must be idle. The exit code is 1 if a median misses its goal.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use client::{Client, Create, Options};
use zoarium_recipes::TreeCache;

/// Numbers of znodes, each with its time goal.
const TREES: &[(usize, Duration)] = &[
    (1_001, Duration::from_millis(150)),
    (100_000, Duration::from_secs(3)),
];
/// Number of starts of each cache.
const STARTS: usize = 7;
/// Maximum number of files in each directory. One transaction creates a directory and its files.
const FILES: usize = 999;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let servers = std::env::args().nth(1).ok_or("HOST:PORT is missing")?;
    let client = Client::connect(Options::new(&servers)).await?;
    println!("| znodes | median | longest | goal |\n|--:|--:|--:|--:|");
    let mut code = ExitCode::SUCCESS;
    for &(count, goal) in TREES {
        let path = format!("/cache-start-{count}");
        client.delete_all(&path).await?;
        create(&client, &path, count).await?;
        let mut times = Vec::new();
        for _ in 0..STARTS {
            let began = Instant::now();
            let cache = TreeCache::start(&client, &path)?;
            cache.is_complete().await?;
            times.push(began.elapsed());
            assert_eq!(cache.paths().len(), count);
            cache.close().await;
        }
        client.delete_all(&path).await?;
        times.sort_unstable();
        let (median, longest) = (times[STARTS / 2], times[STARTS - 1]);
        println!("| {count} | {median:.0?} | {longest:.0?} | {goal:.0?} |");
        if median > goal {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Creates this number of znodes: a root, and directories with files.
async fn create(client: &Client, root: &str, count: usize) -> Result<(), Failure> {
    let create = Create::persistent();
    client.create(root, "root", &create).await?;
    let mut left = count - 1;
    for directory in 0.. {
        let size = left.min(FILES + 1);
        if size == 0 {
            return Ok(());
        }
        let directory = format!("{root}/{directory}");
        let mut creation = client.transaction().create(&directory, "", &create);
        for file in 1..size {
            creation = creation.create(&format!("{directory}/{file}"), "data", &create);
        }
        creation.commit().await?;
        left -= size;
    }
    Ok(())
}
