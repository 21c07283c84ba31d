//! Tests of whole configurations: from text to [`zoarium_config::Config`].

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod admin_ports;
mod budgets;
mod checklist;
mod every_setting;
mod examine;
mod examples;
mod fates;
mod kerberos;
mod precedence;
mod readers;
mod reconfig;
mod recorded;
mod refusals;
mod robustness;
mod sasl;
mod support;
mod values;
