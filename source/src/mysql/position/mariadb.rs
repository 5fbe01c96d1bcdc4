//! MariaDB's GTIDs: `domain-server-sequence`. One entry per domain is a set, since a domain is one order.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// One transaction's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gtid {
    pub domain: u32,
    pub server: u32,
    pub sequence: u64,
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

/// The last transaction of each domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Domains(BTreeMap<u32, (u32, u64)>);

impl Domains {
    pub fn add(&mut self, gtid: Gtid) {
        self.0.insert(gtid.domain, (gtid.server, gtid.sequence));
    }

    /// A domain's last transaction.
    pub fn last(&self, domain: u32) -> Option<Gtid> {
        self.0.get(&domain).map(|(server, sequence)| Gtid { domain, server: *server, sequence: *sequence })
    }

    /// Whether every domain of `other` is at or behind its place here.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.iter().all(|(domain, (_, sequence))| self.0.get(domain).is_some_and(|(_, here)| here >= sequence))
    }
}

impl fmt::Display for Domains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (domain, (server, sequence))) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{domain}-{server}-{sequence}")?;
        }
        Ok(())
    }
}

impl FromStr for Domains {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut domains = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let bad = || format!("{item:?} is not a MariaDB GTID");
            let mut parts = item.split('-');
            let (Some(domain), Some(server), Some(sequence), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
                return Err(bad());
            };
            domains.add(Gtid {
                domain: domain.parse().map_err(|_| bad())?,
                server: server.parse().map_err(|_| bad())?,
                sequence: sequence.parse().map_err(|_| bad())?,
            });
        }
        Ok(domains)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_domain_keeps_its_last_transaction() {
        let mut domains: Domains = "0-1-5,3-2-1".parse().unwrap();
        domains.add(Gtid { domain: 0, server: 9, sequence: 6 });
        assert_eq!(domains.to_string(), "0-9-6,3-2-1");
    }
}
