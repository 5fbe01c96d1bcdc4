//! Rows in COPY's binary form → one parameter array a column, or one parameter a column.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::{
    Statement,
    types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked},
};

/// A parameter whose bytes are ready.
#[derive(Debug)]
pub struct Ready(Option<Vec<u8>>);

impl ToSql for Ready {
    fn to_sql(&self, _ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            None => Ok(IsNull::Yes),
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_ty: &Type) -> bool {
        true
    }

    fn encode_format(&self, _ty: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}

/// One array for each of the statement's parameters, from the next `rows` rows of `copy`; what is left is returned.
pub fn columns<'a>(copy: &'a [u8], rows: usize, statement: &Statement) -> Option<(Vec<Ready>, &'a [u8])> {
    let size = copy.len().min(1 << 20) / statement.params().len().max(1);
    let mut arrays: Vec<Vec<u8>> = statement.params().iter().map(|ty| head(ty, rows, size)).collect();
    let mut rest = copy;
    for _ in 0..rows {
        rest = each_field(rest, |i, field| {
            if let Some(array) = arrays.get_mut(i) {
                array.extend_from_slice(field);
            }
        })?;
    }
    Some((arrays.into_iter().map(|a| Ready(Some(a))).collect(), rest))
}

fn head(ty: &Type, rows: usize, size: usize) -> Vec<u8> {
    let element = match ty.kind() {
        Kind::Array(element) => element.oid(),
        _ => ty.oid(),
    };
    let mut out = Vec::with_capacity(20 + size);
    // One dimension, with NULLs, counted from 1.
    for word in [1, 1, element, rows as u32, 1] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out
}

/// The fields of the next row of `copy`, one parameter each; what is left is returned.
pub fn fields(copy: &[u8]) -> Option<(Vec<Ready>, &[u8])> {
    let mut out = Vec::new();
    let rest = each_field(copy, |_, field| out.push(Ready((field[..4] != [0xff; 4]).then(|| field[4..].to_vec()))))?;
    Some((out, rest))
}

/// Calls `field` with the index and bytes (length first) of each field of the next row.
fn each_field<'a>(copy: &'a [u8], mut field: impl FnMut(usize, &'a [u8])) -> Option<&'a [u8]> {
    let (count, mut rest) = copy.split_first_chunk::<2>()?;
    for i in 0..usize::from(u16::from_be_bytes(*count)) {
        let length = i32::from_be_bytes(*rest.first_chunk::<4>()?);
        let (bytes, behind) = rest.split_at_checked(4 + usize::try_from(length).unwrap_or(0))?;
        field(i, bytes);
        rest = behind;
    }
    Some(rest)
}
