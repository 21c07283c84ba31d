//! Ensembles of real processes: what they survive, what they refuse, and how they live with Apache ZooKeeper.
//!
//! One program, since these tests wait for elections and timeouts: side by side they wait for less long.

mod bad_input;
mod diverged;
mod eager_acl;
mod examples;
mod failures;
mod faults;
mod large_writes;
mod metrics;
mod mixed;
mod observer_masters;
mod oracle;
mod repair;
mod sasl;
mod scenarios;
mod sessions;
mod throttle;
mod traces;
