//! Whether the values of a logical type fit a PostgreSQL column, and what must be looked at in each.
//!
//! PostgreSQL itself is no judge: COPY rounds numeric scale and fractional seconds and cuts trailing blanks without a word.

use super::Native;
use crate::{
    native::{Native as AnyNative, mysql},
    table::Column,
    types::Type,
};

/// How the values of a source type stand to a target column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// Every value of the type fits.
    Exact,
    /// A value fits if it passes all of these.
    Checked(Vec<Check>),
    /// The transcoder has no exact way from the type to the column.
    Never { why: String },
}

/// What to look at in a value before its bytes leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// A whole number between these, both included.
    Range { least: i128, greatest: i128 },
    /// A decimal of at most `whole` digits before the point and `scale` behind it, trailing zeros not counted. A negative
    /// `scale` demands that many zeros before the point.
    Digits { whole: u16, scale: i16 },
    /// At most so many characters (Unicode scalar values), trailing blanks counted.
    Characters(u32),
    /// No U+0000 in the text.
    NoZeroByte,
    /// At most so many bytes.
    Bytes(u32),
    /// Days since 1970-01-01 between these, both included.
    Days { least: i32, greatest: i32 },
    /// Microseconds between these, both included.
    Micros { least: i64, greatest: i64 },
    /// No more than so many digits of a second that are not zero.
    Fraction(u8),
    /// A bit string of exactly so many bits.
    ExactBits(u32),
    /// A bit string of at most so many bits.
    Bits(u32),
    /// The text is one of the type's labels.
    Label,
}

/// 4714-11-24 BC and 5874897-12-31: the ends of `date`.
const DATE: Check = Check::Days { least: -2_440_588, greatest: 2_145_042_905 };
/// 4714-11-24 BC 00:00:00; the other end, 294276-12-31, lies behind 64 bits of microseconds since 1970.
const TIMESTAMP: Check = Check::Micros { least: -210_866_803_200_000_000, greatest: i64::MAX };
/// 0001-01-01 and 9999-12-31: MySQL's year 0 is not PostgreSQL's 1 BC.
const MYSQL_DATE: Check = Check::Days { least: -719_162, greatest: 2_932_896 };
const MYSQL_DATETIME: Check = Check::Micros { least: -62_135_596_800_000_000, greatest: 253_402_300_799_999_999 };
const TIME_OF_DAY: Check = Check::Micros { least: 0, greatest: 86_400_000_000 };

/// Whether values of `from` fit the column type `to`.
pub fn fit(from: &Type, to: &Native) -> Fit {
    match from {
        Type::Boolean => when(matches!(to, Native::Boolean), from, to),
        Type::Integer { bits, unsigned } => whole(integer_range(*bits, *unsigned), from, to),
        Type::Year => whole((0, 2155), from, to),
        Type::Float32 => when(matches!(to, Native::Real), from, to),
        Type::Float64 => when(matches!(to, Native::Double), from, to),
        Type::Decimal { precision, scale } => decimal(*precision, *scale, from, to),
        Type::Numeric => match to {
            Native::Numeric { size: None } => Fit::Exact,
            Native::Numeric { size: Some((precision, scale)) } => Fit::Checked(vec![digits(*precision, *scale)]),
            other => text(None, from, other),
        },
        Type::Text { length, fixed: _ } => text(*length, from, to),
        Type::Json => match to {
            Native::Json => Fit::Exact,
            other => text(None, from, other),
        },
        Type::Enum { labels } | Type::Set { labels } => labelled(labels, from, to),
        Type::Bytes { length: _, fixed: _ } | Type::Geometry => when(matches!(to, Native::Bytea), from, to),
        Type::Bits { length, varying } => bits(*length, *varying, from, to),
        Type::Date => checked(matches!(to, Native::Date), DATE, from, to),
        Type::Time { precision } => match to {
            Native::Time { precision: new } | Native::Interval { precision: new } => fraction(*precision, *new, Some(TIME_OF_DAY)),
            _other => never(from, to),
        },
        Type::Duration { precision } => match to {
            Native::Interval { precision: new } => fraction(*precision, *new, None),
            Native::Time { precision: new } => fraction(*precision, *new, Some(TIME_OF_DAY)),
            _other => never(from, to),
        },
        Type::DateTime { precision } => match to {
            Native::Timestamp { precision: new } => fraction(*precision, *new, Some(TIMESTAMP)),
            _other => never(from, to),
        },
        Type::Timestamp { precision } => match to {
            Native::TimestampTz { precision: new } => fraction(*precision, *new, Some(TIMESTAMP)),
            _other => never(from, to),
        },
        Type::TimeTz { precision } => match to {
            Native::TimeTz { precision: new } if new >= precision => Fit::Exact,
            other => text(None, from, other),
        },
        Type::Interval => match to {
            Native::Interval { precision: 6 } => Fit::Exact,
            other => text(None, from, other),
        },
        Type::Uuid => match to {
            Native::Uuid => Fit::Exact,
            other => plain_text(36, from, other),
        },
        Type::Inet => match to {
            Native::Inet => Fit::Exact,
            other => plain_text(43, from, other),
        },
        Type::Xml => match to {
            Native::Xml => Fit::Exact,
            other => text(None, from, other),
        },
        Type::Array { element } => match to {
            Native::Array { element: new, .. } if fit(element, new) == Fit::Exact => Fit::Exact,
            _other => never(from, to),
        },
        Type::Verbatim { .. } => text(None, from, to),
    }
}

