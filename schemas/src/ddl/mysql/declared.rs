//! Column types as they are declared, synonyms resolved.

use super::{
    charset,
    context::{Context, mode},
    cursor::Cursor,
    statement::{CharsetClause, Declared},
    token::{Fault, Kind},
};
use crate::native::mysql::{Geometry, LobSize, Native};

/// What of a declaration is not in the type itself.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub charset: CharsetClause,
    /// SERIAL.
    pub serial: bool,
}

/// A type and its attributes up to the first that is not about the type.
pub(super) fn declared(cursor: &mut Cursor<'_>) -> Result<(Declared, Extra), Fault> {
    let mut extra = Extra::default();
    let Some(Kind::Word(word)) = cursor.peek() else { return Err(cursor.unexpected("a type")) };
    let word = word.to_ascii_lowercase();
    if cursor.context.has(mode::ORACLE) && cursor.context.mariadb {
        return Err("sql_mode ORACLE gives other meanings to the names of types".into());
    }
    cursor.at += 1;
    let declared = match word.as_str() {
        "tinyint" | "int1" => integer(cursor, 8)?,
        "smallint" | "int2" => integer(cursor, 16)?,
        "mediumint" | "int3" | "middleint" => integer(cursor, 24)?,
        "int" | "integer" | "int4" => integer(cursor, 32)?,
        "bigint" | "int8" => integer(cursor, 64)?,
        "bool" | "boolean" => Declared::Plain(Native::Integer { bits: 8, unsigned: false, zerofill: false, width: Some(1) }),
        "serial" => {
            extra.serial = true;
            Declared::Plain(Native::Integer { bits: 64, unsigned: true, zerofill: false, width: None })
        }
        "decimal" | "dec" | "numeric" | "fixed" => decimal(cursor)?,
        "float" | "float4" => float(cursor, word == "float")?,
        "double" | "float8" => {
            cursor.eat(&["precision"]);
            double(cursor)?
        }
        "real" if cursor.context.has(mode::REAL_AS_FLOAT) => float(cursor, true)?,
        "real" => double(cursor)?,
        "bit" => Declared::Plain(Native::Bit { length: size(cursor)?.map_or(Ok(1), narrow)? }),
        "year" => {
            size(cursor)?;
            Declared::Plain(Native::Year)
        }
        "date" => Declared::Plain(Native::Date),
        "time" => Declared::Plain(Native::Time { precision: precision(cursor)? }),
        "datetime" => Declared::Plain(Native::DateTime { precision: precision(cursor)? }),
        "timestamp" if cursor.context.has(mode::MAXDB) && !cursor.context.mariadb => {
            return Err("sql_mode MAXDB makes TIMESTAMP another type".into());
        }
        "timestamp" => Declared::Plain(Native::Timestamp { precision: precision(cursor)? }),
        "char" | "character" => character(cursor)?,
        "nchar" | "national" => national(cursor, &mut extra, word == "nchar")?,
        "varchar" | "varcharacter" => Declared::VarChar(length(cursor)?),
        "nvarchar" => {
            extra.charset.charset = Some("utf8mb3".into());
            Declared::VarChar(length(cursor)?)
        }
        "binary" => Declared::Plain(Native::Binary { length: size(cursor)?.map_or(Ok(1), narrow)? }),
        "varbinary" => Declared::VarBinary(length(cursor)?),
        "long" => long(cursor),
        "tinytext" => Declared::Text { size: LobSize::Tiny, length: None },
        "text" => Declared::Text { size: LobSize::Normal, length: size(cursor)? },
        "mediumtext" => Declared::Text { size: LobSize::Medium, length: None },
        "longtext" => Declared::Text { size: LobSize::Long, length: None },
        "tinyblob" => Declared::Blob { size: LobSize::Tiny, length: None },
        "blob" => Declared::Blob { size: LobSize::Normal, length: size(cursor)? },
        "mediumblob" => Declared::Blob { size: LobSize::Medium, length: None },
        "longblob" => Declared::Blob { size: LobSize::Long, length: None },
        "enum" => Declared::Enum(labels(cursor)?),
        "set" => Declared::Set(labels(cursor)?),
        "json" => json(cursor.context, &mut extra),
        "uuid" if cursor.context.mariadb => Declared::Plain(Native::Uuid),
        "inet4" if cursor.context.mariadb => Declared::Plain(Native::Inet4),
        "inet6" if cursor.context.mariadb => Declared::Plain(Native::Inet6),
        "vector" => Declared::Plain(Native::Vector { dimensions: size(cursor)?.map_or(Ok(2048), narrow)? }),
        other => match geometry(other) {
            Some(kind) => Declared::Plain(Native::Geometry { kind, srid: None }),
            None => return Err(format!("the type {other} is not known")),
        },
    };
    if has_charset(&declared) {
        attributes(cursor, &mut extra.charset)?;
    }
    Ok((declared, extra))
}

