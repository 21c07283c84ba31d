//! Limits on connections and requests.

use super::budgets::{self, Budget};
use crate::error::ConfigError;
use crate::registry::core as keys;
use crate::registry::storage;
use crate::settings::WrittenSettings;

/// Limits on the resources of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Maximum number of connections from one address. Absent if unlimited.
    pub max_client_cnxns: Option<u32>,
    /// Maximum number of connections of all clients. Absent if unlimited.
    pub max_cnxns: Option<u32>,
    /// Number of requests in progress above which the server stops reading from clients that have a
    /// request in progress.
    pub global_outstanding_limit: u32,
    /// Maximum size of a packet from a client, in bytes.
    pub jute_max_buffer: u32,
    /// Number of bytes by which a stored record may exceed `jute_max_buffer` when it is read.
    pub jute_extra_size: u32,
    /// Maximum number of TLS handshakes in progress. Absent if unlimited.
    pub outstanding_handshakes: Option<u32>,
    /// Whether TLS connections are closed while the server does not serve.
    pub early_drop_handshakes: bool,
    /// Throttling of requests before the pipeline.
    pub request_throttle: RequestThrottle,
    /// Limits on large requests.
    pub large_requests: LargeRequests,
    /// Duration from which a request counts as slow, in milliseconds. Absent if never.
    pub slow_request_threshold_ms: Option<u32>,
    /// Whether a crash may write a core dump.
    pub core_dumps: bool,
    /// Throttling of new sessions.
    pub connection_throttle: ConnectionThrottle,
    /// Maximum total length of the paths that one connection may watch, in bytes.
    pub watch_bytes_max: u32,
    /// Limits on addresses and identities.
    pub budgets: Vec<Budget>,
}

/// Throttling of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestThrottle {
    /// Number of requests in the pipeline above which new requests wait. Absent if unlimited.
    pub max_requests: Option<u32>,
    /// Interval at which waiting requests are checked for staleness, in milliseconds.
    pub stall_time_ms: u32,
    /// Whether stale requests are dropped.
    pub drop_stale: bool,
    /// Whether a request is stale after its connection was closed.
    pub stale_connection_check: bool,
    /// Whether a request is stale after it has waited longer than its session's timeout.
    pub stale_latency_check: bool,
    /// Wait after which a request is answered with `ThrottledOp`, in milliseconds. Absent if never.
    pub throttled_op_wait_time_ms: Option<u32>,
    /// Time that a stopping server waits for requests before the pipeline, in milliseconds.
    pub shutdown_timeout_ms: u32,
}

/// Limits on the total memory of large requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeRequests {
    /// Size above which a request is large, in bytes. Absent if the limit is off.
    pub threshold_bytes: Option<u32>,
    /// Maximum number of bytes of large requests in progress.
    pub max_bytes: u32,
}

/// Throttling of new sessions by a token bucket, with a drop probability that grows while the
/// bucket is empty (BLUE).
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionThrottle {
    /// Capacity of the bucket, in tokens. If sessions have weights, the written number is
    /// multiplied by the weight of a global session. Absent if the throttle is off.
    pub tokens: Option<u32>,
    /// Interval between refills, in milliseconds.
    pub fill_time_ms: u32,
    /// Number of tokens that a refill adds, also multiplied by the weight of a global session.
    pub fill_count: u32,
    /// Minimum interval between changes of the probability, in milliseconds. Absent if dropping is
    /// off.
    pub freeze_time_ms: Option<u32>,
    /// Amount by which the probability increases.
    pub drop_increase: f64,
    /// Amount by which the probability decreases.
    pub drop_decrease: f64,
    /// Fraction of missing tokens up to which the probability decreases.
    pub decrease_ratio: f64,
    /// Number of tokens per kind of session. Absent if each session takes one token.
    pub weights: Option<SessionWeights>,
}

/// Number of tokens that each kind of session takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionWeights {
    /// Number of tokens for a new global session.
    pub global: u32,
    /// Number of tokens for a new local session.
    pub local: u32,
    /// Number of tokens for a renewed session.
    pub renew: u32,
}

