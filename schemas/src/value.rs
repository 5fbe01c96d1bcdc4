//! Single values outside the row path: defaults, keys in messages, tests.

use serde::{Deserialize, Serialize};

/// One value of a logical type. The row path never builds these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    Null,
    Boolean(bool),
    #[serde(with = "integer_text")]
    Integer(i128),
    #[serde(with = "float_text")]
    Float(f64),
    /// A decimal in plain notation with its full scale, such as `-1.50`.
    Decimal(String),
    /// Text, and every type whose Avro form is a string.
    Text(String),
    Bytes(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds: time of day, duration, date-time or instant, as the column's type says.
    Micros(i64),
    Array(Vec<Value>),
}

/// Floats travel as text: JSON's numbers lose bits on the way and know neither infinity nor NaN.
mod float_text {
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

mod integer_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &i128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i128, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
