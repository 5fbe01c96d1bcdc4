//! Values of a SELECT to Avro: the same bytes as the log's values give.

use mysql_async::Value;
use schemas::wire::codec::{put_bytes, put_decimal_i128, put_double, put_float, put_long, put_null, put_some};

use super::decode::{
    Unfit,
    cell::{Codec, Printed, integer_text, put_padded},
    charset, decimal,
    plan::Planned,
    temporal::{self, DateTime},
};

/// Writes one field.
///
/// # Errors
/// Why the value does not fit.
pub fn put(field: &Planned, value: Option<&Value>, out: &mut Vec<u8>, text: &mut Vec<u8>) -> Result<(), Unfit> {
    let value = value.ok_or_else(|| Unfit::value("it is missing in the result"))?;
    if *value == Value::NULL {
        if !field.nullable {
            return Err(Unfit::value("NULL in a column that is NOT NULL"));
        }
        put_null(out);
        return Ok(());
    }
    if field.nullable {
        put_some(out);
    }
    put_value(&field.codec, value, out, text)
}

fn put_value(codec: &Codec, value: &Value, out: &mut Vec<u8>, text: &mut Vec<u8>) -> Result<(), Unfit> {
    match codec {
        Codec::Integer { .. } | Codec::Year => put_long(out, i64::try_from(integer(value)?).map_err(|_| unexpected(value))?),
        Codec::UnsignedLong => put_decimal_i128(out, integer(value)?),
        Codec::Float => match value {
            Value::Float(float) => put_float(out, *float),
            other => return Err(unexpected(other)),
        },
        Codec::Double => match value {
            Value::Double(double) => put_double(out, *double),
            other => return Err(unexpected(other)),
        },
        Codec::Decimal { scale, .. } => decimal::put_text(out, bytes(value)?, *scale)?,
        Codec::Date => datetime(value)?.put_days(out)?,
        Codec::Time => put_long(out, time(value)?),
        Codec::DateTime { precision } | Codec::Timestamp { precision } => datetime(value)?.put_micros(out, *precision)?,
        // The server sends labels joined, in the column's own character set.
        Codec::Text { decoder, .. } | Codec::Enum { decoder, .. } | Codec::Set { decoder, .. } => {
            charset::put(out, decoder, bytes(value)?)?
        }
        Codec::Binary { length } => put_padded(out, bytes(value)?, *length),
        Codec::Bytes { .. } => put_bytes(out, bytes(value)?),
        // The server's own text, which is what the log's form is printed as.
        Codec::Json | Codec::Uuid | Codec::Inet4 | Codec::Inet6 => match std::str::from_utf8(bytes(value)?) {
            Ok(printed) => put_bytes(out, printed.as_bytes()),
            Err(error) => return Err(Unfit::value(format!("its text is not UTF-8: {error}"))),
        },
        Codec::Printed(printed) => {
            text.clear();
            print(*printed, value, text)?;
            put_bytes(out, text);
        }
    }
    Ok(())
}

fn print(printed: Printed, value: &Value, text: &mut Vec<u8>) -> Result<(), Unfit> {
    match printed {
        Printed::Integer { zerofill, .. } => integer_text(text, integer(value)?, zerofill),
        Printed::Decimal { .. } => text.extend_from_slice(bytes(value)?),
        Printed::Date => datetime(value)?.date_text(text),
        Printed::Time { precision } => temporal::time_text(text, time(value)?, precision),
        Printed::DateTime { precision } | Printed::Timestamp { precision } => datetime(value)?.text(text, precision),
    }
    Ok(())
}

fn unexpected(value: &Value) -> Unfit {
    let form = match value {
        Value::NULL => "NULL",
        Value::Bytes(_) => "bytes",
        Value::Int(_) | Value::UInt(_) => "an integer",
        Value::Float(_) | Value::Double(_) => "a float",
        Value::Date(..) => "a date",
        Value::Time(..) => "a time",
    };
    Unfit::value(format!("the server sent {form}, which the column's type does not have"))
}

fn bytes(value: &Value) -> Result<&[u8], Unfit> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        other => Err(unexpected(other)),
    }
}

fn integer(value: &Value) -> Result<i128, Unfit> {
    match value {
        Value::Int(value) => Ok(i128::from(*value)),
        Value::UInt(value) => Ok(i128::from(*value)),
        other => Err(unexpected(other)),
    }
}

fn datetime(value: &Value) -> Result<DateTime, Unfit> {
    match *value {
        Value::Date(year, month, day, hour, minute, second, micros) => Ok(DateTime {
            year: year.into(),
            month: month.into(),
            day: day.into(),
            hour: hour.into(),
            minute: minute.into(),
            second: second.into(),
            micros,
        }),
        ref other => Err(unexpected(other)),
    }
}

fn time(value: &Value) -> Result<i64, Unfit> {
    match *value {
        Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let seconds = i64::from(days) * 86_400 + i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds);
            let total = seconds * 1_000_000 + i64::from(micros);
            Ok(if negative { -total } else { total })
        }
        ref other => Err(unexpected(other)),
    }
}
