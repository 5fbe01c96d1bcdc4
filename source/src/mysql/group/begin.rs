//! How a group begins: its identity, and what is known of it until its end.

use std::collections::BTreeSet;

use schemas::table::TableId;

use super::{
    Groups, Halt, Step,
    kept::{Kept, Mark},
};
use crate::{
    error::CaptureError,
    mysql::{
        decode::{
            Malformed,
            gtid::{MariaDbGtid, MySqlGtid},
        },
        event::{Event, kind},
    },
};

#[derive(Debug, Clone)]
pub enum Identity {
    Anonymous,
    MySql(MySqlGtid),
    MariaDb(MariaDbGtid),
}

#[derive(Debug)]
pub struct Group {
    pub identity: Identity,
    pub transaction: Option<String>,
    pub ts_ms: i64,
    /// BEGIN or XA START was read: the group has an end of its own.
    pub begun: bool,
    pub xa: bool,
    /// It was read before, up to its end: only an XA transaction that is still undecided means anything.
    pub again: bool,
    /// Where it begins in its file.
    pub begin: u64,
    pub rows: Kept,
    /// Tables with rows in it that are not captured.
    pub others: BTreeSet<TableId>,
    /// Parts of it were passed on before its end.
    pub passed_on: bool,
    /// Names and what was kept there, the oldest first.
    pub savepoints: Vec<(String, Mark)>,
}

impl Group {
    /// Whether its rows may be published before its end is read.
    pub fn may_pass_on(&self) -> bool {
        let transactional = match &self.identity {
            Identity::MariaDb(gtid) => gtid.transactional,
            // Without GTIDs a transaction may have changed tables of both kinds, and may be rolled back in the log.
            Identity::Anonymous => false,
            Identity::MySql(_) => true,
        };
        transactional && !self.xa && !self.again && self.savepoints.is_empty()
    }
}

impl Groups {
    /// A group that begins with this event.
    pub(super) fn new_group(&mut self, event: &Event, identity: Identity, transaction: Option<String>, ts_ms: i64) -> Result<Group, Halt> {
        let begin = self.offset.saturating_sub(u64::from(event.size));
        let again = match &self.again {
            Some(again) => again.has(&identity, &self.file, begin)?,
            None => false,
        };
        Ok(Group {
            identity,
            transaction,
            ts_ms,
            begun: false,
            xa: false,
            again,
            begin,
            rows: Kept::default(),
            others: BTreeSet::new(),
            passed_on: false,
            savepoints: Vec::new(),
        })
    }

    fn open(&mut self, group: Group) -> Step {
        if self.group.is_some() {
            let message = "a group of the log does not end before the next begins: a part of it could not be read".into();
            return Err(Halt::Failed(CaptureError::Stop { message }));
        }
        self.group = Some(group);
        Ok(())
    }

    pub(super) fn begin_mysql(&mut self, event: &Event, gtid: MySqlGtid) -> Step {
        let ts_ms = gtid.commit_micros.map_or(i64::from(event.timestamp) * 1000, |micros| (micros / 1000).cast_signed());
        let anonymous = event.kind == kind::ANONYMOUS_GTID;
        if !anonymous && gtid.number == 0 {
            return Err(Malformed::Unreadable { what: "a GTID event", problem: "its transaction has no number".into() }.into());
        }
        let mut text = gtid.origin.uuid.clone();
        if !gtid.origin.tag.is_empty() {
            text = format!("{text}:{}", gtid.origin.tag);
        }
        let transaction = (!anonymous).then(|| format!("{text}:{}", gtid.number));
        let identity = if anonymous { Identity::Anonymous } else { Identity::MySql(gtid) };
        let group = self.new_group(event, identity, transaction, ts_ms)?;
        self.open(group)
    }

    pub(super) fn begin_mariadb(&mut self, event: &Event) -> Step {
        let gtid = MariaDbGtid::read(&event.body, event.server_id)?;
        let transaction = Some(gtid.gtid.to_string());
        let mut group = self.new_group(event, Identity::MariaDb(gtid), transaction, i64::from(event.timestamp) * 1000)?;
        // MariaDB leaves BEGIN out: its GTID event stands for it.
        group.begun = !gtid.standalone;
        group.xa = gtid.xa_prepared;
        self.open(group)
    }
}
