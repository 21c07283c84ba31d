//! The messages of a scenario to the test that runs it, and its checks.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::io::Write;
use std::time::Duration;

/// Time limit for each expected event.
const PATIENCE: Duration = Duration::from_secs(30);

/// A value, or the reason for a failed expectation.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Prints a line for the test.
pub fn say(line: &str) {
    println!("{line}");
    std::io::stdout()
        .flush()
        .expect("the test reads what is said");
}

/// Sends a request to the test and waits until it is executed. The client's tasks continue
/// meanwhile.
pub async fn ask(request: &str) -> Outcome<()> {
    say(&format!("ask {request}"));
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    expect("answer", answer.await??.trim(), "done")
}

/// Waits for an expected event.
pub async fn patient<T>(what: &str, happening: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(PATIENCE, happening)
        .await
        .map_err(|_| format!("no {what}").into())
}

/// Compares the actual value with the expected one.
pub fn expect<T: PartialEq<U> + Debug, U: Debug>(what: &str, got: T, wanted: U) -> Outcome<()> {
    if got == wanted {
        Ok(())
    } else {
        Err(format!("{what}: {got:?} instead of {wanted:?}").into())
    }
}

/// Checks that a call fails with the given error.
pub fn expect_error<T: Debug, E: PartialEq + Debug>(got: Result<T, E>, wanted: E) -> Outcome<()> {
    match got {
        Err(error) if error == wanted => Ok(()),
        other => Err(format!("{other:?} instead of {wanted:?}").into()),
    }
}
