//! Definitions as columns: character set, size and default settled.

use super::{
    charset::{self, binary_collation, default_collation},
    context::Context,
    literal::evaluate,
    statement::{CharsetClause, ColumnDefinition, Declared, DefaultClause, Literal},
    token::Fault,
};
use crate::{
    native::mysql::{Charset, LobSize, Native},
    table::{Column, Default},
};

/// The character set and collation that a clause gives over a default one (none: not known).
pub(super) fn settle(clause: &CharsetClause, over: Option<&str>, context: &Context) -> Result<Option<Charset>, Fault> {
    let outer = over.and_then(charset::collation_name);
    let stated = clause.charset.as_deref().filter(|name| *name != "default");
    let charset = match (stated, &outer) {
        (Some(name), _) => Some(name.to_owned()),
        (None, Some((_, charset))) => Some(charset.clone()),
        (None, None) => None,
    };
    if let Some(collation) = clause.collation.as_deref().filter(|name| *name != "default") {
        if let Some((collation, own)) = charset::collation_name(collation) {
            return Ok(Some(Charset { charset: own, collation }));
        }
        let charset = charset.ok_or_else(|| format!("the collation {collation} needs a character set that is not known here"))?;
        return Ok(Some(Charset { collation: format!("{charset}_{collation}"), charset }));
    }
    let Some(charset) = charset else { return Ok(None) };
    let by_default = clause.collation.is_some();
    let collation = match (clause.binary, stated, outer) {
        (true, _, _) => binary_collation(&charset),
        (false, None, Some((collation, _))) if !by_default => collation,
        (false, _, _) => default_collation(&charset, context),
    };
    Ok(Some(Charset { charset, collation }))
}

/// A column without its identity.
pub(super) fn column(definition: &ColumnDefinition, table_collation: Option<&str>, context: &Context) -> Result<Column, Fault> {
    let named = |why: Fault| format!("column {}: {why}", definition.name);
    let native = native(definition, table_collation, context).map_err(named)?;
    let implicit_null = context.explicit_defaults_for_timestamp || !matches!(native, Native::Timestamp { .. });
    let nullable = definition.nullable.unwrap_or(implicit_null) && !definition.identity && !definition.primary;
    let default = match &definition.default {
        None => None,
        Some(clause) => default(clause, &native, context).map_err(named)?,
    };
    Ok(Column {
        id: crate::table::ColumnId(0),
        name: definition.name.clone(),
        native: crate::native::Native::MySql(native),
        nullable,
        default,
        generated: definition.generated.clone(),
        identity: definition.identity,
        invisible: definition.invisible,
        comment: definition.comment.clone(),
        as_text: false,
    })
}

/// A default in a column's type.
pub(super) fn default(clause: &DefaultClause, native: &Native, context: &Context) -> Result<Option<Default>, Fault> {
    match clause {
        // The clock is read with the column's own precision.
        DefaultClause::Expression(text) if text.starts_with("current_timestamp(") && text.len() <= "current_timestamp(6)".len() => {
            let precision = match native {
                Native::DateTime { precision } | Native::Timestamp { precision } => *precision,
                _ => return Ok(Some(Default::Expression(text.clone()))),
            };
            Ok(Some(Default::Expression(if precision == 0 {
                "current_timestamp()".into()
            } else {
                format!("current_timestamp({precision})")
            })))
        }
        DefaultClause::Expression(text) => Ok(Some(Default::Expression(text.clone()))),
        DefaultClause::Literal(literal) => evaluate(literal, native, context),
    }
}