/// As [`fit`], with what the source engine's own values add: the very same PostgreSQL type holds all of them, and MySQL's
/// dates begin in the year 1 for PostgreSQL.
pub fn fit_column(from: &Column, to: &Native) -> Fit {
    let plain = fit(&from.ty(), to);
    if from.as_text {
        return plain;
    }
    let native = match &from.native {
        AnyNative::Postgres(native) if native == to => return Fit::Exact,
        AnyNative::Postgres(_) => return plain,
        AnyNative::MySql(native) => native,
    };
    let bounds = match native {
        mysql::Native::Date => MYSQL_DATE,
        mysql::Native::DateTime { .. } => MYSQL_DATETIME,
        // TIMESTAMP begins in 1970; the others are no dates.
        mysql::Native::Timestamp { .. }
        | mysql::Native::Integer { .. }
        | mysql::Native::Decimal { .. }
        | mysql::Native::Float { .. }
        | mysql::Native::Double { .. }
        | mysql::Native::Bit { .. }
        | mysql::Native::Year
        | mysql::Native::Time { .. }
        | mysql::Native::Char { .. }
        | mysql::Native::VarChar { .. }
        | mysql::Native::Text { .. }
        | mysql::Native::Binary { .. }
        | mysql::Native::VarBinary { .. }
        | mysql::Native::Blob { .. }
        | mysql::Native::Enum { .. }
        | mysql::Native::Set { .. }
        | mysql::Native::Json
        | mysql::Native::Geometry { .. }
        | mysql::Native::Uuid
        | mysql::Native::Inet4
        | mysql::Native::Inet6
        | mysql::Native::Vector { .. } => return plain,
    };
    match plain {
        Fit::Exact => Fit::Checked(vec![bounds]),
        Fit::Checked(mut checks) => {
            checks.retain(|check| *check != DATE && *check != TIMESTAMP);
            checks.push(bounds);
            Fit::Checked(checks)
        }
        Fit::Never { why } => Fit::Never { why },
    }
}

fn never(from: &Type, to: &Native) -> Fit {
    Fit::Never { why: format!("values of {} have no exact form in a column of type {to}", from.describe()) }
}

fn when(exact: bool, from: &Type, to: &Native) -> Fit {
    if exact { Fit::Exact } else { never(from, to) }
}

fn checked(possible: bool, check: Check, from: &Type, to: &Native) -> Fit {
    if possible { Fit::Checked(vec![check]) } else { never(from, to) }
}

fn integer_range(bits: u8, unsigned: bool) -> (i128, i128) {
    let span = 1_i128 << bits.min(64);
    if unsigned { (0, span - 1) } else { (-(span / 2), span / 2 - 1) }
}

