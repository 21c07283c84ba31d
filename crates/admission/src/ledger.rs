//! All limits of a server.

use std::sync::Arc;

use config::Config;
use executor::sync::Mutex;

use crate::budgets::Budgets;
use crate::buffered::BufferedBytes;
use crate::connections::ConnectionCounts;
use crate::failures::AuthFailures;
use crate::handshakes::TokenBucket;
use crate::large::LargeRequests;
use crate::limits;
use crate::memory::MemoryBudget;
use crate::permits::Permits;
use crate::throttle::RequestThrottle;

/// Resources that the clients of a server use, and the limits on them.
pub struct Ledger {
    /// Limits on open connections.
    pub connections: ConnectionCounts,
    /// Limit on the rate of handshakes.
    pub handshakes: Mutex<TokenBucket>,
    /// Numbers of failed logins.
    pub failures: AuthFailures,
    /// Permits for requests in the pipeline.
    pub permits: Permits,
    /// Throttle for requests that wait for a permit.
    pub request_throttle: RequestThrottle,
    /// Limits on the bytes of requests in the pipeline.
    pub large_requests: LargeRequests,
    /// Memory for large requests that have not been submitted yet.
    pub large_frames: MemoryBudget,
    /// Memory for large replies that have not been written yet.
    pub large_replies: MemoryBudget,
    /// Other bytes that connections hold.
    pub buffered: Arc<BufferedBytes>,
    /// Budgets of addresses and identities. `None` if none are configured.
    pub budgets: Option<Budgets>,
}

impl Ledger {
    /// Creates an empty ledger with the limits of this configuration. `outstanding_max` is the
    /// maximum number of requests in the pipeline.
    pub fn new(config: &Config, outstanding_max: usize, now_ms: u64) -> Self {
        let bounds = &config.limits;
        let handshakes = TokenBucket::new(bounds.connection_throttle.clone(), now_ms);
        Self {
            connections: ConnectionCounts::default(),
            handshakes: Mutex::new(handshakes),
            failures: AuthFailures::new(config.auth.failures_per_minute_max),
            permits: Permits::new(outstanding_max),
            request_throttle: RequestThrottle::new(&bounds.request_throttle),
            large_requests: LargeRequests::new(&bounds.large_requests),
            large_frames: MemoryBudget::new(limits::LARGE_FRAMES_BYTES),
            large_replies: MemoryBudget::new(limits::LARGE_REPLIES_BYTES),
            buffered: Arc::default(),
            budgets: Budgets::new(&bounds.budgets),
        }
    }

    /// Returns whether a budget bounds watches or ephemerals.
    pub fn bounds_resources(&self) -> bool {
        self.budgets.as_ref().is_some_and(Budgets::bounds_resources)
    }
}
