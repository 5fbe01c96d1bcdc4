//! Literal defaults evaluated in their column's type, as the server stores them.

use super::{
    charset,
    context::{Context, mode},
    number,
    statement::Literal,
    temporal,
    token::Fault,
};
use crate::{
    native::mysql::{Charset, Inet6, Native},
    table::Default,
    value::Value,
};

/// A literal as a column's default. None: the default is NULL.
pub(super) fn evaluate(literal: &Literal, native: &Native, context: &Context) -> Result<Option<Default>, Fault> {
    let empty_is_null = context.mariadb && context.has(mode::EMPTY_STRING_IS_NULL);
    match literal {
        Literal::Null => return Ok(None),
        Literal::Text { bytes, .. } if bytes.is_empty() && empty_is_null => return Ok(None),
        _ if context.mariadb && bent(literal, native) => {
            return Ok(Some(Default::Expression("a literal whose bytes the server keeps as their escapes".into())));
        }
        _ => {}
    }
    let value = match native {
        Native::Integer { bits, unsigned, .. } => {
            Value::Integer(number::integer(&plain(literal, context)?, *bits, *unsigned, matches!(literal, Literal::Number(_)))?)
        }
        Native::Decimal { precision, scale, unsigned } => {
            Value::Decimal(number::decimal(&plain(literal, context)?, *precision, *scale, *unsigned)?)
        }
        Native::Float { unsigned, digits } => {
            let value = number::float(&plain(literal, context)?, *digits, *unsigned, true)?;
            Value::Float(zero_without_sign(value, literal, context))
        }
        Native::Double { unsigned, digits } => {
            let value = number::float(&plain(literal, context)?, *digits, *unsigned, false)?;
            Value::Float(zero_without_sign(value, literal, context))
        }
        Native::Bit { length } => Value::Bytes(bits(literal, *length, context)?),
        Native::Year => Value::Integer(number::year(&plain(literal, context)?, matches!(literal, Literal::Text { .. }))?),
        Native::Date => temporal::date(&plain(literal, context)?, context)?,
        Native::Time { precision } => temporal::time(&plain(literal, context)?, *precision, context)?,
        Native::DateTime { precision } => temporal::date_time(&plain(literal, context)?, *precision, context)?,
        Native::Timestamp { precision } => return timestamp(&plain(literal, context)?, *precision, context).map(Some),
        Native::Char { length, charset } => {
            let text = text(literal, charset, u32::from(*length), context)?;
            Value::Text(text.trim_end_matches(' ').to_owned())
        }
        Native::VarChar { length, charset, .. } => Value::Text(text(literal, charset, *length, context)?),
        Native::Text { charset, .. } => Value::Text(text(literal, charset, u32::MAX, context)?),
        Native::Binary { length } => {
            let mut bytes = bytes(literal, u32::from(*length), context)?;
            bytes.resize(usize::from(*length), 0);
            Value::Bytes(bytes)
        }
        Native::VarBinary { length, .. } => Value::Bytes(bytes(literal, *length, context)?),
        Native::Blob { .. } => Value::Bytes(bytes(literal, u32::MAX, context)?),
        Native::Enum { labels, charset } => Value::Text(label(&words(literal, charset, context)?, labels, charset)?),
        Native::Set { labels, charset } => Value::Text(set(&words(literal, charset, context)?, labels, charset)?),
        Native::Json => return json(&plain(literal, context)?).map(Some),
        Native::Uuid => Value::Text(uuid(&plain(literal, context)?)?),
        Native::Inet4 => Value::Text(parsed::<std::net::Ipv4Addr>(&plain(literal, context)?, "an INET4 address")?.to_string()),
        Native::Inet6 => Value::Text(Inet6(parsed(&plain(literal, context)?, "an INET6 address")?).to_string()),
        Native::Geometry { .. } | Native::Vector { .. } => return Err("a literal default of this type is not understood".into()),
    };
    Ok(Some(Default::Constant(value)))
}

/// MariaDB keeps the default of a TEXT or BLOB as the text of an expression, and reads `_latin1'\xE9'`, which it wrote itself, as xE9.
fn bent(literal: &Literal, native: &Native) -> bool {
    let (Literal::Hex { bytes, introducer: Some(_) } | Literal::Text { bytes, introducer: Some(_) }) = literal else { return false };
    matches!(native, Native::Text { .. } | Native::Blob { .. }) && !bytes.iter().all(u8::is_ascii_alphanumeric)
}

