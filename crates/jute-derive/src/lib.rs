//! Derive macros for jute.
