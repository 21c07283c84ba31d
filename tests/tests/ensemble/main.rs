//! Ensembles of real processes: survived and refused events, and mixtures with Apache ZooKeeper.
//!
//! All tests are in one program, because they wait for elections and timeouts. Run concurrently,
//! they wait for a shorter time.

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
mod role_lines;
mod sasl;
mod scenarios;
mod sessions;
mod throttle;
mod traces;
