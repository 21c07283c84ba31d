//! Measures the time to hand over a lock or a leadership with these recipes.
//! `tests/performance_recipes.py` compares this program with two others.
//!
//! ```text
//! hand_over HOST:PORT
//! ```
//!
//! Each line on standard input requests a measurement. The program answers with a line on standard
//! output:
//!
//! | request | answer |
//! |---|---|
//! | `lock PATH SECONDS SESSIONS` | number of acquisitions of the lock, and the elapsed seconds |
//! | `lock PATH SECONDS SESSIONS drop` | like `lock`, with guards that are dropped instead of released |
//! | `lock PATH SECONDS SESSIONS requeue` | like `lock`, with one transaction for release and new attempt |
//! | `election PATH ROUNDS` | duration of each change of leader, in microseconds |

mod measured;

use std::time::{Duration, Instant};

use zoarium_recipes::{LeaderLatch, Mutex};

use measured::{Failure, answer_lines, connect};

/// Pause between the start of a candidate and the next change of leader. By the end of the pause,
/// the candidate waits for its turn.
const REST: Duration = Duration::from_millis(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    answer_lines(answer).await
}

/// Executes the measurement that the words of a line request.
async fn answer(servers: &str, words: &[&str]) -> Result<String, Failure> {
    match *words {
        ["lock", path, seconds, sessions, ref how @ ..] => {
            let time = Duration::from_secs_f64(seconds.parse()?);
            let how = How::named(how).ok_or_else(|| format!("how is {words:?}?"))?;
            take_turns(servers, path, time, sessions.parse()?, how).await
        }
        ["election", path, rounds] => change_leaders(servers, path, rounds.parse()?).await,
        _ => Err(format!("what is {words:?}?").into()),
    }
}

/// Method of releasing the lock before the next turn.
#[derive(Debug, Clone, Copy)]
enum How {
    /// Releases the lock and waits for the answer from the server.
    Release,
    /// Drops the guard.
    Drop,
    /// Releases the lock and enters the queue again in one transaction.
    Requeue,
}

impl How {
    fn named(words: &[&str]) -> Option<Self> {
        match words {
            [] => Some(Self::Release),
            ["drop"] => Some(Self::Drop),
            ["requeue"] => Some(Self::Requeue),
            _ => None,
        }
    }
}

/// Makes each session acquire and release the lock repeatedly.
async fn take_turns(
    servers: &str,
    path: &str,
    time: Duration,
    sessions: usize,
    how: How,
) -> Result<String, Failure> {
    let mut clients = Vec::new();
    for _ in 0..sessions {
        clients.push(connect(servers).await?);
    }
    let began = Instant::now();
    let mut tasks = Vec::new();
    for client in clients {
        let mutex = Mutex::new(&client, path)?;
        tasks.push(tokio::spawn(async move {
            let mut taken = 0_u64;
            let mut kept = None;
            while began.elapsed() < time {
                let guard = match kept.take() {
                    None => mutex.acquire().await?,
                    Some(guard) => mutex.requeue(guard).await?,
                };
                taken += 1;
                match how {
                    How::Release => drop(guard.release().await?),
                    How::Drop => drop(guard),
                    How::Requeue => kept = Some(guard),
                }
            }
            drop(kept);
            let elapsed = began.elapsed();
            client.close().await?;
            Ok::<_, Failure>((taken, elapsed))
        }));
    }
    let (mut taken, mut elapsed) = (0, Duration::ZERO);
    for task in tasks {
        let (its, end) = task.await??;
        taken += its;
        elapsed = elapsed.max(end);
    }
    Ok(format!("{taken} {}", elapsed.as_secs_f64()))
}

/// Measures changes of leader between two clients. In each round, the other client starts a
/// candidate, and the leader is closed.
async fn change_leaders(servers: &str, path: &str, rounds: usize) -> Result<String, Failure> {
    let clients = [connect(servers).await?, connect(servers).await?];
    let mut leader = LeaderLatch::start(&clients[0], path, "")?;
    leader.leads().await?;
    let mut times = Vec::new();
    for round in 1..=rounds {
        let next = LeaderLatch::start(&clients[round % 2], path, "")?;
        tokio::time::sleep(REST).await;
        let began = Instant::now();
        let closing = tokio::spawn(leader.close());
        next.leads().await?;
        times.push(began.elapsed().as_micros().to_string());
        closing.await?;
        leader = next;
    }
    leader.close().await;
    for client in clients {
        client.close().await?;
    }
    Ok(times.join(" "))
}
