//! Tests of the recipes against real servers: with a proxy that cuts connections at each request,
//! with sessions that end, and with ensembles that lose their leader.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod caches;
mod costs;
mod crowds;
mod cuts;
mod ensembles;
mod foreign;
mod groups;
mod in_flight;
mod layouts;
mod leases;
mod locks;
mod mixed;
mod others;
mod proxy;
mod queue_kinds;
mod queues;
mod removed;
mod restarts;
mod services;
mod sessions;
mod slow_server;
mod support;
mod table;
