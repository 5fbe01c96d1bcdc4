//! One column's way from Avro to PostgreSQL's binary: chosen once per version and target column, by exhaustive matches.

use schemas::{
    native::{Native, postgres::Native as Pg},
    table::Column,
    types::{Repr, Type},
    wire::row::Field,
};

use super::{moment, numeric::Size};

/// How a value is read and written. Limits are there only where the target is narrower than the source.
#[derive(Debug, Clone, PartialEq)]
pub enum Codec {
    Boolean,
    /// A whole number that is 0 or 1.
    BooleanOfInteger,
    /// 2, 4 or 8 bytes.
    Integer {
        width: u8,
    },
    /// A decimal without a fraction into 2, 4 or 8 bytes.
    IntegerOfDecimal {
        width: u8,
        scale: u16,
    },
    NumericOfInteger {
        size: Option<Size>,
    },
    Numeric {
        scale: u16,
        size: Option<Size>,
    },
    NumericOfText {
        size: Option<Size>,
    },
    Float,
    Double,
    DoubleOfFloat,
    FloatOfDouble,
    Text {
        limit: Limit,
        form: TextForm,
    },
    Bytes,
    Bits {
        length: u32,
    },
    Date {
        first: i32,
    },
    Time {
        step: i64,
    },
    Interval {
        step: i64,
    },
    Timestamp {
        first: i64,
        step: i64,
    },
    Uuid,
    Inet {
        cidr: bool,
    },
    Label {
        labels: Vec<String>,
    },
    TextOf {
        printed: Printed,
        limit: Limit,
    },
}

/// Characters that a text column takes; none: any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub characters: Option<u32>,
    /// The configuration allows longer text to be cut.
    pub cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    Plain,
    /// Text that may not be JSON, into a JSON column.
    CheckedJson,
    /// PostgreSQL's version byte comes first.
    Jsonb,
}

/// Values that are printed into a text column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printed {
    Boolean,
    Integer,
    Decimal { scale: u16 },
    Date { first: i32 },
    Time,
    Timestamp { first: i64, zone: &'static str },
}

/// The codec of `field`, which comes from the source column `source`, into `target`; or why there is none.
pub fn choose(field: &Field, source: &Column, target: &Column, cut: bool) -> Result<Codec, String> {
    let Native::Postgres(native) = &target.native else {
        return Err(format!("column {}: the target's shape is not PostgreSQL's ({})", target.name, target.native));
    };
    let from_mysql = match &source.native {
        Native::MySql(_) => true,
        Native::Postgres(_) => false,
    };
    let none = || format!("column {}: {} of the source cannot be written to {native}", target.name, source.native);
    into(field, native, from_mysql, cut).ok_or_else(none)
}

/// By the target's type.
fn into(field: &Field, native: &Pg, from_mysql: bool, cut: bool) -> Option<Codec> {
    match native {
        Pg::Boolean => boolean(&field.repr),
        Pg::SmallInt => integer(&field.repr, 2),
        Pg::Integer => integer(&field.repr, 4),
        Pg::BigInt => integer(&field.repr, 8),
        Pg::Real => match field.repr {
            Repr::Float => Some(Codec::Float),
            Repr::Double => Some(Codec::FloatOfDouble),
            _ => None,
        },
        Pg::Double => match field.repr {
            Repr::Float => Some(Codec::DoubleOfFloat),
            Repr::Double => Some(Codec::Double),
            _ => None,
        },
        Pg::Numeric { size } => numeric(field, size.map(|(precision, scale)| Size { precision, scale })),
        Pg::Text | Pg::Xml => text(field, Limit { characters: None, cut: false }, from_mysql),
        Pg::VarChar { length } => text(field, Limit { characters: *length, cut }, from_mysql),
        Pg::Char { length } => text(field, Limit { characters: Some(*length), cut }, from_mysql),
        Pg::Json => json(&field.ty, TextForm::CheckedJson),
        Pg::Jsonb => json(&field.ty, TextForm::Jsonb),
        Pg::Bytea => (field.repr == Repr::Bytes).then_some(Codec::Bytes),
        Pg::Bit { length } => match field.ty {
            Type::Bits { length: ours, varying: false } if ours == *length => Some(Codec::Bits { length: ours }),
            _ => None,
        },
        Pg::VarBit { length } => match field.ty {
            Type::Bits { length: ours, varying: false } if length.is_none_or(|most| ours <= most) => Some(Codec::Bits { length: ours }),
            _ => None,
        },
        Pg::Date => {
            (field.repr == Repr::Date).then_some(Codec::Date { first: if from_mysql { moment::YEAR_ONE_DAY } else { moment::FIRST_DAY } })
        }
        Pg::Time { precision } => match (&field.ty, &field.repr) {
            (Type::Time { .. } | Type::Duration { .. }, _) => Some(Codec::Time { step: step(*precision) }),
            _ => None,
        },
        Pg::Interval { precision } => match field.ty {
            Type::Time { .. } | Type::Duration { .. } => Some(Codec::Interval { step: step(*precision) }),
            _ => None,
        },
        Pg::Timestamp { precision } => (field.repr == Repr::LocalTimestampMicros).then(|| timestamp(*precision, from_mysql)),
        Pg::TimestampTz { precision } => (field.repr == Repr::TimestampMicros).then(|| timestamp(*precision, from_mysql)),
        Pg::Uuid => matches!(field.repr, Repr::Uuid).then_some(Codec::Uuid),
        Pg::Inet => matches!(field.ty, Type::Inet).then_some(Codec::Inet { cidr: false }),
        Pg::Cidr => matches!(field.ty, Type::Inet).then_some(Codec::Inet { cidr: true }),
        Pg::Enum { labels, .. } => match field.ty {
            Type::Enum { .. } | Type::Text { .. } => Some(Codec::Label { labels: labels.clone() }),
            _ => None,
        },
        // No source gives these with a binary form of ours yet: refused by name, map them to text.
        Pg::Money
        | Pg::InternalChar
        | Pg::Name
        | Pg::TimeTz { .. }
        | Pg::MacAddr
        | Pg::MacAddr8
        | Pg::Oid
        | Pg::Array { .. }
        | Pg::Other { .. } => None,
    }
}

