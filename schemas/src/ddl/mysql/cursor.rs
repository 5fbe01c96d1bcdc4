//! A statement's tokens, read one after the other. Remembers every table that was named.

use std::ops::Range;

use super::{
    charset,
    context::Context,
    statement::Literal,
    token::{Fault, Kind, Token},
};
use crate::table::TableId;

#[derive(Debug)]
pub(super) struct Cursor<'a> {
    pub tokens: &'a [Token],
    pub at: usize,
    pub context: &'a Context,
    pub tables: Vec<TableId>,
}

impl<'a> Cursor<'a> {
    pub fn new(tokens: &'a [Token], context: &'a Context) -> Self {
        Self { tokens, at: 0, context, tables: Vec::new() }
    }

    pub fn peek(&self) -> Option<&'a Kind> {
        self.ahead(0)
    }

    pub fn ahead(&self, by: usize) -> Option<&'a Kind> {
        self.tokens.get(self.at + by).map(|token| &token.kind)
    }

    pub fn done(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Whether a bare word stands `by` tokens ahead.
    pub fn is(&self, by: usize, word: &str) -> bool {
        matches!(self.ahead(by), Some(Kind::Word(found)) if found.eq_ignore_ascii_case(word))
    }

    pub fn any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(0, word))
    }

    /// Takes these words if all of them follow.
    pub fn eat(&mut self, words: &[&str]) -> bool {
        let all = words.iter().enumerate().all(|(by, word)| self.is(by, word));
        if all {
            self.at += words.len();
        }
        all
    }

    /// Takes the first of these words that follows.
    pub fn eat_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.eat(&[word]))
    }

    pub fn is_punct(&self, by: usize, punct: u8) -> bool {
        self.ahead(by) == Some(&Kind::Punct(punct))
    }

    pub fn eat_punct(&mut self, punct: u8) -> bool {
        let follows = self.is_punct(0, punct);
        self.at += usize::from(follows);
        follows
    }

    pub fn expect(&mut self, words: &[&str]) -> Result<(), Fault> {
        if self.eat(words) { Ok(()) } else { Err(self.unexpected(&words.join(" "))) }
    }

    pub fn expect_punct(&mut self, punct: u8) -> Result<(), Fault> {
        if self.eat_punct(punct) { Ok(()) } else { Err(self.unexpected(&char::from(punct).to_string())) }
    }

    /// The fault of a token that does not fit. Literals are not shown: they may be values.
    pub fn unexpected(&self, wanted: &str) -> Fault {
        match self.peek() {
            None => format!("the statement ends where {wanted} should stand"),
            Some(kind) => format!("{} is not understood where {wanted} could stand", shown(kind)),
        }
    }

    /// The fault of a clause that is not known.
    pub fn unknown(&self, place: &str) -> Fault {
        match self.peek() {
            None => format!("the statement ends within {place}"),
            Some(kind) => format!("{} is not understood in {place}", shown(kind)),
        }
    }

    /// A name, quoted or bare. After a point or a quote any word is one.
    pub fn name(&mut self) -> Result<String, Fault> {
        let name = match self.peek() {
            Some(Kind::Word(name) | Kind::Quoted(name)) => name.clone(),
            Some(Kind::Text { .. } | Kind::Hex { .. } | Kind::Bits(_) | Kind::Number(_) | Kind::Punct(_)) | None => {
                return Err(self.unexpected("a name"));
            }
        };
        self.at += 1;
        Ok(name)
    }

    /// A table's name: `t`, `d.t`, `.t`.
    pub fn table(&mut self) -> Result<TableId, Fault> {
        let table = if self.eat_punct(b'.') {
            self.context.table(None, self.name()?)
        } else {
            let first = self.name()?;
            if self.eat_punct(b'.') { self.context.table(Some(first), self.name()?) } else { self.context.table(None, first) }
        };
        if table.namespace.is_empty() {
            return Err(format!("{} has no database and the session had no default one", table.name));
        }
        self.tables.push(table.clone());
        Ok(table)
    }

    /// A column's name, with or without its table's before it.
    pub fn column(&mut self) -> Result<String, Fault> {
        self.eat_punct(b'.');
        let mut name = self.name()?;
        while self.eat_punct(b'.') {
            name = self.name()?;
        }
        Ok(name)
    }

    /// A whole number.
    pub fn integer(&mut self) -> Result<u32, Fault> {
        match self.peek() {
            Some(Kind::Number(digits)) => {
                let number = digits.parse().map_err(|_| format!("{digits} is not understood as a size"))?;
                self.at += 1;
                Ok(number)
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    /// A string literal, adjacent ones joined.
    pub fn text(&mut self) -> Result<Literal, Fault> {
        let (mut bytes, introducer) = match self.peek() {
            Some(Kind::Text { bytes, introducer }) => (bytes.clone(), introducer.clone()),
            _ => return Err(self.unexpected("a string")),
        };
        self.at += 1;
        while let Some(Kind::Text { bytes: more, introducer: None }) = self.peek() {
            bytes.extend(more);
            self.at += 1;
        }
        Ok(Literal::Text { bytes, introducer })
    }

    /// A string literal as text.
    pub fn string(&mut self) -> Result<String, Fault> {
        let Literal::Text { bytes, introducer } = self.text()? else { return Err(self.unexpected("a string")) };
        let charset = introducer.as_deref().unwrap_or(charset::of_text(self.context));
        self.context
            .charsets
            .decode(charset, &bytes)
            .map(std::borrow::Cow::into_owned)
            .ok_or_else(|| format!("a string is not readable as {charset}"))
    }

    /// The tokens between a bracket that follows and its end, brackets apart.
    pub fn bracketed(&mut self) -> Result<Range<usize>, Fault> {
        self.expect_punct(b'(')?;
        let start = self.at;
        let mut depth = 1_u32;
        while depth > 0 {
            match self.peek() {
                Some(Kind::Punct(b'(')) => depth += 1,
                Some(Kind::Punct(b')')) => depth -= 1,
                Some(_) => {}
                None => return Err("a bracket is not closed".into()),
            }
            self.at += 1;
        }
        Ok(start..self.at - 1)
    }

    /// Skips to the next comma outside brackets, or to the end.
    pub fn skip_clause(&mut self) -> Result<(), Fault> {
        while !self.done() && !self.is_punct(0, b',') && !self.is_punct(0, b')') {
            if self.is_punct(0, b'(') {
                self.bracketed()?;
            } else {
                self.at += 1;
            }
        }
        Ok(())
    }

    /// An expression in a normal form that does not depend on quotes, case or spaces.
    pub fn expression(&self, range: Range<usize>) -> String {
        super::expression::render(&self.tokens[strip(self.tokens, range)])
    }
}

/// Without brackets around the whole.
fn strip(tokens: &[Token], mut range: Range<usize>) -> Range<usize> {
    loop {
        let inner = &tokens[range.clone()];
        let (Some(first), Some(last)) = (inner.first(), inner.last()) else { return range };
        if inner.len() < 2 || first.kind != Kind::Punct(b'(') || last.kind != Kind::Punct(b')') {
            return range;
        }
        let mut depth = 0_i32;
        for (at, token) in inner.iter().enumerate() {
            match token.kind {
                Kind::Punct(b'(') => depth += 1,
                Kind::Punct(b')') => depth -= 1,
                _ => {}
            }
            if depth == 0 && at + 1 < inner.len() {
                return range;
            }
        }
        range = range.start + 1..range.end - 1;
    }
}

fn shown(kind: &Kind) -> String {
    match kind {
        Kind::Word(word) => format!("\u{201c}{word}\u{201d}"),
        Kind::Quoted(name) => format!("the name `{name}`"),
        Kind::Text { .. } => "a string".into(),
        Kind::Hex { .. } | Kind::Bits(_) | Kind::Number(_) => "a number".into(),
        Kind::Punct(byte) => format!("\u{201c}{}\u{201d}", char::from(*byte)),
    }
}
