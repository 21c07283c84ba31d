//! Configurations as a whole: from text to [`config::Config`].

mod checklist;
mod every_setting;
mod support;