fn has_charset(declared: &Declared) -> bool {
    match declared {
        Declared::Char(_) | Declared::VarChar(_) | Declared::Text { .. } | Declared::Enum(_) | Declared::Set(_) => true,
        Declared::Plain(_) | Declared::Blob { .. } | Declared::VarBinary(_) => false,
    }
}

fn json(context: &Context, extra: &mut Extra) -> Declared {
    if !context.mariadb {
        return Declared::Plain(Native::Json);
    }
    extra.charset = CharsetClause { charset: Some("utf8mb4".into()), collation: Some("utf8mb4_bin".into()), binary: false };
    Declared::Text { size: LobSize::Long, length: None }
}

fn geometry(word: &str) -> Option<Geometry> {
    Some(match word {
        "geometry" => Geometry::Geometry,
        "point" => Geometry::Point,
        "linestring" => Geometry::LineString,
        "polygon" => Geometry::Polygon,
        "multipoint" => Geometry::MultiPoint,
        "multilinestring" => Geometry::MultiLineString,
        "multipolygon" => Geometry::MultiPolygon,
        "geometrycollection" | "geomcollection" => Geometry::GeometryCollection,
        _ => return None,
    })
}

fn narrow<T: TryFrom<u32>>(number: u32) -> Result<T, Fault> {
    T::try_from(number).map_err(|_| format!("a size of {number} is out of range"))
}

fn size(cursor: &mut Cursor<'_>) -> Result<Option<u32>, Fault> {
    if !cursor.eat_punct(b'(') {
        return Ok(None);
    }
    let number = cursor.integer()?;
    cursor.expect_punct(b')')?;
    Ok(Some(number))
}

fn length(cursor: &mut Cursor<'_>) -> Result<u32, Fault> {
    size(cursor)?.ok_or_else(|| cursor.unexpected("a length in brackets"))
}

fn sizes(cursor: &mut Cursor<'_>) -> Result<Option<(u32, Option<u32>)>, Fault> {
    if !cursor.eat_punct(b'(') {
        return Ok(None);
    }
    let first = cursor.integer()?;
    let second = if cursor.eat_punct(b',') { Some(cursor.integer()?) } else { None };
    cursor.expect_punct(b')')?;
    Ok(Some((first, second)))
}

fn precision(cursor: &mut Cursor<'_>) -> Result<u8, Fault> {
    let precision = size(cursor)?.unwrap_or(0);
    if precision > 6 { Err(format!("a precision of {precision} is out of range")) } else { narrow(precision) }
}

/// SIGNED, UNSIGNED and ZEROFILL: (unsigned, zerofill).
fn sign(cursor: &mut Cursor<'_>) -> (bool, bool) {
    let (mut unsigned, mut zerofill) = (false, false);
    loop {
        if cursor.eat(&["unsigned"]) {
            unsigned = true;
        } else if cursor.eat(&["zerofill"]) {
            zerofill = true;
        } else if !cursor.eat(&["signed"]) {
            return (unsigned || zerofill, zerofill);
        }
    }
}

/// The display width that both servers print where none is said.
fn usual_width(bits: u8, unsigned: bool) -> u8 {
    match (bits, unsigned) {
        (8, false) => 4,
        (8, true) => 3,
        (16, false) => 6,
        (16, true) => 5,
        (24, false) => 9,
        (24, true) => 8,
        (32, false) => 11,
        (32, true) => 10,
        _ => 20,
    }
}

fn integer(cursor: &mut Cursor<'_>, bits: u8) -> Result<Declared, Fault> {
    let width = size(cursor)?.map(narrow).transpose()?;
    let (unsigned, zerofill) = sign(cursor);
    let usual = usual_width(bits, unsigned);
    // Since 8.0.19 MySQL keeps the width of TINYINT(1) and of ZEROFILL alone.
    let forgets = !cursor.context.mariadb && cursor.context.version >= 80_019;
    let width = match width {
        Some(0) | None => zerofill.then_some(usual),
        Some(width) if zerofill => Some(width),
        Some(width) if width == usual => None,
        Some(1) if bits == 8 && !unsigned => Some(1),
        Some(_) if forgets => None,
        Some(width) => Some(width),
    };
    Ok(Declared::Plain(Native::Integer { bits, unsigned, zerofill, width }))
}

fn decimal(cursor: &mut Cursor<'_>) -> Result<Declared, Fault> {
    let (precision, scale) = sizes(cursor)?.unwrap_or((10, None));
    let precision = if precision == 0 { 10 } else { precision };
    let scale = scale.unwrap_or(0);
    if precision > 65 || scale > 38 || scale > precision {
        return Err(format!("decimal({precision},{scale}) is out of range"));
    }
    let (unsigned, _) = sign(cursor);
    Ok(Declared::Plain(Native::Decimal { precision: narrow(precision)?, scale: narrow(scale)?, unsigned }))
}

fn digits(sizes: Option<(u32, Option<u32>)>) -> Result<Option<(u8, u8)>, Fault> {
    match sizes {
        Some((width, Some(scale))) => Ok(Some((narrow(width)?, narrow(scale)?))),
        Some((_, None)) | None => Ok(None),
    }
}

