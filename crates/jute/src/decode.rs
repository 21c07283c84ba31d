//! Decoding of records.

use bytes::Bytes;

use crate::{DecodeError, Reader, Str};

/// Value that can be decoded from its jute encoding.
pub trait Decode: Sized {
    /// Length of the shortest encoding of this type, in bytes. A vector reserves memory only for as
    /// many elements of this length as the remaining bytes can contain.
    const MIN_BYTES: usize;

    /// Decodes one value. Further bytes remain in the reader.
    ///
    /// # Errors
    /// If the bytes end early, a length or value is out of range, or a null is not permitted.
    fn decode(input: &mut Reader) -> Result<Self, DecodeError>;
}

macro_rules! primitive {
    ($type:ty, $method:ident, $bytes:literal) => {
        impl Decode for $type {
            const MIN_BYTES: usize = $bytes;

            fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
                input.$method()
            }
        }
    };
}

primitive!(u8, u8, 1);
primitive!(bool, bool, 1);
primitive!(i32, i32, 4);
primitive!(i64, i64, 8);
primitive!(Option<Str>, string, 4);
primitive!(Option<Bytes>, buffer, 4);

impl Decode for Str {
    const MIN_BYTES: usize = 4;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let offset = input.position();
        input.string()?.ok_or(DecodeError::Null { offset })
    }
}

impl Decode for Bytes {
    const MIN_BYTES: usize = 4;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let offset = input.position();
        input.buffer()?.ok_or(DecodeError::Null { offset })
    }
}

impl<T: Decode> Decode for Option<Vec<T>> {
    const MIN_BYTES: usize = 4;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let Some(count) = input.count()? else {
            return Ok(None);
        };
        // The number of remaining bytes limits the memory that is reserved for a count.
        let mut items = Vec::with_capacity(count.min(input.remaining() / T::MIN_BYTES.max(1)));
        for _ in 0..count {
            items.push(T::decode(input)?);
        }
        Ok(Some(items))
    }
}

impl<T: Decode> Decode for Vec<T> {
    const MIN_BYTES: usize = 4;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let offset = input.position();
        Option::<Self>::decode(input)?.ok_or(DecodeError::Null { offset })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Encode, Limits};

    #[test]
    fn a_huge_count_reserves_at_most_the_size_of_the_input() {
        let mut frame = i32::MAX.to_be_bytes().to_vec();
        frame.extend_from_slice(&[0; 64]);
        let error = Vec::<i64>::decode(&mut Reader::new(frame)).unwrap_err();
        assert!(matches!(
            error,
            DecodeError::Truncated {
                needed: 8,
                left: 0,
                ..
            }
        ));
    }

    #[test]
    fn null_and_other_negative_counts_differ() {
        let read = |count: i32| Option::<Vec<i32>>::decode(&mut Reader::new(count.to_bytes()));
        assert_eq!(read(-1), Ok(None));
        assert_eq!(read(-2), Ok(Some(vec![])));
        assert_eq!(read(0), Ok(Some(vec![])));
    }

    #[test]
    fn lengths_are_checked_before_bytes_are_read() {
        let limits = Limits::from_max_buffer(2000, 1024);
        let read =
            |len: i32| Option::<Bytes>::decode(&mut Reader::with_limits(len.to_bytes(), limits));
        assert_eq!(read(-1), Ok(None));
        assert!(matches!(read(-2), Err(DecodeError::Length { len: -2, .. })));
        assert!(matches!(read(3025), Err(DecodeError::Length { .. })));
        assert!(matches!(read(3024), Err(DecodeError::Truncated { .. })));
    }

    #[test]
    fn a_reader_without_limits_accepts_what_the_bytes_hold() {
        let field = Bytes::from(vec![7; 3 << 20]);
        let read = |bytes: Bytes| Bytes::decode(&mut Reader::new(bytes));
        assert_eq!(read(field.to_bytes()), Ok(field));
        let claimed = 5_i32.to_bytes();
        assert!(matches!(
            read(claimed),
            Err(DecodeError::Truncated { needed: 5, .. })
        ));
    }

    proptest! {
        #[test]
        fn every_value_reads_back(
            text in proptest::option::of("[a-z\u{0}-\u{ffff}]{0,20}"),
            data in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..50)),
            numbers in proptest::option::of(proptest::collection::vec(any::<i64>(), 0..9)),
            flag: bool, number: i32,
        ) {
            let (text, data) = (text.map(Str::from), data.map(Bytes::from));
            let mut out = Vec::new();
            text.encode(&mut out);
            data.encode(&mut out);
            numbers.encode(&mut out);
            flag.encode(&mut out);
            number.encode(&mut out);
            let mut input = Reader::new(out);
            prop_assert_eq!(Option::<Str>::decode(&mut input).unwrap(), text);
            prop_assert_eq!(Option::<Bytes>::decode(&mut input).unwrap(), data);
            prop_assert_eq!(Option::<Vec<i64>>::decode(&mut input).unwrap(), numbers);
            prop_assert_eq!(bool::decode(&mut input).unwrap(), flag);
            prop_assert_eq!(i32::decode(&mut input).unwrap(), number);
            prop_assert!(input.is_empty());
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut input = Reader::new(bytes);
            let _ = Option::<Vec<Option<Str>>>::decode(&mut input);
            let _ = Vec::<Bytes>::decode(&mut input);
        }
    }
}
