//! Input and output of the programs that `tests/performance_recipes.py` compares with others.

use std::io::{BufRead, Write};
use std::time::Duration;

use client::{Client, Options};

/// Session timeout. The other programs use the same value.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Answers each line on standard input with a line on standard output. `answer` receives the
/// server, which is the argument of the program, and the words of the line.
pub(crate) async fn answer_lines(
    answer: impl AsyncFn(&str, &[&str]) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let servers = std::env::args().nth(1).ok_or("HOST:PORT is missing")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        println!("{}", answer(&servers, &words).await?);
        std::io::stdout().flush()?;
    }
    Ok(())
}

pub(crate) async fn connect(servers: &str) -> Result<Client, Failure> {
    let options = Options::new(servers)
        .with_session_timeout(SESSION_TIMEOUT)
        .with_renewal();
    Ok(Client::connect(options).await?)
}
