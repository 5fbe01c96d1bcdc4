//! Bytes of a statement into tokens: comments, executable comments, quoting and escapes as the event's own settings have them.

use super::{
    charset,
    context::{Context, mode},
};

/// One token and where it stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A bare word: keyword or name.
    Word(String),
    /// A quoted name.
    Quoted(String),
    /// A string literal, escapes resolved, in the charset of its introducer (none: the client's).
    Text { bytes: Vec<u8>, introducer: Option<String> },
    /// `x'41'` and `0x41`.
    Hex { bytes: Vec<u8>, introducer: Option<String> },
    /// `b'101'` and `0b101`, as digits.
    Bits(String),
    /// A number without a sign, as written.
    Number(String),
    /// Any other character.
    Punct(u8),
}

/// Why a text has no tokens.
pub(super) type Fault = String;

/// The tokens of a statement, and what ended them before its end. Trailing NUL bytes are no part of it.
pub(super) fn tokenize(text: &[u8], context: &Context) -> (Vec<Token>, Option<Fault>) {
    let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if charset::ascii_bytes_are_ascii(&context.charset) || text.is_ascii() {
        return Lexer::new(&text[..end], context, &context.charset).run();
    }
    // In these sets a byte of a wide character can look like a quote: the whole text is made UTF-8 first.
    match context.charsets.decode(&context.charset, &text[..end]) {
        Some(decoded) => Lexer::new(decoded.as_bytes(), context, "utf8mb4").run(),
        None => (Vec::new(), Some(format!("the text is not valid {} (the client's character set)", context.charset))),
    }
}

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    context: &'a Context,
    charset: &'a str,
    /// Inside an executable comment, whose end is code no more than its beginning.
    executable: bool,
    tokens: Vec<Token>,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    fn new(text: &'a [u8], context: &'a Context, charset: &'a str) -> Self {
        Self { text, at: 0, context, charset, executable: false, tokens: Vec::new() }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn run(mut self) -> (Vec<Token>, Option<Fault>) {
        let fault = self.read().err();
        (self.tokens, fault)
    }

    fn read(&mut self) -> Result<(), Fault> {
        while let Some(byte) = self.peek(0) {
            if byte.is_ascii_whitespace() || byte == 0x0b {
                self.at += 1;
            } else if !self.comment(byte)? {
                let start = self.at;
                let kind = self.token(byte)?;
                self.tokens.push(Token { kind, start, end: self.at });
            }
        }
        if self.executable {
            return Err("an executable comment has no end".into());
        }
        Ok(())
    }

    /// Skips a comment, or the bounds of an executable one.
    fn comment(&mut self, byte: u8) -> Result<bool, Fault> {
        let next = self.peek(1);
        match (byte, next) {
            (b'#', _) => self.line(),
            (b'-', Some(b'-')) if self.peek(2).is_none_or(|b| b.is_ascii_whitespace() || b.is_ascii_control()) => self.line(),
            (b'/', Some(b'*')) => return self.block().map(|()| true),
            (b'*', Some(b'/')) if self.executable => {
                self.executable = false;
                self.at += 2;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn line(&mut self) {
        self.at = self.text[self.at..].iter().position(|b| *b == b'\n').map_or(self.text.len(), |length| self.at + length);
    }

    fn block(&mut self) -> Result<(), Fault> {
        let header = match (self.peek(2), self.peek(3)) {
            (Some(b'!'), _) => Some(3),
            (Some(b'M'), Some(b'!')) if self.context.mariadb => Some(4),
            _ => None,
        };
        let Some(header) = header.filter(|_| !self.executable) else {
            return self.skip_block(false);
        };
        let digits = self.text[self.at + header..].iter().take(6).take_while(|b| b.is_ascii_digit()).count();
        let digits = if digits < 5 { 0 } else { digits };
        let version = self.text[self.at + header..][..digits].iter().fold(0_u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        // MariaDB takes the versions from 5.7 to 9.99 for MySQL's own.
        let foreign = self.context.mariadb && header == 3 && (50_700..=99_999).contains(&version);
        if digits > 0 && (version > self.context.version || foreign) {
            return self.skip_block(true);
        }
        self.executable = true;
        self.at += header + digits;
        Ok(())
    }

    /// Skips to the end of a block comment; `nested` ones may hold others.
    fn skip_block(&mut self, nested: bool) -> Result<(), Fault> {
        let mut depth = 1_u32;
        self.at += 2;
        while depth > 0 {
            match (self.peek(0), self.peek(1)) {
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                }
                (Some(b'/'), Some(b'*')) if nested => {
                    depth += 1;
                    self.at += 2;
                }
                (Some(_), _) => self.at += 1,
                (None, _) => return Err("a comment has no end".into()),
            }
        }
        Ok(())
    }

    fn token(&mut self, byte: u8) -> Result<Kind, Fault> {
        match byte {
            b'`' => self.quoted(b'`'),
            b'"' if self.context.has(mode::ANSI_QUOTES) => self.quoted(b'"'),
            b'\'' | b'"' => Ok(Kind::Text { bytes: self.string(byte)?, introducer: None }),
            b'.' if self.peek(1).is_some_and(|b| b.is_ascii_digit()) && !self.after_name() => self.number(),
            _ if is_word(byte) => self.word(byte),
            _ => {
                self.at += 1;
                Ok(Kind::Punct(byte))
            }
        }
    }

    /// Whether a name stands directly before: `t.1e5` is a name, not a number.
    fn after_name(&self) -> bool {
        self.tokens.last().is_some_and(|t| t.end == self.at && matches!(t.kind, Kind::Word(_) | Kind::Quoted(_)))
    }

    fn after_point(&self) -> bool {
        self.tokens.last().is_some_and(|t| t.end == self.at && t.kind == Kind::Punct(b'.'))
    }

    fn quoted(&mut self, quote: u8) -> Result<Kind, Fault> {
        let mut name = Vec::new();
        self.at += 1;
        loop {
            match self.peek(0) {
                Some(byte) if byte == quote && self.peek(1) == Some(quote) => {
                    name.push(quote);
                    self.at += 2;
                }
                Some(byte) if byte == quote => {
                    self.at += 1;
                    return self.name(&name).map(Kind::Quoted);
                }
                Some(byte) => {
                    name.push(byte);
                    self.at += 1;
                }
                None => return Err("a quoted name has no end".into()),
            }
        }
    }

    fn name(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.context
            .charsets
            .decode(self.charset, bytes)
            .map(std::borrow::Cow::into_owned)
            .ok_or_else(|| format!("a name is not readable as {}", self.charset))
    }

    /// The bytes between two quotes, escapes resolved.
    fn string(&mut self, quote: u8) -> Result<Vec<u8>, Fault> {
        let escapes = !self.context.has(mode::NO_BACKSLASH_ESCAPES);
        let mut bytes = Vec::new();
        self.at += 1;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(byte), Some(next)) if byte == quote && next == quote => {
                    bytes.push(quote);
                    self.at += 2;
                }
                (Some(byte), _) if byte == quote => {
                    self.at += 1;
                    return Ok(bytes);
                }
                (Some(b'\\'), Some(next)) if escapes => {
                    match next {
                        b'0' => bytes.push(0),
                        b'b' => bytes.push(8),
                        b'n' => bytes.push(b'\n'),
                        b'r' => bytes.push(b'\r'),
                        b't' => bytes.push(b'\t'),
                        b'Z' => bytes.push(26),
                        // For LIKE: the backslash stays.
                        b'%' | b'_' => bytes.extend([b'\\', next]),
                        other => bytes.push(other),
                    }
                    self.at += 2;
                }
                (Some(byte), _) => {
                    bytes.push(byte);
                    self.at += 1;
                }
                (None, _) => return Err("a string has no end".into()),
            }
        }
    }

    fn word(&mut self, byte: u8) -> Result<Kind, Fault> {
        let length = self.text[self.at..].iter().position(|b| !is_word(*b)).unwrap_or(self.text.len() - self.at);
        let word = &self.text[self.at..self.at + length];
        if byte.is_ascii_digit() && !self.after_point() {
            return self.number_or_word(word);
        }
        let quote_follows = self.text.get(self.at + length) == Some(&b'\'');
        if quote_follows && word.len() == 1 {
            match byte {
                b'x' | b'X' => return self.prefixed().and_then(|digits| hex(&digits)).map(|bytes| Kind::Hex { bytes, introducer: None }),
                b'b' | b'B' => return self.prefixed().and_then(bits),
                b'n' | b'N' => {
                    self.at += 1;
                    return Ok(Kind::Text { bytes: self.string(b'\'')?, introducer: Some("utf8mb3".into()) });
                }
                _ => {}
            }
        }
        let word = self.name(word)?;
        self.at += length;
        match word.strip_prefix('_').and_then(charset::charset_name) {
            Some(charset) => self.introduced(word, charset),
            None => Ok(Kind::Word(word)),
        }
    }

    /// A literal after its introducer; without one the word is a name.
    fn introduced(&mut self, word: String, charset: String) -> Result<Kind, Fault> {
        let back = self.at;
        while self.peek(0).is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
        let double = self.peek(0) == Some(b'"') && !self.context.has(mode::ANSI_QUOTES);
        match (self.peek(0), self.peek(1)) {
            (Some(b'\''), _) => self.introduced_text(b'\'', charset),
            (Some(b'"'), _) if double => self.introduced_text(b'"', charset),
            (Some(b'x' | b'X'), Some(b'\'')) => {
                let bytes = self.prefixed().and_then(|digits| hex(&digits))?;
                Ok(Kind::Hex { bytes, introducer: Some(charset) })
            }
            (Some(b'0'), Some(b'x')) => match self.word(b'0')? {
                Kind::Hex { bytes, .. } => Ok(Kind::Hex { bytes, introducer: Some(charset) }),
                other => Ok(other),
            },
            _ => {
                self.at = back;
                Ok(Kind::Word(word))
            }
        }
    }

    fn introduced_text(&mut self, quote: u8, charset: String) -> Result<Kind, Fault> {
        let bytes = self.string(quote)?;
        if bytes.is_ascii() || self.charset == self.context.charset {
            return Ok(Kind::Text { bytes, introducer: Some(charset) });
        }
        Err(format!("the bytes of a string in {charset} are lost in a text that was made UTF-8"))
    }

    /// The text of `x'…'`, `b'…'`.
    fn prefixed(&mut self) -> Result<Vec<u8>, Fault> {
        self.at += 1;
        self.string(b'\'')
    }

    fn number_or_word(&mut self, word: &[u8]) -> Result<Kind, Fault> {
        if let Some(digits) = word.strip_prefix(b"0x").filter(|d| !d.is_empty() && d.iter().all(u8::is_ascii_hexdigit)) {
            self.at += word.len();
            return hex(digits).map(|bytes| Kind::Hex { bytes, introducer: None });
        }
        if let Some(digits) = word.strip_prefix(b"0b").filter(|d| !d.is_empty() && d.iter().all(|b| matches!(b, b'0' | b'1'))) {
            let digits = digits.to_vec();
            self.at += word.len();
            return bits(digits);
        }
        let digits = word.iter().take_while(|b| b.is_ascii_digit()).count();
        let exponent = matches!(word.get(digits), Some(b'e' | b'E'))
            && (word.len() == digits + 1 && matches!(self.text.get(self.at + digits + 1), Some(b'+' | b'-'))
                || word.len() > digits + 1 && word[digits + 1..].iter().all(u8::is_ascii_digit));
        if digits == word.len() || exponent {
            return self.number();
        }
        let name = self.name(word)?;
        self.at += word.len();
        Ok(Kind::Word(name))
    }

    fn number(&mut self) -> Result<Kind, Fault> {
        let start = self.at;
        let digits = |lexer: &mut Self| {
            while lexer.peek(0).is_some_and(|b| b.is_ascii_digit()) {
                lexer.at += 1;
            }
        };
        digits(self);
        if self.peek(0) == Some(b'.') {
            self.at += 1;
            digits(self);
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            if self.peek(1 + sign).is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1 + sign;
                digits(self);
            }
        }
        if self.peek(0).is_some_and(is_word) {
            return Err("a number runs into a word".into());
        }
        self.name(&self.text[start..self.at]).map(Kind::Number)
    }
}

fn hex(digits: &[u8]) -> Result<Vec<u8>, Fault> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok()).ok_or("a hexadecimal literal has other digits");
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
    let (first, rest) = digits.split_at(digits.len() % 2);
    for byte in first {
        bytes.push(digit(*byte)?);
    }
    for [high, low] in rest.as_chunks::<2>().0 {
        bytes.push(digit(*high)? * 16 + digit(*low)?);
    }
    Ok(bytes)
}

fn bits(digits: Vec<u8>) -> Result<Kind, Fault> {
    if digits.iter().any(|b| !matches!(b, b'0' | b'1')) {
        return Err("a bit literal has other digits than 0 and 1".into());
    }
    String::from_utf8(digits).map(Kind::Bits).map_err(|_| "a bit literal has other digits than 0 and 1".into())
}
