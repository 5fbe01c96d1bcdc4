//! Properties of names and of Avro's primitives, over generated input.

use proptest::prelude::*;
use schemas::{
    table::TableId,
    wire::{
        WireError,
        codec::{Reader, put_bytes, put_decimal_i128, put_double, put_int, put_long, put_twos_complement},
        names,
    },
};

/// Names that are likely to hold escapes, or parts of them.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[_x0-9a-fé. ]{0,12}", "(_x|_|x|[0-9a-f]|é|\\.|🙂){0,10}",]
}

fn is_avro_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_') && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_name_becomes_legal_and_comes_back(name in name()) {
        let escaped = names::avro(&name);
        prop_assert!(is_avro_name(&escaped), "{escaped}");
        prop_assert_eq!(names::unescape(&escaped), name);
    }

    #[test]
    fn different_names_stay_different(a in name(), b in name()) {
        prop_assert_eq!(names::avro(&a) == names::avro(&b), a == b);
    }

    #[test]
    fn a_topic_is_legal_and_names_its_table(namespace in name(), table in name()) {
        let topic = names::topic("p", &TableId::new(namespace.clone(), table.clone()));
        prop_assert!(topic.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')), "{topic}");
        let parts: Vec<&str> = topic.split('.').collect();
        prop_assert_eq!(parts.len(), 3);
        prop_assert_eq!((names::unescape(parts[1]), names::unescape(parts[2])), (namespace, table));
    }

    #[test]
    fn longs_come_back(value in any::<i64>()) {
        let mut out = Vec::new();
        put_long(&mut out, value);
        let mut reader = Reader::new(&out);
        prop_assert_eq!(reader.long(), Ok(value));
        prop_assert!(reader.rest().is_empty());
    }

    #[test]
    fn a_long_out_of_range_is_no_int(value in any::<i64>()) {
        let mut out = Vec::new();
        put_long(&mut out, value);
        let expected = i32::try_from(value).map_err(|_| WireError::Overflow);
        prop_assert_eq!(Reader::new(&out).int(), expected);
    }

    #[test]
    fn doubles_keep_their_bits(bits in any::<u64>()) {
        let mut out = Vec::new();
        put_double(&mut out, f64::from_bits(bits));
        prop_assert_eq!(Reader::new(&out).double().unwrap().to_bits(), bits);
    }

    #[test]
    fn bytes_come_back_and_a_cut_record_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut out = Vec::new();
        put_bytes(&mut out, &bytes);
        prop_assert_eq!(Reader::new(&out).bytes(), Ok(&bytes[..]));
        for end in 0..out.len() {
            prop_assert_eq!(Reader::new(&out[..end]).bytes(), Err(WireError::Truncated));
        }
    }

    #[test]
    fn decimals_come_back_in_the_fewest_bytes(value in any::<i128>(), shift in 0_u32..127) {
        let value = value >> shift;
        let mut out = Vec::new();
        put_decimal_i128(&mut out, value);
        let bytes = Reader::new(&out).bytes().unwrap().to_vec();
        prop_assert_eq!(from_twos_complement(&bytes), value);
        let bits = 128 - if value < 0 { value.leading_ones() } else { value.leading_zeros() };
        prop_assert_eq!(bytes.len(), usize::try_from(bits / 8 + 1).unwrap());
    }

    #[test]
    fn superfluous_sign_bytes_change_nothing(value in any::<i64>(), width in 8_usize..40) {
        let sign = if value < 0 { 0xff } else { 0 };
        let mut wide = vec![sign; width - 8];
        wide.extend_from_slice(&value.to_be_bytes());
        let (mut long, mut short) = (Vec::new(), Vec::new());
        put_twos_complement(&mut long, &wide);
        put_decimal_i128(&mut short, i128::from(value));
        prop_assert_eq!(long, short);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut reader = Reader::new(&bytes);
        let _ = reader.frame();
        let _ = reader.long();
        let _ = reader.optional_string();
        let _ = reader.array(|r| r.long().map(|_| ()));
        let _ = schemas::wire::event::read_event(&bytes);
        let _ = schemas::wire::event::read_progress(&bytes);
    }
}

fn from_twos_complement(bytes: &[u8]) -> i128 {
    let sign = if bytes.first().is_some_and(|b| *b >= 0x80) { -1_i128 } else { 0 };
    bytes.iter().fold(sign, |value, byte| (value << 8) | i128::from(*byte))
}

#[test]
fn the_greatest_decimal_of_65_digits_comes_back() {
    // 10^65 - 1 by hand: 27 bytes and a half, and its negative.
    let mut digits = vec![0_u8; 28];
    for _ in 0..65 {
        multiply_add(&mut digits, 10, 9);
    }
    let mut out = Vec::new();
    put_twos_complement(&mut out, &digits);
    assert_eq!(Reader::new(&out).bytes().unwrap(), digits);
    let mut negative: Vec<u8> = digits.iter().map(|b| !b).collect();
    multiply_add(&mut negative, 1, 1);
    out.clear();
    put_twos_complement(&mut out, &negative);
    assert_eq!(Reader::new(&out).bytes().unwrap(), negative);
}

/// `number * factor + add`, big-endian, in place.
fn multiply_add(number: &mut [u8], factor: u32, add: u32) {
    let mut carry = add;
    for byte in number.iter_mut().rev() {
        let value = u32::from(*byte) * factor + carry;
        *byte = (value & 0xff) as u8;
        carry = value >> 8;
    }
}

#[test]
fn an_int_is_written_as_a_long() {
    let (mut int, mut long) = (Vec::new(), Vec::new());
    put_int(&mut int, i32::MIN);
    put_long(&mut long, i64::from(i32::MIN));
    assert_eq!(int, long);
}
