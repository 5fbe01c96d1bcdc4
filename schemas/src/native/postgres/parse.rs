//! A type declaration as a person writes it, for `type_map`.

use super::{FRACTION, Native};
use crate::native::Unsupported;

impl Native {
    /// The type that `declaration` names: `varchar(20)`, `numeric(10,2)`, `timestamp(3) with time zone`, `integer[]` …
    ///
    /// # Errors
    ///
    /// The name is none of the built-in types of this table, or its size is not one.
    pub fn parse(declaration: &str) -> Result<Native, Unsupported> {
        let refuse = |why: &str| Unsupported { declaration: declaration.to_owned(), why: why.to_owned() };
        let text = declaration.trim().to_ascii_lowercase();
        if let Some(element) = text.strip_suffix("[]") {
            return Ok(Native::Array { element: Box::new(Native::parse(element)?), dimensions: 1 });
        }
        let (name, sizes) = split(&text).ok_or_else(|| refuse("its size is not a list of numbers in brackets"))?;
        named(&name, &sizes).ok_or_else(|| refuse("no PostgreSQL type of this name and size is known here"))
    }
}

/// Name without the sizes, words apart by one blank; and the sizes.
fn split(text: &str) -> Option<(String, Vec<i64>)> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((head, rest)) = text.split_once('(') else { return Some((words(text), Vec::new())) };
    let (inside, tail) = rest.split_once(')')?;
    let sizes = inside.split(',').map(|size| size.trim().parse().ok()).collect::<Option<Vec<_>>>()?;
    Some((words(&format!("{head} {tail}")), sizes))
}

fn named(name: &str, sizes: &[i64]) -> Option<Native> {
    let length = || match sizes {
        [] => Some(None),
        [length] => u32::try_from(*length).ok().filter(|n| *n > 0).map(Some),
        _more => None,
    };
    let fraction = || match sizes {
        [] => Some(FRACTION),
        [digits] => u8::try_from(*digits).ok().filter(|p| *p <= FRACTION),
        _more => None,
    };
    let unsized_type = |native: Native| sizes.is_empty().then_some(native);
    match name {
        "numeric" | "decimal" => Some(Native::Numeric { size: numeric(sizes)? }),
        "character varying" | "varchar" => Some(Native::VarChar { length: length()? }),
        "character" | "char" | "bpchar" => Some(Native::Char { length: length()?.unwrap_or(1) }),
        "bit" => Some(Native::Bit { length: length()?.unwrap_or(1) }),
        "bit varying" | "varbit" => Some(Native::VarBit { length: length()? }),
        "time" | "time without time zone" => Some(Native::Time { precision: fraction()? }),
        "timetz" | "time with time zone" => Some(Native::TimeTz { precision: fraction()? }),
        "timestamp" | "timestamp without time zone" => Some(Native::Timestamp { precision: fraction()? }),
        "timestamptz" | "timestamp with time zone" => Some(Native::TimestampTz { precision: fraction()? }),
        "interval" => Some(Native::Interval { precision: fraction()? }),
        "boolean" | "bool" => unsized_type(Native::Boolean),
        "smallint" | "int2" => unsized_type(Native::SmallInt),
        "integer" | "int" | "int4" => unsized_type(Native::Integer),
        "bigint" | "int8" => unsized_type(Native::BigInt),
        "real" | "float4" => unsized_type(Native::Real),
        "double precision" | "float8" => unsized_type(Native::Double),
        "money" => unsized_type(Native::Money),
        "text" => unsized_type(Native::Text),
        "\"char\"" => unsized_type(Native::InternalChar),
        "name" => unsized_type(Native::Name),
        "bytea" => unsized_type(Native::Bytea),
        "date" => unsized_type(Native::Date),
        "uuid" => unsized_type(Native::Uuid),
        "json" => unsized_type(Native::Json),
        "jsonb" => unsized_type(Native::Jsonb),
        "xml" => unsized_type(Native::Xml),
        "inet" => unsized_type(Native::Inet),
        "cidr" => unsized_type(Native::Cidr),
        "macaddr" => unsized_type(Native::MacAddr),
        "macaddr8" => unsized_type(Native::MacAddr8),
        "oid" => unsized_type(Native::Oid),
        _unknown => None,
    }
}

fn numeric(sizes: &[i64]) -> Option<Option<(u16, i16)>> {
    let precision = |p: &i64| u16::try_from(*p).ok().filter(|p| (1..=1000).contains(p));
    match sizes {
        [] => Some(None),
        [p] => Some(Some((precision(p)?, 0))),
        [p, s] => Some(Some((precision(p)?, i16::try_from(*s).ok().filter(|s| (-1000..=1000).contains(s))?))),
        _more => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        for text in [
            "smallint",
            "numeric",
            "numeric(5,-2)",
            "numeric(65,30)",
            "character varying(20)",
            "character varying",
            "bit(3)",
            "timestamp(3) without time zone",
            "timestamp with time zone",
            "interval(0)",
            "interval",
            "bytea",
            "integer[]",
        ] {
            assert_eq!(Native::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn short_names_are_known_and_nonsense_is_refused() {
        assert_eq!(Native::parse("TimestampTZ(3)").unwrap(), Native::TimestampTz { precision: 3 });
        assert_eq!(Native::parse("varchar( 7 )").unwrap(), Native::VarChar { length: Some(7) });
        for text in ["varchar(0)", "text(3)", "numeric(1001)", "timestamp(9)", "colour", "numeric(x)", ""] {
            assert!(Native::parse(text).is_err(), "{text}");
        }
    }
}
