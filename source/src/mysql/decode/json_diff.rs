//! Differences of JSON documents, as MySQL logs them in updates (`binlog_row_value_options=PARTIAL_JSON`).

use std::borrow::Cow;

use super::{
    Malformed,
    cursor::{Cursor, bit},
    json::{self, Node},
    layout::code,
    rows::Rows,
};

const WHAT: &str = "a difference of a JSON document";

fn unreadable(problem: impl Into<String>) -> Malformed {
    Malformed::Unreadable { what: WHAT, problem: problem.into() }
}

/// Reads what stands before an after image: which columns hold differences there. Returns where the image begins.
pub(super) fn differences(rows: &Rows, at: usize, out: &mut Vec<bool>) -> Result<usize, Malformed> {
    const DIFFERENCES: u64 = 1;
    let data = rows.data();
    let mut cursor = Cursor::new(data.get(at..).ok_or(Malformed::Truncated(WHAT))?, WHAT);
    out.clear();
    let options = cursor.packed()?;
    if options & !DIFFERENCES != 0 {
        return Err(unreadable(format!("unknown value options {options}")));
    }
    if options & DIFFERENCES != 0 {
        let json = |i: usize| rows.map.columns[i].physical.code == code::JSON;
        let columns = rows.map.columns.len();
        let bits = cursor.take((0..columns).filter(|i| json(*i)).count().div_ceil(8))?;
        let mut next = 0;
        for i in 0..columns {
            out.push(json(i) && bit(bits, next));
            next += usize::from(json(i));
        }
    }
    Ok(data.len() - cursor.rest().len())
}

/// Applies a difference to a document and prints what it leads to.
pub(super) fn apply(out: &mut Vec<u8>, document: &[u8], difference: &[u8]) -> Result<(), Malformed> {
    const REPLACE: u8 = 0;
    const INSERT: u8 = 1;
    const REMOVE: u8 = 2;
    let mut root = json::tree(document)?;
    let mut cursor = Cursor::new(difference, WHAT);
    while !cursor.is_empty() {
        let operation = cursor.u8()?;
        let path = path(cursor.packed_bytes()?)?;
        match operation {
            REPLACE => *find(&mut root, &path)? = json::tree(cursor.packed_bytes()?)?,
            INSERT => {
                let value = json::tree(cursor.packed_bytes()?)?;
                insert(&mut root, &path, value)?;
            }
            REMOVE => remove(&mut root, &path)?,
            other => return Err(unreadable(format!("unknown operation {other}"))),
        }
    }
    json::print_tree(out, &root)
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Leg {
    Member(Vec<u8>),
    Cell(usize),
}

/// Reads a path: `$.a."b c"[3]`.
fn path(text: &[u8]) -> Result<Vec<Leg>, Malformed> {
    let bad = || unreadable(format!("the path {:?} is not understood", String::from_utf8_lossy(text)));
    let mut rest = text.strip_prefix(b"$").ok_or_else(bad)?;
    let mut legs = Vec::new();
    while let Some((first, behind)) = rest.split_first() {
        match first {
            b'.' if behind.first() == Some(&b'"') => {
                let end = closing_quote(behind).ok_or_else(bad)?;
                let name: String = serde_json::from_slice(&behind[..=end]).map_err(|_| bad())?;
                legs.push(Leg::Member(name.into_bytes()));
                rest = &behind[end + 1..];
            }
            b'.' => {
                let end = behind.iter().position(|byte| matches!(byte, b'.' | b'[')).unwrap_or(behind.len());
                if end == 0 || behind[..end].contains(&b'*') {
                    return Err(bad());
                }
                legs.push(Leg::Member(behind[..end].to_vec()));
                rest = &behind[end..];
            }
            b'[' => {
                let end = behind.iter().position(|byte| *byte == b']').ok_or_else(bad)?;
                let number = std::str::from_utf8(&behind[..end]).ok().and_then(|digits| digits.trim().parse().ok());
                legs.push(Leg::Cell(number.ok_or_else(bad)?));
                rest = &behind[end + 1..];
            }
            _ => return Err(bad()),
        }
    }
    Ok(legs)
}

/// Where the quoted name that the text begins with ends.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().enumerate().skip(1).find_map(|(i, byte)| {
        let end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        end.then_some(i)
    })
}

fn missing() -> Malformed {
    unreadable("its path is not in the document of the before image")
}

fn find<'n, 'b>(root: &'n mut Node<'b>, path: &[Leg]) -> Result<&'n mut Node<'b>, Malformed> {
    path.iter().try_fold(root, |node, leg| match (node, leg) {
        (Node::Object(members), Leg::Member(name)) => {
            members.iter_mut().find(|(key, _)| **key == *name).map(|(_, value)| value).ok_or_else(missing)
        }
        (Node::Array(cells), Leg::Cell(i)) => cells.get_mut(*i).ok_or_else(missing),
        // What is no array is an array of itself alone.
        (node @ (Node::Object(_) | Node::Scalar(..)), Leg::Cell(0)) => Ok(node),
        (Node::Object(_) | Node::Array(_) | Node::Scalar(..), Leg::Member(_) | Leg::Cell(_)) => Err(missing()),
    })
}