fn float(cursor: &mut Cursor<'_>, by_precision: bool) -> Result<Declared, Fault> {
    let sizes = sizes(cursor)?;
    let digits = digits(sizes)?;
    let wide = by_precision && matches!(sizes, Some((25.., None)));
    let (unsigned, _) = sign(cursor);
    Ok(Declared::Plain(if wide { Native::Double { unsigned, digits } } else { Native::Float { unsigned, digits } }))
}

fn double(cursor: &mut Cursor<'_>) -> Result<Declared, Fault> {
    let digits = digits(sizes(cursor)?)?;
    let (unsigned, _) = sign(cursor);
    Ok(Declared::Plain(Native::Double { unsigned, digits }))
}

fn character(cursor: &mut Cursor<'_>) -> Result<Declared, Fault> {
    if cursor.eat_any(&["varying"]) {
        return Ok(Declared::VarChar(length(cursor)?));
    }
    if cursor.eat(&["large", "object"]) {
        return Err("the type CHARACTER LARGE OBJECT is not known".into());
    }
    Ok(Declared::Char(size(cursor)?.unwrap_or(1)))
}

fn national(cursor: &mut Cursor<'_>, extra: &mut Extra, nchar: bool) -> Result<Declared, Fault> {
    extra.charset.charset = Some("utf8mb3".into());
    let varying = cursor.eat(&["varchar"])
        || cursor.eat(&["varcharacter"])
        || (nchar && cursor.eat(&["varying"]))
        || cursor.eat(&["char", "varying"])
        || cursor.eat(&["character", "varying"]);
    if varying {
        return Ok(Declared::VarChar(length(cursor)?));
    }
    if !nchar && !cursor.eat_any(&["char", "character"]) {
        return Err(cursor.unexpected("CHAR"));
    }
    Ok(Declared::Char(size(cursor)?.unwrap_or(1)))
}

fn long(cursor: &mut Cursor<'_>) -> Declared {
    if cursor.eat(&["varbinary"]) {
        return Declared::Blob { size: LobSize::Medium, length: None };
    }
    if !cursor.eat_any(&["varchar", "varcharacter"]) && !cursor.eat(&["char", "varying"]) {
        cursor.eat(&["character", "varying"]);
    }
    Declared::Text { size: LobSize::Medium, length: None }
}

fn labels(cursor: &mut Cursor<'_>) -> Result<Vec<super::statement::Literal>, Fault> {
    cursor.expect_punct(b'(')?;
    let mut labels = Vec::new();
    loop {
        if let Some(Kind::Hex { bytes, introducer }) = cursor.peek() {
            labels.push(super::statement::Literal::Hex { bytes: bytes.clone(), introducer: introducer.clone() });
            cursor.at += 1;
        } else {
            labels.push(cursor.text()?);
        }
        if !cursor.eat_punct(b',') {
            break;
        }
    }
    cursor.expect_punct(b')')?;
    Ok(labels)
}

/// CHARACTER SET, BINARY, ASCII, UNICODE, BYTE, COLLATE, in any order.
fn attributes(cursor: &mut Cursor<'_>, clause: &mut CharsetClause) -> Result<(), Fault> {
    loop {
        if cursor.eat(&["binary"]) {
            clause.binary = true;
        } else if cursor.eat(&["ascii"]) {
            clause.charset = Some("latin1".into());
        } else if cursor.eat(&["unicode"]) {
            clause.charset = Some("ucs2".into());
        } else if cursor.eat(&["byte"]) {
            clause.charset = Some("binary".into());
        } else if charset_words(cursor) {
            clause.charset = Some(charset_value(cursor)?);
        } else if cursor.eat(&["collate"]) {
            clause.collation = Some(collation_value(cursor)?);
        } else {
            return Ok(());
        }
    }
}

pub(super) fn charset_words(cursor: &mut Cursor<'_>) -> bool {
    cursor.eat(&["character", "set"]) || cursor.eat(&["char", "set"]) || cursor.eat(&["charset"])
}

fn word_or_string(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    if matches!(cursor.peek(), Some(Kind::Text { .. })) { cursor.string() } else { cursor.name() }
}

/// The name after CHARACTER SET; `default` stays that word.
pub(super) fn charset_value(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    let name = word_or_string(cursor)?;
    if name.eq_ignore_ascii_case("default") {
        return Ok("default".into());
    }
    charset::charset_name(&name).ok_or_else(|| format!("the character set {name} is not known"))
}

/// The name after COLLATE, whose character set must be known; `default` stays that word.
pub(super) fn collation_value(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    let name = word_or_string(cursor)?;
    if name.eq_ignore_ascii_case("default") {
        return Ok("default".into());
    }
    if name.to_ascii_lowercase().starts_with("uca1400_") {
        return Ok(name.to_ascii_lowercase());
    }
    charset::collation_name(&name).map(|(collation, _)| collation).ok_or_else(|| format!("the collation {name} is not known"))
}