/// Whole numbers of a range into integer, decimal and text columns.
fn whole(range: (i128, i128), from: &Type, to: &Native) -> Fit {
    let within = |least: i128, greatest: i128| {
        if range.0 >= least && range.1 <= greatest { Fit::Exact } else { Fit::Checked(vec![Check::Range { least, greatest }]) }
    };
    let signed = |bits: u8| {
        let (least, greatest) = integer_range(bits, false);
        within(least, greatest)
    };
    match to {
        Native::SmallInt => signed(16),
        Native::Integer => signed(32),
        Native::BigInt => signed(64),
        Native::Oid => within(0, i128::from(u32::MAX)),
        Native::Numeric { size: None } => Fit::Exact,
        Native::Numeric { size: Some((precision, scale)) } => {
            let room = i32::from(*precision) - i32::from(*scale);
            // A positive scale leaves that many digits; a negative one rounds the last digits away.
            match u32::try_from(room).ok().and_then(|room| 10_i128.checked_pow(room)) {
                Some(end) if *scale >= 0 => within(1 - end, end - 1),
                Some(_) => Fit::Checked(vec![digits(*precision, *scale)]),
                None if *scale >= 0 && room > 0 => Fit::Exact,
                None => Fit::Checked(vec![digits(*precision, *scale)]),
            }
        }
        _other => never(from, to),
    }
}

/// The digits that numeric(p,s) has room for.
fn digits(precision: u16, scale: i16) -> Check {
    let whole = u16::try_from(i32::from(precision) - i32::from(scale)).unwrap_or(0);
    Check::Digits { whole, scale }
}

fn decimal(precision: u16, scale: i16, from: &Type, to: &Native) -> Fit {
    match to {
        Native::Numeric { size: None } => Fit::Exact,
        Native::Numeric { size: Some((new_precision, new_scale)) } => {
            let room = |precision: u16, scale: i16| i32::from(precision) - i32::from(scale);
            if *new_scale >= scale && room(*new_precision, *new_scale) >= room(precision, scale) {
                Fit::Exact
            } else {
                Fit::Checked(vec![digits(*new_precision, *new_scale)])
            }
        }
        Native::Money if scale <= 2 && precision <= 18 => Fit::Exact,
        _other => never(from, to),
    }
}

/// Text into text columns. `length`: the longest value, in characters.
fn text(length: Option<u32>, from: &Type, to: &Native) -> Fit {
    let room = match to {
        Native::Text | Native::VarChar { length: None } => None,
        Native::VarChar { length: Some(room) } => Some(*room),
        _other => return never(from, to),
    };
    let mut checks = vec![Check::NoZeroByte];
    if let Some(room) = room
        && length.is_none_or(|length| length > room)
    {
        checks.push(Check::Characters(room));
    }
    Fit::Checked(checks)
}

/// Text that the source makes itself, without U+0000 and of at most `longest` characters.
fn plain_text(longest: u32, from: &Type, to: &Native) -> Fit {
    match to {
        Native::Text | Native::VarChar { length: None } => Fit::Exact,
        Native::VarChar { length: Some(room) } if *room >= longest => Fit::Exact,
        Native::VarChar { length: Some(room) } => Fit::Checked(vec![Check::Characters(*room)]),
        _other => never(from, to),
    }
}

fn labelled(labels: &[String], from: &Type, to: &Native) -> Fit {
    if let Native::Enum { labels: known, .. } = to {
        let all_known = matches!(from, Type::Enum { .. }) && labels.iter().all(|label| known.contains(label));
        // MySQL's invalid empty value is no label.
        return if all_known { Fit::Checked(vec![Check::Label]) } else { never(from, to) };
    }
    text(None, from, to)
}

fn bits(length: u32, varying: bool, from: &Type, to: &Native) -> Fit {
    match to {
        Native::Bit { length: room } if !varying && *room == length => Fit::Exact,
        Native::Bit { length: room } if varying => Fit::Checked(vec![Check::ExactBits(*room)]),
        Native::VarBit { length: None } => Fit::Exact,
        Native::VarBit { length: Some(room) } if *room >= length => Fit::Exact,
        Native::VarBit { length: Some(room) } => Fit::Checked(vec![Check::Bits(*room)]),
        _other => never(from, to),
    }
}

