//! Limits on connections and requests.

use super::budgets::{self, Budget};
use crate::error::ConfigError;
use crate::registry::core as keys;
use crate::registry::storage;
use crate::settings::Settings;

/// Limits on what clients may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Connections from one address; absent is no limit.
    pub max_client_cnxns: Option<u32>,
    /// Connections of a client port in all; absent is no limit.
    pub max_cnxns: Option<u32>,
    /// Requests in progress beyond which no more are read from clients that have one in progress.
    pub global_outstanding_limit: u32,
    /// Largest packet taken from a client, in bytes.
    pub jute_max_buffer: u32,
    /// What a record may need beyond that when it is read back, in bytes.
    pub jute_extra_size: u32,
    /// TLS handshakes in progress; absent is no limit.
    pub outstanding_handshakes: Option<u32>,
    /// Whether TLS connections are closed while the server does not serve.
    pub early_drop_handshakes: bool,
    /// Requests that wait before the pipeline.
    pub request_throttle: RequestThrottle,
    /// Large requests.
    pub large_requests: LargeRequests,
    /// Time from which on a request is slow, in milliseconds; absent is never.
    pub slow_request_threshold_ms: Option<u32>,
    /// A crash may write a core dump.
    pub core_dumps: bool,
    /// New sessions.
    pub connection_throttle: ConnectionThrottle,
    /// Bytes of the paths that one connection may watch.
    pub watch_bytes_max: u32,
    /// What addresses and identities may use.
    pub budgets: Vec<Budget>,
}

/// How requests wait when there are too many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestThrottle {
    /// Requests in the pipeline beyond which new ones wait; absent is no limit.
    pub max_requests: Option<u32>,
    /// Longest wait before the pipeline is looked at again, in milliseconds.
    pub stall_time_ms: u32,
    /// Stale requests are dropped.
    pub drop_stale: bool,
    /// A request is stale when its connection is closed.
    pub stale_connection_check: bool,
    /// A request is stale when it waited longer than its session's timeout.
    pub stale_latency_check: bool,
    /// Wait after which a request is answered with `ThrottledOp`; absent is never.
    pub throttled_op_wait_time_ms: Option<u32>,
    /// Time that requests in progress get when the server stops, in milliseconds.
    pub shutdown_timeout_ms: u32,
}

/// How much memory large requests may take together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeRequests {
    /// Size beyond which a request is large, in bytes; absent switches the limit off.
    pub threshold_bytes: Option<u32>,
    /// Bytes of large requests in progress at one time.
    pub max_bytes: u32,
}

/// How fast sessions may be made: a bucket of tokens, and a probability to be dropped that grows
/// while it is empty (BLUE).
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionThrottle {
    /// Tokens in the bucket, already multiplied with the weight of a global session if sessions
    /// have weights; absent switches the throttle off.
    pub tokens: Option<u32>,
    /// Time between refills, in milliseconds.
    pub fill_time_ms: u32,
    /// Tokens of a refill, multiplied likewise.
    pub fill_count: u32,
    /// Time between changes of the probability, in milliseconds; absent switches dropping off.
    pub freeze_time_ms: Option<u32>,
    /// What the probability grows by.
    pub drop_increase: f64,
    /// What it shrinks by.
    pub drop_decrease: f64,
    /// Share of the bucket that counts as filled again.
    pub decrease_ratio: f64,
    /// Tokens by kind of session; absent is one for each.
    pub weights: Option<SessionWeights>,
}

/// Tokens that a session draws.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionWeights {
    /// A new global session.
    pub global: u32,
    /// A new local session.
    pub local: u32,
    /// A session that is taken up again.
    pub renew: u32,
}

impl Limits {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
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
    fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
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
    fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let weights = SessionWeights::read(settings)?;
        let has_weights = settings.flag(&storage::THROTTLE_WEIGHT_ENABLED)?;
        let weights = Some(weights).filter(|_| has_weights);
        // Tokens are configured in global sessions.
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
    /// A weight below the local one is raised to it.
    fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let local = settings.int(&storage::THROTTLE_LOCAL_WEIGHT)?;
        let mut other = |key| -> Result<u32, ConfigError> {
            let weight: u32 = settings.int(key)?;
            if let Some(found) = settings.find(key).filter(|_| weight < local) {
                let text = format!("{weight} is less than the local session weight; {local} holds");
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

/// Below this Java's records no longer fit beside the packet they came in.
const MIN_EXTRA_SIZE: u32 = 1024;
