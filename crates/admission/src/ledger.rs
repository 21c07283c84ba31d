//! All bounds of a server.

use std::sync::Arc;

use config::Config;
use parking_lot::Mutex;

use crate::budgets::Budgets;
use crate::connections::ConnectionCounts;
use crate::failures::AuthFailures;
use crate::handshakes::TokenBucket;
use crate::held::HeldBytes;
use crate::large::LargeRequests;
use crate::limits;
use crate::permits::Permits;
use crate::room::SharedRoom;
use crate::throttle::RequestThrottle;

/// The resources that the clients of a server use, and the bounds on them.
pub struct Ledger {
    /// Open connections.
    pub connections: ConnectionCounts,
    /// Handshakes per time.
    pub handshakes: Mutex<TokenBucket>,
    /// Failed logins.
    pub failures: AuthFailures,
    /// Requests in the pipeline.
    pub permits: Permits,
    /// Requests that wait for a permit.
    pub request_throttle: RequestThrottle,
    /// Bytes of requests in the pipeline.
    pub large_requests: LargeRequests,
    /// Memory for requests that are read and not yet submitted.
    pub large_frames: SharedRoom,
    /// Memory for replies that are encoded and not yet written.
    pub large_replies: SharedRoom,
    /// Other bytes held by connections.
    pub held: Arc<HeldBytes>,
    /// `None` if budgets are not configured.
    pub budgets: Option<Budgets>,
}

impl Ledger {
    /// Creates an empty ledger with the bounds of this configuration. `outstanding_max` is the
    /// number of requests in the pipeline.
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
            large_frames: SharedRoom::new(limits::LARGE_FRAMES_BYTES),
            large_replies: SharedRoom::new(limits::LARGE_REPLIES_BYTES),
            held: Arc::default(),
            budgets: Budgets::new(&bounds.budgets),
        }
    }

    /// Returns whether a budget bounds watches or ephemerals.
    pub fn bounds_holding(&self) -> bool {
        self.budgets.as_ref().is_some_and(Budgets::bounds_holding)
    }
}
