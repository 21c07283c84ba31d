//! decode(encode(x)) = x for all records, and all bytes are read.

#![allow(clippy::unwrap_used, reason = "a test")]

mod ensemble;
mod parts;
mod records;
mod requests;
mod txns;

use std::fmt::Debug;

use jute::{Decode, Encode, Reader};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

fn check<T: Encode + Decode + PartialEq + Debug>(value: &T) -> Result<(), TestCaseError> {
    let bytes = value.to_bytes();
    prop_assert!(bytes.len() >= T::MIN_BYTES);
    let mut input = Reader::new(bytes);
    let read = T::decode(&mut input);
    prop_assert_eq!(read.as_ref(), Ok(value));
    prop_assert!(input.is_empty(), "{} bytes are left", input.remaining());
    Ok(())
}