impl Limits {
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        let jute_max_buffer = settings.int(&keys::JUTE_MAXBUFFER)?;
        let extra_size = settings.positive(&keys::JUTE_MAXBUFFER_EXTRASIZE)?;
        Ok(Self {
            max_client_cnxns: settings.positive(&keys::MAX_CLIENT_CNXNS)?,
            max_cnxns: settings.positive(&keys::MAX_CNXNS)?,
            slow_request_threshold_ms: settings.positive(&keys::SLOW_REQUEST_THRESHOLD)?,
            core_dumps: settings.flag(&keys::CORE_DUMPS)?,
            global_outstanding_limit: settings.int(&keys::GLOBAL_OUTSTANDING_LIMIT)?,
            jute_max_buffer,
            jute_extra_size: extra_size.unwrap_or(jute_max_buffer).max(MIN_EXTRA_SIZE),
            outstanding_handshakes: settings.positive(&storage::OUTSTANDING_HANDSHAKE_LIMIT)?,
            early_drop_handshakes: settings.flag(&storage::EARLY_DROP_HANDSHAKES)?,
            request_throttle: RequestThrottle::read(settings)?,
            large_requests: LargeRequests {
                threshold_bytes: settings.positive(&storage::LARGE_REQUEST_THRESHOLD)?,
                max_bytes: settings.int(&storage::LARGE_REQUEST_MAX_BYTES)?,
            },
            connection_throttle: ConnectionThrottle::read(settings)?,
            watch_bytes_max: settings.int(&storage::MAX_WATCH_BYTES)?,
            budgets: budgets::read(settings)?,
        })
    }
}

impl RequestThrottle {
    fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        Ok(Self {
            max_requests: settings.positive(&storage::REQUEST_THROTTLE_MAX_REQUESTS)?,
            stall_time_ms: settings.int(&storage::REQUEST_THROTTLE_STALL_TIME)?,
            drop_stale: settings.flag(&storage::REQUEST_THROTTLE_DROP_STALE)?,
            stale_connection_check: settings.flag(&storage::REQUEST_STALE_CONNECTION_CHECK)?,
            stale_latency_check: settings.flag(&storage::REQUEST_STALE_LATENCY_CHECK)?,
            throttled_op_wait_time_ms: settings.positive(&storage::THROTTLED_OP_WAIT_TIME)?,
            shutdown_timeout_ms: settings.int(&keys::REQUEST_THROTTLER_SHUTDOWN_TIMEOUT)?,
        })
    }
}

impl ConnectionThrottle {
    fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        let weights = SessionWeights::read(settings)?;
        let has_weights = settings.flag(&storage::THROTTLE_WEIGHT_ENABLED)?;
        let weights = Some(weights).filter(|_| has_weights);
        // The token settings count global sessions.
        let factor = weights.as_ref().map_or(1, |weights| weights.global);
        let tokens: Option<u32> = settings.positive(&storage::THROTTLE_TOKENS)?;
        let fill_count: u32 = settings.int(&storage::THROTTLE_FILL_COUNT)?;
        let freeze_time = settings.number(&storage::THROTTLE_FREEZE_TIME)?;
        Ok(Self {
            tokens: tokens.map(|tokens| tokens.saturating_mul(factor)),
            fill_time_ms: settings.int(&storage::THROTTLE_FILL_TIME)?,
            fill_count: fill_count.saturating_mul(factor),
            freeze_time_ms: freeze_time.and_then(|time| u32::try_from(time).ok()),
            drop_increase: settings.ratio(&storage::THROTTLE_DROP_INCREASE)?,
            drop_decrease: settings.ratio(&storage::THROTTLE_DROP_DECREASE)?,
            decrease_ratio: settings.ratio(&storage::THROTTLE_DECREASE_RATIO)?,
            weights,
        })
    }
}

impl SessionWeights {
    /// Reads the weights. Raises the other weights to at least the local weight.
    fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        let local = settings.int(&storage::THROTTLE_LOCAL_WEIGHT)?;
        let mut other = |key| -> Result<u32, ConfigError> {
            let weight: u32 = settings.int(key)?;
            if let Some(found) = settings.find(key).filter(|_| weight < local) {
                let text =
                    format!("{weight} is less than the local session weight; {local} is used");
                settings.notices.push(found.warning(text));
            }
            Ok(weight.max(local))
        };
        Ok(Self {
            global: other(&storage::THROTTLE_GLOBAL_WEIGHT)?,
            renew: other(&storage::THROTTLE_RENEW_WEIGHT)?,
            local,
        })
    }
}

/// Minimum extra size in bytes, which equals Java's.
const MIN_EXTRA_SIZE: u32 = 1024;
