//! MySQL's GTID sets: `uuid:1-5:7,uuid:tag:3`.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// Where transactions come from: a server's UUID, lower case, and since 8.3 a tag; empty without one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    pub uuid: String,
    pub tag: String,
}

/// Transactions by origin, as closed intervals in order that neither touch nor overlap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidSet(BTreeMap<Origin, Vec<(u64, u64)>>);

impl GtidSet {
    pub fn add(&mut self, origin: Origin, number: u64) {
        self.add_interval(origin, number, number);
    }

    fn add_interval(&mut self, origin: Origin, from: u64, to: u64) {
        let intervals = self.0.entry(origin).or_default();
        // The usual case: the next transaction of the last interval.
        if let Some(last) = intervals.last_mut()
            && from == last.1.saturating_add(1)
        {
            last.1 = to;
            return;
        }
        intervals.push((from, to));
        intervals.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(intervals.len());
        for (from, to) in intervals.drain(..) {
            match merged.last_mut() {
                Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
                Some(_) | None => merged.push((from, to)),
            }
        }
        *intervals = merged;
    }

    /// Whether this transaction is in the set.
    pub fn has(&self, origin: &Origin, number: u64) -> bool {
        self.0.get(origin).is_some_and(|intervals| intervals.iter().any(|(from, to)| (*from..=*to).contains(&number)))
    }

    /// Whether every transaction of `other` is in this set.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.iter().all(|(origin, intervals)| {
            let Some(here) = self.0.get(origin) else { return intervals.is_empty() };
            intervals.iter().all(|(from, to)| here.iter().any(|(f, t)| f <= from && to <= t))
        })
    }

    /// The set in the text form of one origin each, as the dump command takes them.
    pub fn origins(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(origin, intervals)| one(origin, intervals))
    }
}

fn one(origin: &Origin, intervals: &[(u64, u64)]) -> String {
    let mut text = origin.uuid.clone();
    if !origin.tag.is_empty() {
        text.push(':');
        text.push_str(&origin.tag);
    }
    for (from, to) in intervals {
        text.push_str(&if from == to { format!(":{from}") } else { format!(":{from}-{to}") });
    }
    text
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, origin) in self.origins().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{origin}")?;
        }
        Ok(())
    }
}

impl FromStr for GtidSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut set = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let bad = || format!("{item:?} is not a MySQL GTID set");
            let mut parts = item.split(':').map(str::trim);
            let uuid = parts.next().filter(|uuid| uuid.len() == 36).ok_or_else(bad)?.to_lowercase();
            let mut origin = Origin { uuid, tag: String::new() };
            for part in parts {
                if part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                    origin.tag = part.to_lowercase();
                    continue;
                }
                let (from, to) = part.split_once('-').unwrap_or((part, part));
                let (from, to): (u64, u64) = (from.parse().map_err(|_| bad())?, to.parse().map_err(|_| bad())?);
                if from == 0 || to < from {
                    return Err(bad());
                }
                set.add_interval(origin.clone(), from, to);
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(text: &str) -> GtidSet {
        text.parse().unwrap()
    }

    #[test]
    fn gaps_stay_and_close() {
        let mut gtids = set(&format!("{A}:1-3:5"));
        gtids.add(Origin { uuid: A.into(), tag: String::new() }, 7);
        assert_eq!(gtids.to_string(), format!("{A}:1-3:5:7"));
        gtids.add(Origin { uuid: A.into(), tag: String::new() }, 4);
        assert_eq!(gtids.to_string(), format!("{A}:1-5:7"));
    }

    #[test]
    fn a_tag_is_an_origin_of_its_own() {
        let gtids = set(&format!("{A}:1-3:backup:1-2,\n{B}:9"));
        assert_eq!(gtids.to_string(), format!("{A}:1-3,{A}:backup:1-2,{B}:9"));
        assert!(!gtids.contains(&set(&format!("{A}:backup:3"))));
    }

    #[test]
    fn containment_is_by_transaction_and_not_by_the_greatest() {
        let gtids = set(&format!("{A}:1-3:5-9"));
        assert!(gtids.contains(&set(&format!("{A}:2-3:9"))));
        assert!(!gtids.contains(&set(&format!("{A}:3-5"))));
        assert!(!gtids.contains(&set(&format!("{B}:1"))));
        assert!(gtids.contains(&set("")));
    }
}
