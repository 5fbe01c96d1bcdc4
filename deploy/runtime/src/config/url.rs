//! Server addresses as URLs.

use std::{collections::BTreeMap, fmt::Write};

use super::{Secret, Url, secret::substitute};

/// A URL from its configured form. References in the part before `@` are taken literally, so that a password may hold any character.
///
/// # Errors
///
/// What is wrong; the text itself is never shown, since it may hold a password.
pub(super) fn parse(template: &str) -> Result<Url, String> {
    let literal = |after: &str, value: &str| if after.contains('@') { encode(value) } else { value.to_owned() };
    let text = substitute(template, literal)?;
    let (scheme, rest) = text.split_once("://").ok_or("is no URL; write scheme://user:password@host:port/database")?;
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = before.split_once('/').unwrap_or((before, ""));
    // What follows would be taken for a host or a parameter, and shown.
    if !authority.contains('@') && rest.contains('@') {
        return Err("has a / or ? in its user or password; write / as %2F, ? as %3F and @ as %40".into());
    }
    let (user, address) = match authority.rsplit_once('@') {
        Some((user, address)) => (Some(user), address),
        None => (None, authority),
    };
    let (user, password) = match user.map(|user| user.split_once(':').map_or((user, None), |(u, p)| (u, Some(p)))) {
        Some((user, password)) => (Some(decode(user)?), password.map(decode).transpose()?),
        None => (None, None),
    };
    let (host, port) = host_port(address)?;
    let mut parameters = BTreeMap::new();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("the parameter {pair:?} has no value"))?;
        parameters.insert(decode(name)?, decode(value)?);
    }
    Ok(Url {
        scheme: scheme.to_ascii_lowercase(),
        user: user.filter(|u| !u.is_empty()),
        password: password.map(Secret::new),
        host,
        port,
        database: Some(decode(database)?).filter(|d| !d.is_empty()),
        parameters,
    })
}

fn host_port(address: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("the address in [ ] does not end")?;
            (host, rest.strip_prefix(':'))
        }
        None => address.rsplit_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("has no host".into());
    }
    let port = port.map(|port| port.parse().map_err(|_| format!("{port:?} is not a port"))).transpose()?;
    Ok((decode(host)?, port))
}

fn encode(value: &str) -> String {
    value.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

fn decode(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("a % is not followed by two hexadecimal digits; write a % itself as %25".into());
        };
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).map_err(|_| "its escapes are not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let url = parse("MySQL://repl:p%40ss:w@db.example:3307/my%2Fshop?ssl-mode=required&a=b%20c").unwrap();
        assert_eq!(
            url,
            Url {
                scheme: "mysql".into(),
                user: Some("repl".into()),
                password: Some(Secret::new("p@ss:w")),
                host: "db.example".into(),
                port: Some(3307),
                database: Some("my/shop".into()),
                parameters: [("ssl-mode".into(), "required".into()), ("a".into(), "b c".into())].into(),
            }
        );
        let url = parse("postgres://[::1]:5432").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.user, url.database), ("::1", Some(5432), None, None));
        assert_eq!(parse("postgres://user@host/").unwrap().database, None);
    }

    #[test]
    fn a_secret_may_hold_any_character() {
        let path = std::env::temp_dir().join(format!("instar-url-{}", std::process::id()));
        std::fs::write(&path, "p@s/s:w%d?é\n").unwrap();
        let url = parse(&format!("mysql://repl:${{file:{}}}@h/d", path.display())).unwrap();
        std::fs::write(&path, "mysql://u:p@h:1/d\n").unwrap();
        let whole = parse(&format!("${{file:{}}}", path.display()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(url.password, Some(Secret::new("p@s/s:w%d?é")));
        assert_eq!((url.host.as_str(), url.database.as_deref()), ("h", Some("d")));
        assert_eq!(whole.unwrap().password, Some(Secret::new("p")));
        assert_eq!(format!("{:?}", url.password), "Some(***)");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (text, message) in [
            ("shop", "is no URL; write scheme://user:password@host:port/database"),
            ("mysql://u:sec/ret@h/d", "has a / or ? in its user or password; write / as %2F, ? as %3F and @ as %40"),
            ("mysql://u:sec?ret@h/d", "has a / or ? in its user or password; write / as %2F, ? as %3F and @ as %40"),
            ("mysql://u:secret@/d", "has no host"),
            ("mysql://u:secret@h:x1/d", "\"x1\" is not a port"),
            ("mysql://u:secret%@h/d", "a % is not followed by two hexadecimal digits; write a % itself as %25"),
            ("mysql://u:secret@h/d?tls", "the parameter \"tls\" has no value"),
            ("mysql://u:${env:INSTAR_NOT_SET}@h/d", "the environment variable INSTAR_NOT_SET is not set"),
            ("mysql://u:${HOME}@h/d", "${HOME} is neither ${env:NAME} nor ${file:PATH}"),
            ("mysql://u:${env:HOME", "${env:HOME has no closing brace"),
            ("mysql://u:${file:/nowhere/x}@h/d", "the file /nowhere/x cannot be read: No such file or directory (os error 2)"),
        ] {
            assert_eq!(parse(text), Err(message.to_owned()), "{text}");
        }
    }
}