/// Zero keeps its sign in a double alone, which numbers without an exponent are not; in MariaDB's defaults nowhere.
fn zero_without_sign(value: f64, literal: &Literal, context: &Context) -> f64 {
    let keeps = match literal {
        Literal::Number(digits) => digits.contains(['e', 'E']),
        Literal::Text { .. } => true,
        Literal::Null | Literal::Boolean(_) | Literal::Hex { .. } | Literal::Bits(_) => false,
    };
    if value == 0.0 && (context.mariadb || !keeps) { 0.0 } else { value }
}

/// What rows get in a NOT NULL column that was added without a default. None: the log does not say.
pub(super) fn implicit(native: &Native) -> Option<Value> {
    Some(match native {
        Native::Integer { .. } | Native::Year => Value::Integer(0),
        Native::Decimal { scale: 0, .. } => Value::Decimal("0".into()),
        Native::Decimal { scale, .. } => Value::Decimal(format!("0.{}", "0".repeat(usize::from(*scale)))),
        Native::Float { .. } | Native::Double { .. } => Value::Float(0.0),
        Native::Bit { length } => Value::Bytes(vec![0; usize::from(length.div_ceil(8))]),
        Native::Date => Value::Text("0000-00-00".into()),
        Native::Time { .. } => Value::Micros(0),
        Native::DateTime { precision } | Native::Timestamp { precision } => Value::Text(zero_moment(*precision)),
        Native::Char { .. } | Native::VarChar { .. } | Native::Text { .. } | Native::Set { .. } => Value::Text(String::new()),
        Native::Binary { length } => Value::Bytes(vec![0; usize::from(*length)]),
        Native::VarBinary { .. } | Native::Blob { .. } => Value::Bytes(Vec::new()),
        Native::Enum { labels, .. } => Value::Text(labels.first()?.clone()),
        Native::Json => Value::Text("null".into()),
        Native::Uuid => Value::Text("00000000-0000-0000-0000-000000000000".into()),
        Native::Inet4 => Value::Text("0.0.0.0".into()),
        Native::Inet6 => Value::Text("::".into()),
        Native::Geometry { .. } | Native::Vector { .. } => return None,
    })
}

/// The zero date with its time.
pub(super) fn zero_moment(precision: u8) -> String {
    let fraction = if precision == 0 { String::new() } else { format!(".{}", "0".repeat(usize::from(precision))) };
    format!("0000-00-00 00:00:00{fraction}")
}

fn client_text(bytes: &[u8], introducer: Option<&String>, context: &Context) -> Result<String, Fault> {
    let charset = introducer.map_or_else(|| charset::of_text(context), String::as_str);
    context
        .charsets
        .decode(charset, &charset::filled(bytes, charset))
        .map(std::borrow::Cow::into_owned)
        .ok_or_else(|| format!("a default is not readable as {charset}"))
}

/// A literal as the text of a number, date or address.
fn plain(literal: &Literal, context: &Context) -> Result<String, Fault> {
    Ok(match literal {
        Literal::Null => return Err("NULL has no value".into()),
        Literal::Boolean(yes) => u8::from(*yes).to_string(),
        Literal::Number(digits) => digits.clone(),
        Literal::Text { bytes, introducer } => client_text(bytes, introducer.as_ref(), context)?.trim().to_owned(),
        Literal::Hex { bytes, .. } => big_endian(bytes)?.to_string(),
        Literal::Bits(digits) => u64::from_str_radix(digits, 2).map_err(|_| "a bit literal is longer than 64 bits".to_owned())?.to_string(),
    })
}

