//! Expressions of defaults and generated columns in one normal form, so that the user's text and the catalog's compare.

use super::token::{Kind, Token};

/// Functions without brackets, and other names of the same.
fn function(word: &str) -> Option<&'static str> {
    Some(match word {
        "now" | "current_timestamp" | "localtime" | "localtimestamp" => "current_timestamp",
        "curdate" | "current_date" => "curdate",
        "curtime" | "current_time" => "curtime",
        "current_user" => "current_user",
        "current_role" => "current_role",
        "utc_timestamp" => "utc_timestamp",
        "utc_date" => "utc_date",
        "utc_time" => "utc_time",
        _ => return None,
    })
}

/// Lower case, names without quotes, one space between tokens.
pub(super) fn render(tokens: &[Token]) -> String {
    let mut out = String::new();
    let mut tight = true;
    for (at, token) in tokens.iter().enumerate() {
        let bracket_follows = tokens.get(at + 1).is_some_and(|next| next.kind == Kind::Punct(b'('));
        let glued = at > 0
            && tokens[at - 1].end == token.start
            && matches!((&tokens[at - 1].kind, &token.kind), (Kind::Punct(a), Kind::Punct(b)) if operator(*a) && operator(*b));
        let opens = token.kind == Kind::Punct(b'(') && at > 0 && matches!(tokens[at - 1].kind, Kind::Word(_) | Kind::Quoted(_));
        let closes = matches!(token.kind, Kind::Punct(b')' | b',' | b'.'));
        if !(tight || closes || opens || glued) {
            out.push(' ');
        }
        match &token.kind {
            Kind::Word(word) => {
                let word = word.to_lowercase();
                match function(&word) {
                    Some(name) => {
                        out.push_str(name);
                        if !bracket_follows {
                            out.push_str("()");
                        }
                    }
                    None => out.push_str(&word),
                }
            }
            Kind::Quoted(name) => out.push_str(&name.to_lowercase()),
            Kind::Text { bytes, .. } => {
                out.push('\'');
                out.push_str(&String::from_utf8_lossy(bytes).replace('\'', "''"));
                out.push('\'');
            }
            Kind::Hex { bytes, .. } => {
                out.push_str("0x");
                for byte in bytes {
                    out.push_str(&format!("{byte:02x}"));
                }
            }
            Kind::Bits(digits) => {
                out.push_str("0b");
                out.push_str(digits);
            }
            Kind::Number(digits) => out.push_str(digits),
            Kind::Punct(byte) => out.push(char::from(*byte)),
        }
        tight = matches!(token.kind, Kind::Punct(b'(' | b'.'));
    }
    out
}

fn operator(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'=' | b'!' | b'|' | b'&' | b'-' | b':')
}