/// Digits of a second, and the bounds of the target type.
fn fraction(from: u8, to: u8, bounds: Option<Check>) -> Fit {
    let narrower = (to < from).then_some(Check::Fraction(to));
    let checks: Vec<Check> = bounds.into_iter().chain(narrower).collect();
    if checks.is_empty() { Fit::Exact } else { Fit::Checked(checks) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::mysql_examples;

    fn checks(from: &Type, to: &str) -> Vec<Check> {
        match fit(from, &Native::parse(to).unwrap()) {
            Fit::Exact => Vec::new(),
            Fit::Checked(checks) => checks,
            Fit::Never { why } => panic!("{why}"),
        }
    }

    fn never(from: &Type, to: &str) -> bool {
        matches!(fit(from, &Native::parse(to).unwrap()), Fit::Never { .. })
    }

    /// What a declared column still has to be asked: only what PostgreSQL has not in any type.
    #[test]
    fn a_declared_column_holds_every_value_but_zero_bytes_and_the_year_0() {
        for (name, native) in mysql_examples() {
            let column = Column::new(0, "c", AnyNative::MySql(native));
            let target = super::super::declare(&column).unwrap();
            let allowed: &[Check] = match column.ty() {
                Type::Text { .. } | Type::Enum { .. } | Type::Set { .. } => &[Check::NoZeroByte],
                Type::Date => &[MYSQL_DATE],
                Type::DateTime { .. } => &[MYSQL_DATETIME],
                Type::Timestamp { .. } => &[TIMESTAMP],
                _other => &[],
            };
            match fit_column(&column, &target) {
                Fit::Exact => assert_eq!(allowed, [], "{name}"),
                Fit::Checked(checks) => assert_eq!(checks, allowed, "{name}"),
                Fit::Never { why } => panic!("{name}: {why}"),
            }
        }
    }

    #[test]
    fn whole_numbers_are_checked_where_the_column_is_narrower() {
        let int = |bits, unsigned| Type::Integer { bits, unsigned };
        assert_eq!(checks(&int(32, true), "bigint"), []);
        assert_eq!(checks(&int(32, true), "integer"), [Check::Range { least: -2_147_483_648, greatest: 2_147_483_647 }]);
        assert_eq!(checks(&int(64, true), "numeric(20,0)"), []);
        assert_eq!(checks(&int(64, true), "numeric(19,0)"), [Check::Range { least: 1 - 10_i128.pow(19), greatest: 10_i128.pow(19) - 1 }]);
        assert_eq!(checks(&int(64, false), "numeric(1000,0)"), []);
        assert_eq!(checks(&int(8, false), "numeric(3,1)"), [Check::Range { least: -99, greatest: 99 }]);
        assert_eq!(checks(&int(8, false), "numeric(5,-2)"), [Check::Digits { whole: 7, scale: -2 }]);
        assert_eq!(checks(&Type::Year, "smallint"), []);
        assert!(never(&int(8, false), "boolean") && never(&int(8, false), "real"));
    }

    #[test]
    fn decimals_are_checked_for_digits_on_both_sides() {
        let decimal = Type::Decimal { precision: 10, scale: 2 };
        assert_eq!(checks(&decimal, "numeric(12,4)"), []);
        assert_eq!(checks(&decimal, "numeric(12,5)"), [Check::Digits { whole: 7, scale: 5 }]);
        assert_eq!(checks(&decimal, "numeric(10,1)"), [Check::Digits { whole: 9, scale: 1 }]);
        assert_eq!(checks(&Type::Numeric, "numeric(3,5)"), [Check::Digits { whole: 0, scale: 5 }]);
    }

    #[test]
    fn text_is_checked_for_length_and_zero_bytes() {
        let text = |length| Type::Text { length, fixed: false };
        assert_eq!(checks(&text(Some(20)), "varchar(20)"), [Check::NoZeroByte]);
        assert_eq!(checks(&text(Some(20)), "varchar(19)"), [Check::NoZeroByte, Check::Characters(19)]);
        assert_eq!(checks(&text(None), "varchar(19)"), [Check::NoZeroByte, Check::Characters(19)]);
        assert!(never(&text(None), "bytea") && never(&text(Some(5)), "char(5)"));
        assert_eq!(checks(&Type::Json, "json"), []);
        assert!(never(&Type::Json, "jsonb"));
    }

    #[test]
    fn seconds_are_checked_where_the_column_has_fewer_digits() {
        let duration = |precision| Type::Duration { precision };
        assert_eq!(checks(&duration(3), "interval(3)"), []);
        assert_eq!(checks(&duration(3), "interval(0)"), [Check::Fraction(0)]);
        assert_eq!(checks(&duration(3), "time"), [TIME_OF_DAY]);
        assert_eq!(checks(&Type::DateTime { precision: 6 }, "timestamp(3)"), [TIMESTAMP, Check::Fraction(3)]);
        assert!(never(&Type::DateTime { precision: 6 }, "timestamptz") && never(&Type::Date, "timestamp"));
    }
}