fn big_endian(bytes: &[u8]) -> Result<u64, Fault> {
    let start = bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len());
    if bytes.len() - start > 8 {
        return Err("a hexadecimal literal is longer than 64 bits".into());
    }
    Ok(bytes[start..].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn bits(literal: &Literal, length: u8, context: &Context) -> Result<Vec<u8>, Fault> {
    let number = match literal {
        Literal::Text { bytes, .. } => big_endian(bytes)?,
        other => plain(other, context)?.parse().map_err(|_| "a default is not understood as bits".to_owned())?,
    };
    if length < 64 && number >> length != 0 {
        return Err(format!("a default is wider than bit({length})"));
    }
    let width = usize::from(length.div_ceil(8));
    Ok(number.to_be_bytes()[8 - width.min(8)..].to_vec())
}

fn bit_bytes(digits: &str) -> Vec<u8> {
    let padded = format!("{}{digits}", "0".repeat((8 - digits.len() % 8) % 8));
    padded.as_bytes().chunks(8).map(|byte| byte.iter().fold(0, |sum, digit| sum << 1 | (digit - b'0'))).collect()
}

/// A literal as text of a column's character set.
fn words(literal: &Literal, own: &Charset, context: &Context) -> Result<String, Fault> {
    let text = match literal {
        Literal::Null => return Err("NULL has no value".into()),
        Literal::Boolean(yes) => u8::from(*yes).to_string(),
        Literal::Number(digits) => number::as_text(digits)?,
        Literal::Text { bytes, introducer } => {
            let binary = introducer.as_deref().filter(|i| *i == "binary").map(|_| own.charset.clone());
            client_text(bytes, binary.as_ref().or(introducer.as_ref()), context)?
        }
        Literal::Hex { bytes, introducer } => {
            let introducer = introducer.as_ref().filter(|i| *i != "binary").unwrap_or(&own.charset);
            client_text(bytes, Some(introducer), context)?
        }
        Literal::Bits(digits) => client_text(&bit_bytes(digits), Some(&own.charset), context)?,
    };
    if own.charset != "binary" && !context.charsets.decoder(&own.charset).is_some_and(|decoder| decoder.has(&text)) {
        return Err(format!("a default has characters that {} has not, or whose table is not known here", own.charset));
    }
    Ok(text)
}

fn text(literal: &Literal, own: &Charset, length: u32, context: &Context) -> Result<String, Fault> {
    let text = words(literal, own, context)?;
    let most = usize::try_from(length).unwrap_or(usize::MAX);
    let count = text.chars().count();
    if count <= most {
        return Ok(text);
    }
    // Trailing blanks beyond the length are cut without an error.
    let kept: String = text.chars().take(most).collect();
    if text.chars().skip(most).all(|c| c == ' ') {
        Ok(kept)
    } else {
        Err(format!("a default of {count} characters is longer than its column"))
    }
}

fn bytes(literal: &Literal, length: u32, context: &Context) -> Result<Vec<u8>, Fault> {
    let bytes = match literal {
        Literal::Null => return Err("NULL has no value".into()),
        Literal::Boolean(yes) => u8::from(*yes).to_string().into_bytes(),
        Literal::Number(digits) => number::as_text(digits)?.into_bytes(),
        Literal::Hex { bytes, .. } => bytes.clone(),
        Literal::Bits(digits) => bit_bytes(digits),
        Literal::Text { bytes, introducer } => {
            if introducer.is_some()
                || bytes.is_ascii()
                || context.charset == context.connection_charset && charset::ascii_bytes_are_ascii(&context.charset)
            {
                bytes.clone()
            } else {
                let text = client_text(bytes, None, context)?;
                let decoder = context.charsets.decoder(&context.connection_charset);
                decoder
                    .and_then(|decoder| decoder.encode(&text))
                    .ok_or_else(|| format!("a default has characters that {} has not", context.connection_charset))?
            }
        }
    };
    if bytes.len() > usize::try_from(length).unwrap_or(usize::MAX) {
        return Err(format!("a default of {} bytes is longer than its column", bytes.len()));
    }
    Ok(bytes)
}

fn label(text: &str, labels: &[String], charset: &Charset) -> Result<String, Fault> {
    let text = text.trim_end_matches(' ');
    let folds = charset.collation.ends_with("_ci");
    let same = |label: &&String| label.as_str() == text || folds && label.to_lowercase() == text.to_lowercase();
    labels.iter().find(same).cloned().ok_or_else(|| "a default is none of its column's labels".into())
}

fn set(text: &str, labels: &[String], charset: &Charset) -> Result<String, Fault> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let wanted = text.split(',').map(|word| label(word, labels, charset)).collect::<Result<Vec<_>, _>>()?;
    Ok(labels.iter().filter(|label| wanted.contains(label)).cloned().collect::<Vec<_>>().join(","))
}

fn timestamp(text: &str, precision: u8, context: &Context) -> Result<Default, Fault> {
    const DAY: i64 = 86_400_000_000;
    let local = temporal::date_time(text, precision, context)?;
    let Value::Micros(micros) = local else { return Ok(Default::Constant(local)) };
    Ok(match context.time_zone.offset(micros.div_euclid(DAY)) {
        Some(offset) => Default::Constant(Value::Micros(micros - i64::from(offset) * 1_000_000)),
        None => Default::Expression(format!("'{text}' in the session's time zone")),
    })
}

/// JSON is printed by the server in its own form: only what has no other form is taken as a constant.
fn json(text: &str) -> Result<Default, Fault> {
    let one_form = matches!(text, "{}" | "[]" | "null" | "true" | "false")
        || text.len() < 10 && text.parse::<i64>().is_ok_and(|n| n.to_string() == text);
    Ok(if one_form { Default::Constant(Value::Text(text.to_owned())) } else { Default::Expression(format!("'{text}' as JSON")) })
}

fn uuid(text: &str) -> Result<String, Fault> {
    let digits: String = text.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
    if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("a default is not understood as a UUID".into());
    }
    Ok([&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-"))
}

fn parsed<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Fault> {
    text.parse().map_err(|_| format!("a default is not understood as {what}"))
}
