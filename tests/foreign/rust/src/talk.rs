//! What a scenario says to the test that runs it, and its checks.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::io::Write;
use std::time::Duration;

/// How long anything may take that is expected to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A value, or the reason why an expectation did not hold.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Prints a line for the test.
pub fn say(line: &str) {
    println!("{line}");
    std::io::stdout()
        .flush()
        .expect("the test reads what is said");
}

/// Asks the test for something and waits until it is done. The client's own work goes on.
pub async fn ask(request: &str) -> Outcome<()> {
    say(&format!("ask {request}"));
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    expect("answer", answer.await??.trim(), "done")
}

/// Waits for something that is expected to happen.
pub async fn patient<T>(what: &str, happening: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(PATIENCE, happening)
        .await
        .map_err(|_| format!("no {what}").into())
}

/// Compares what was got with what was wanted.
pub fn expect<T: PartialEq<U> + Debug, U: Debug>(what: &str, got: T, wanted: U) -> Outcome<()> {
    if got == wanted {
        Ok(())
    } else {
        Err(format!("{what}: {got:?} instead of {wanted:?}").into())
    }
}

/// Expects a call to fail with the given error.
pub fn expect_error<T: Debug, E: PartialEq + Debug>(got: Result<T, E>, wanted: E) -> Outcome<()> {
    match got {
        Err(error) if error == wanted => Ok(()),
        other => Err(format!("{other:?} instead of {wanted:?}").into()),
    }
}
