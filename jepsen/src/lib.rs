//! Runs ensembles of real server processes under faults, and judges what their clients saw.
//!
//! * [`check`]: the checkers, one per guarantee.
//! * [`edn`]: histories in Jepsen's format.
//! * [`history`]: the events that a run records, one per line, and their reader.
//! * [`report`]: a run as one page.
//! * [`workload`]: the calls of clients, and the checker of their answers.
//! * [`verdict`]: the result of a checker.
//! * [`cluster`]: the members, and operations on them. [`nemesis`]: the faults. [`schedule`]: the
//!   times of the faults.
//! * [`run`]: a run from its start to its verdict. [`list`]: the available workloads and faults.
//! * [`matrix`]: many runs and a table of them. [`switches`]: runs that must find a violation.
//!
//! A checker sees only the history. It does not know how a server works, which faults were made, or
//! what the servers logged.

pub mod check;
pub mod cluster;
pub mod edn;
pub mod history;
pub mod list;
pub mod matrix;
pub mod nemesis;
pub mod report;
pub mod run;
pub mod schedule;
pub mod switches;
pub mod verdict;
pub mod workload;