fn insert<'b>(root: &mut Node<'b>, path: &[Leg], value: Node<'b>) -> Result<(), Malformed> {
    let (last, parents) = path.split_last().ok_or_else(missing)?;
    match (find(root, parents)?, last) {
        (Node::Object(members), Leg::Member(name)) => {
            // Keys stand in the order of their length, then of their bytes.
            let place = members.binary_search_by(|(key, _)| (key.len(), &**key).cmp(&(name.len(), name.as_slice())));
            match place {
                Ok(_) => Err(unreadable("it inserts a member that is there already")),
                Err(place) => {
                    members.insert(place, (Cow::Owned(name.clone()), value));
                    Ok(())
                }
            }
        }
        (Node::Array(cells), Leg::Cell(i)) => {
            cells.insert((*i).min(cells.len()), value);
            Ok(())
        }
        (Node::Object(_) | Node::Array(_) | Node::Scalar(..), Leg::Member(_) | Leg::Cell(_)) => Err(missing()),
    }
}

fn remove(root: &mut Node<'_>, path: &[Leg]) -> Result<(), Malformed> {
    let (last, parents) = path.split_last().ok_or_else(missing)?;
    match (find(root, parents)?, last) {
        (Node::Object(members), Leg::Member(name)) => {
            let place = members.iter().position(|(key, _)| **key == *name).ok_or_else(missing)?;
            members.remove(place);
            Ok(())
        }
        (Node::Array(cells), Leg::Cell(i)) if *i < cells.len() => {
            cells.remove(*i);
            Ok(())
        }
        (Node::Object(_) | Node::Array(_) | Node::Scalar(..), Leg::Member(_) | Leg::Cell(_)) => Err(missing()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a": 1, "bb": [true, "x"]}`: an object, and in it an array, as the server stores them.
    const DOCUMENT: &[u8] = b"\0\x02\0\x25\0\x12\0\x01\0\x13\0\x02\0\x05\x01\0\x02\x15\0abb\x02\0\x10\0\x04\x01\0\x0c\x0a\0\x01x\0\0\0\0";

    fn difference(operation: u8, path: &str, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![operation, path.len() as u8];
        bytes.extend(path.as_bytes());
        if operation != 2 {
            bytes.push(value.len() as u8);
            bytes.extend(value);
        }
        bytes
    }

    fn applied(difference: &[u8]) -> Result<String, String> {
        let mut out = Vec::new();
        apply(&mut out, DOCUMENT, difference).map(|()| String::from_utf8(out).unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn each_operation_does_what_the_server_did() {
        let seven = [5, 7, 0];
        assert_eq!(applied(&[]).unwrap(), r#"{"a": 1, "bb": [true, "x"]}"#);
        assert_eq!(applied(&difference(0, "$.a", &seven)).unwrap(), r#"{"a": 7, "bb": [true, "x"]}"#);
        assert_eq!(applied(&difference(0, "$.bb[1]", &seven)).unwrap(), r#"{"a": 1, "bb": [true, 7]}"#);
        assert_eq!(applied(&difference(0, "$", &seven)).unwrap(), "7");
        assert_eq!(applied(&difference(1, "$.b", &seven)).unwrap(), r#"{"a": 1, "b": 7, "bb": [true, "x"]}"#);
        assert_eq!(applied(&difference(1, "$.\"a \\\"\"", &seven)).unwrap(), r#"{"a": 1, "bb": [true, "x"], "a \"": 7}"#);
        assert_eq!(applied(&difference(1, "$.bb[0]", &seven)).unwrap(), r#"{"a": 1, "bb": [7, true, "x"]}"#);
        assert_eq!(applied(&difference(1, "$.bb[9]", &seven)).unwrap(), r#"{"a": 1, "bb": [true, "x", 7]}"#);
        assert_eq!(applied(&difference(2, "$.bb[0]", &[])).unwrap(), r#"{"a": 1, "bb": ["x"]}"#);
        let two = [difference(2, "$.a", &[]), difference(0, "$.bb", &seven)].concat();
        assert_eq!(applied(&two).unwrap(), r#"{"bb": 7}"#);
    }

    #[test]
    fn what_does_not_fit_the_document_is_an_error() {
        for (operation, path, problem) in [
            (0, "$.z", "is not in the document"),
            (2, "$.bb[2]", "is not in the document"),
            (1, "$.a", "is there already"),
            (1, "$", "is not in the document"),
            (0, "$.*", "is not understood"),
            (0, "$[last]", "is not understood"),
            (0, "a", "is not understood"),
            (3, "$.a", "unknown operation 3"),
        ] {
            let error = applied(&difference(operation, path, &[5, 7, 0])).unwrap_err();
            assert!(error.contains(problem), "{path}: {error}");
        }
        let whole = difference(0, "$.a", &[5, 7, 0]);
        for end in 1..whole.len() {
            assert!(applied(&whole[..end]).is_err(), "{end}");
        }
    }
}