fn boolean(repr: &Repr) -> Option<Codec> {
    match repr {
        Repr::Boolean => Some(Codec::Boolean),
        Repr::Int | Repr::Long => Some(Codec::BooleanOfInteger),
        _ => None,
    }
}

fn integer(repr: &Repr, width: u8) -> Option<Codec> {
    match repr {
        Repr::Int | Repr::Long => Some(Codec::Integer { width }),
        Repr::Decimal { scale, .. } => Some(Codec::IntegerOfDecimal { width, scale: *scale }),
        _ => None,
    }
}

fn numeric(field: &Field, size: Option<Size>) -> Option<Codec> {
    match (&field.repr, &field.ty) {
        (Repr::Int | Repr::Long, _) => Some(Codec::NumericOfInteger { size: size.filter(|s| s.scale < 0 || whole(*s) < 19) }),
        (Repr::Decimal { precision, scale }, _) => {
            let ours = Size { precision: *precision, scale: scale.cast_signed() };
            Some(Codec::Numeric { scale: *scale, size: size.filter(|s| s.scale < ours.scale || whole(*s) < whole(ours)) })
        }
        (Repr::String, Type::Numeric) => Some(Codec::NumericOfText { size }),
        _ => None,
    }
}

/// Digits before the point.
fn whole(size: Size) -> i32 {
    i32::from(size.precision) - i32::from(size.scale)
}

fn text(field: &Field, limit: Limit, from_mysql: bool) -> Option<Codec> {
    let first = if from_mysql { moment::YEAR_ONE_DAY } else { moment::FIRST_DAY };
    let printed = |printed| Some(Codec::TextOf { printed, limit });
    match &field.repr {
        Repr::String | Repr::Uuid => {
            let characters = limit.characters.filter(|most| longest(&field.ty).is_none_or(|ours| ours > *most));
            Some(Codec::Text { limit: Limit { characters, cut: limit.cut }, form: TextForm::Plain })
        }
        Repr::Boolean => printed(Printed::Boolean),
        Repr::Int | Repr::Long => printed(Printed::Integer),
        Repr::Decimal { scale, .. } => printed(Printed::Decimal { scale: *scale }),
        Repr::Date => printed(Printed::Date { first }),
        Repr::TimeMicros => printed(Printed::Time),
        Repr::LocalTimestampMicros => printed(Printed::Timestamp { first: i64::from(first) * moment::DAY_MICROS, zone: "" }),
        Repr::TimestampMicros => printed(Printed::Timestamp { first: i64::from(first) * moment::DAY_MICROS, zone: "+00" }),
        // Bytes have no text of their own, and floats' text differs between engines.
        Repr::Float | Repr::Double | Repr::Bytes | Repr::Array(_) => None,
    }
}

/// The longest text that the source's column can hold, in characters.
fn longest(ty: &Type) -> Option<u32> {
    let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    match ty {
        Type::Text { length, .. } => *length,
        Type::Enum { labels } => labels.iter().map(|label| count(label)).max(),
        Type::Set { labels } => Some(labels.iter().map(|label| count(label).saturating_add(1)).fold(0, u32::saturating_add)),
        Type::Uuid => Some(36),
        _ => None,
    }
}

fn json(ty: &Type, form: TextForm) -> Option<Codec> {
    let limit = Limit { characters: None, cut: false };
    match ty {
        // The source's own JSON is JSON.
        Type::Json if form == TextForm::CheckedJson => Some(Codec::Text { limit, form: TextForm::Plain }),
        Type::Json | Type::Text { .. } => Some(Codec::Text { limit, form }),
        _ => None,
    }
}

/// The least span of microseconds that a column with `precision` fraction digits keeps.
fn step(precision: u8) -> i64 {
    10i64.pow(u32::from(6 - precision.min(6)))
}

fn timestamp(precision: u8, from_mysql: bool) -> Codec {
    Codec::Timestamp { first: if from_mysql { moment::YEAR_ONE_MICROS } else { moment::FIRST_MICROS }, step: step(precision) }
}