fn native(definition: &ColumnDefinition, table_collation: Option<&str>, context: &Context) -> Result<Native, Fault> {
    let compressed = definition.compressed;
    match &definition.declared {
        Declared::Plain(Native::Geometry { kind, .. }) => Ok(Native::Geometry { kind: *kind, srid: definition.srid }),
        Declared::Plain(native) => Ok(native.clone()),
        Declared::Blob { size, length } => Ok(Native::Blob { size: length.map_or(*size, lob_size), compressed }),
        Declared::VarBinary(length) if *length > 65_535 => {
            too_long(*length, context)?;
            Ok(Native::Blob { size: lob_size(*length), compressed })
        }
        Declared::VarBinary(length) => Ok(Native::VarBinary { length: *length, compressed }),
        Declared::Char(_) | Declared::VarChar(_) | Declared::Text { .. } | Declared::Enum(_) | Declared::Set(_) => {
            let charset = settle(&definition.charset, table_collation, context)?
                .ok_or("its character set is the default of a database whose own is not known here")?;
            of_text(&definition.declared, charset, compressed, context)
        }
    }
}

fn too_long(length: u32, context: &Context) -> Result<(), Fault> {
    if context.strict() { Err(format!("a length of {length} is more than the server takes")) } else { Ok(()) }
}

fn of_text(declared: &Declared, charset: Charset, compressed: bool, context: &Context) -> Result<Native, Fault> {
    let binary = charset.charset == "binary";
    let widest = charset::widest(&charset.charset);
    Ok(match declared {
        Declared::Char(length) => {
            let length = u16::try_from(*length).ok().filter(|l| *l <= 255).ok_or("a CHAR is longer than 255")?;
            if binary { Native::Binary { length } } else { Native::Char { length, charset } }
        }
        Declared::VarChar(length) => {
            let bytes = length.saturating_mul(widest);
            match (bytes > 65_535, binary) {
                (false, true) => Native::VarBinary { length: *length, compressed },
                (false, false) => Native::VarChar { length: *length, charset, compressed },
                (true, _) => {
                    too_long(*length, context)?;
                    lob(lob_size(bytes), charset, compressed)
                }
            }
        }
        Declared::Text { size, length } => lob(length.map_or(*size, |length| lob_size(length.saturating_mul(widest))), charset, compressed),
        Declared::Enum(labels) => Native::Enum { labels: texts(labels, &charset, context)?, charset },
        Declared::Set(labels) => Native::Set { labels: texts(labels, &charset, context)?, charset },
        Declared::Plain(_) | Declared::Blob { .. } | Declared::VarBinary(_) => {
            return Err("a type without a character set was given one".into());
        }
    })
}

fn lob(size: LobSize, charset: Charset, compressed: bool) -> Native {
    if charset.charset == "binary" { Native::Blob { size, compressed } } else { Native::Text { size, charset, compressed } }
}

/// The smallest TEXT or BLOB that holds so many bytes.
pub(super) fn lob_size(bytes: u32) -> LobSize {
    match bytes {
        0 => LobSize::Normal,
        1..=255 => LobSize::Tiny,
        256..=65_535 => LobSize::Normal,
        65_536..=16_777_215 => LobSize::Medium,
        16_777_216.. => LobSize::Long,
    }
}

/// The most bytes that a TEXT or BLOB holds.
pub(crate) fn lob_bytes(size: LobSize) -> u32 {
    match size {
        LobSize::Tiny => 255,
        LobSize::Normal => 65_535,
        LobSize::Medium => 16_777_215,
        LobSize::Long => u32::MAX,
    }
}

fn texts(labels: &[Literal], charset: &Charset, context: &Context) -> Result<Vec<String>, Fault> {
    let decode = |bytes: &[u8], charset: &str| {
        context.charsets.decode(charset, &charset::filled(bytes, charset)).map(|text| text.trim_end_matches(' ').to_owned())
    };
    labels
        .iter()
        .map(|label| {
            let decoded = match label {
                Literal::Hex { bytes, introducer } => decode(bytes, introducer.as_deref().unwrap_or(&charset.charset)),
                Literal::Text { bytes, introducer } => decode(bytes, introducer.as_deref().unwrap_or(charset::of_text(context))),
                Literal::Null | Literal::Boolean(_) | Literal::Number(_) | Literal::Bits(_) => None,
            };
            decoded.ok_or_else(|| "a label is not readable in its character set".into())
        })
        .collect()
}
