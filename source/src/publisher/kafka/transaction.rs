//! Records of one transaction, kept until it is handed over.

use crate::publisher::TopicHandle;

/// Room that is kept for the next transaction; what one very large row took is given back.
const KEPT: usize = 16 << 20;

/// The records, in order, with their bytes in one piece.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    topic: usize,
    lane: u32,
    /// 0: no key. A framed key is never empty.
    key: usize,
    value: usize,
}

/// One record to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outgoing<'a> {
    pub topic: TopicHandle,
    pub lane: u32,
    pub key: Option<&'a [u8]>,
    pub value: &'a [u8],
}

impl Transaction {
    pub fn add(&mut self, record: Outgoing<'_>) {
        let key = record.key.unwrap_or_default();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(record.value);
        self.records.push(Record { topic: record.topic.0, lane: record.lane, key: key.len(), value: record.value.len() });
    }

    /// Records and bytes.
    pub fn pending(&self) -> (usize, usize) {
        (self.records.len(), self.bytes.len())
    }

    pub fn iter(&self) -> impl Iterator<Item = Outgoing<'_>> {
        let mut rest = self.bytes.as_slice();
        self.records.iter().map(move |record| {
            let (key, behind) = rest.split_at(record.key.min(rest.len()));
            let (value, behind) = behind.split_at(record.value.min(behind.len()));
            rest = behind;
            Outgoing { topic: TopicHandle(record.topic), lane: record.lane, key: (record.key > 0).then_some(key), value }
        })
    }

    /// Empty again, with its room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.bytes.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in() {
        let mut transaction = Transaction::default();
        let records = [
            Outgoing { topic: TopicHandle(0), lane: 3, key: Some(b"key"), value: b"value" },
            Outgoing { topic: TopicHandle(7), lane: 0, key: None, value: b"" },
            Outgoing { topic: TopicHandle(0), lane: 1, key: None, value: b"x" },
        ];
        records.into_iter().for_each(|record| transaction.add(record));
        assert_eq!(transaction.pending(), (3, 9));
        assert_eq!(transaction.iter().collect::<Vec<_>>(), records);
        transaction.clear();
        assert_eq!((transaction.pending(), transaction.iter().count()), ((0, 0), 0));
    }
}
