//! Functions that wait for the session, and that repeat calls after a lost connection.

use proto::OpCode;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::state::State;

impl Client {
    /// Repeats `call` after each lost connection until a server has answered. With
    /// [`Options::with_renewal`](crate::Options::with_renewal), also repeats it in the next
    /// session. Waits until the client is connected before each repetition.
    ///
    /// A server may already have executed a call whose answer was lost. Therefore use this method
    /// only for calls that may be executed twice, such as reads and
    /// [`delete_all`](Self::delete_all).
    ///
    /// ```no_run
    /// # async fn example(client: &zoarium_client::Client) -> zoarium_client::Result<()> {
    /// let (data, _stat) = client.retry(|| client.get_data("/config")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the last call, unless another call may succeed. The reason for the end if the
    /// session ends first.
    pub async fn retry<T, F>(&self, call: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        loop {
            match call().await {
                Err(error) if self.may_succeed_later(&error) => {
                    let is_connected = |state: &State| state.connected_session().is_some();
                    self.wait_for_state(is_connected).await?;
                }
                other => return other,
            }
        }
    }

    fn may_succeed_later(&self, error: &Error) -> bool {
        error.is_connection_loss()
            || self.is_renewed() && matches!(error, Error::SessionExpired { .. })
    }

    /// Waits until `is_wanted` returns true for the state of the session, and returns this state.
    /// The current state counts, too. A state that lasts only for a moment may be missed.
    ///
    /// The future may be dropped, and the call repeated.
    ///
    /// ```no_run
    /// # async fn example(client: &zoarium_client::Client) -> zoarium_client::Result<()> {
    /// client.wait_for_state(|state| state.connected_session().is_some()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the session has ended in another state: [`Error::SessionExpired`] (without renewal),
    /// [`Error::Login`] or [`Error::Closed`].
    pub async fn wait_for_state(&self, mut is_wanted: impl FnMut(&State) -> bool) -> Result<State> {
        let mut state = self.state();
        loop {
            let now = state.borrow_and_update().clone();
            if is_wanted(&now) {
                return Ok(now);
            }
            let is_renewed = self.is_renewed() && now == State::Expired;
            if now.is_end() && !is_renewed || state.changed().await.is_err() {
                return Err(now.refusal(OpCode::Ping, self.session_id()));
            }
        }
    }
}
