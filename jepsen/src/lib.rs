//! Runs ensembles of real server processes under faults and judges what their clients saw.
//!
//! * [`check`]: the checkers, each of one promise.
//! * [`edn`]: histories in Jepsen's form.
//! * [`history`]: what a run records, one event a line, and how it is read again.
//! * [`report`]: a run as one page.
//! * [`workload`]: what clients do, and which checker knows whether the answers were right.
//! * [`verdict`]: what a checker says.
//! * [`cluster`]: the members, and what can be done to them; [`nemesis`]: the faults; [`schedule`]:
//!   when which of them comes.
//! * [`run`]: all of it together; [`list`]: what there is to choose from.
//! * [`matrix`]: many runs and a table of them; [`switches`]: runs that must find something.
//!
//! A checker sees the history alone. It knows nothing of how a server works, of the faults that
//! were made, or of the servers' own logs.

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
