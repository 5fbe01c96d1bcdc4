//! XA transactions between their PREPARE and their end, and what a stream reads again for them.

use std::sync::Arc;

use schemas::table::TableId;

use super::{Group, Groups, Halt, Identity, Step, kept::Kept};
use crate::{
    error::CaptureError,
    mysql::{
        decode::{gtid::MySqlGtid, query::Query, table_map::TableMap, xid::Xid},
        position::{Gtids, Open, Position, mariadb::Gtid},
        shapes::names,
    },
};

/// Those that are prepared, the oldest first.
#[derive(Debug, Default)]
pub struct Prepared(Vec<Transaction>);

#[derive(Debug)]
struct Transaction {
    xid: Xid,
    before: Open,
    rows: Kept,
    /// Tables with rows in it that were not captured then.
    others: Vec<TableId>,
}

impl Prepared {
    /// The place before the oldest.
    pub fn oldest(&self) -> Option<&Open> {
        self.0.first().map(|transaction| &transaction.before)
    }

    fn take(&mut self, xid: &Xid) -> Option<Transaction> {
        let place = self.0.iter().position(|transaction| transaction.xid == *xid)?;
        Some(self.0.remove(place))
    }

    fn get(&self, xid: &Xid) -> Option<&Transaction> {
        self.0.iter().find(|transaction| transaction.xid == *xid)
    }
}

/// A stream that began before its position: what lies between is read again for the rows of undecided transactions alone.
#[derive(Debug)]
pub struct Again {
    /// Behind what is read again.
    end: Position,
    /// The files are those of the server that is read.
    same_server: bool,
    /// What of it was read, beginning with what lies before all of it.
    read: Gtids,
}

impl Again {
    pub fn new(open: Open, end: &Position, same_server: bool) -> Self {
        Self { end: end.clone(), same_server, read: open.gtids }
    }

    /// Whether a group was read before; without GTIDs, by where it begins.
    pub fn has(&self, identity: &Identity, file: &str, begin: u64) -> Result<bool, Halt> {
        match (identity, &self.end.gtids, &self.read) {
            (Identity::MySql(gtid), Gtids::MySql(end), _) => Ok(end.has(&gtid.origin, gtid.number)),
            (Identity::MariaDb(gtid), Gtids::MariaDb(end), Gtids::MariaDb(read)) => {
                let gtid = gtid.gtid;
                let Some(last) = end.last(gtid.domain) else { return Ok(false) };
                if read.last(gtid.domain) == Some(last) {
                    return Ok(false);
                }
                if gtid.sequence > last.sequence {
                    let message = format!(
                        "the log is read again for XA transactions, and its transaction {last} is not there any more: reload all tables"
                    );
                    return Err(Halt::Failed(CaptureError::Stop { message }));
                }
                Ok(true)
            }
            (Identity::Anonymous | Identity::MySql(_) | Identity::MariaDb(_), Gtids::None, _) => Ok(self.has_place(file, begin + 1)),
            (Identity::Anonymous | Identity::MySql(_) | Identity::MariaDb(_), Gtids::MySql(_) | Gtids::MariaDb(_), _) => Ok(false),
        }
    }

    /// Whether everything up to a place in the files was read before.
    pub fn has_place(&self, file: &str, offset: u64) -> bool {
        self.same_server && (Position::file_number(file), offset) <= (Position::file_number(&self.end.file), self.end.offset)
    }

    /// Whether all that is read again is read.
    pub fn is_over(&self, file: &str, offset: u64) -> bool {
        match (&self.end.gtids, &self.read) {
            (Gtids::MySql(end), Gtids::MySql(read)) => read.contains(end),
            (Gtids::MariaDb(end), Gtids::MariaDb(read)) => read.contains(end),
            (Gtids::None | Gtids::MySql(_) | Gtids::MariaDb(_), _) => {
                (Position::file_number(file), offset) >= (Position::file_number(&self.end.file), self.end.offset)
            }
        }
    }

    /// The place before a group that was read before.
    pub fn before(&self, file: &str, offset: u64) -> Open {
        Open::new(self.read.clone(), file.to_owned(), offset)
    }

    pub fn read_mysql(&mut self, gtid: &MySqlGtid) {
        if let Gtids::MySql(read) = &mut self.read {
            read.add(gtid.origin.clone(), gtid.number);
        }
    }

    pub fn read_mariadb(&mut self, gtid: Gtid) {
        if let Gtids::MariaDb(read) = &mut self.read {
            read.add(gtid);
        }
    }
}

impl Groups {
    /// The open group is an XA transaction that is prepared: its rows wait for its end.
    pub(super) fn prepare_group(&mut self, xid: Xid) -> Step {
        let again = self.group.as_ref().is_some_and(|group| group.again);
        if let Some(older) = self.prepared.get(&xid).filter(|_| !again) {
            let tables = self.touched(&older.rows, &older.others);
            if !tables.is_empty() {
                let message =
                    format!("the XA transaction {xid} is prepared again, and how it ended is not in the log: reload {}", names(&tables));
                return Err(Halt::Stand { tables, ddl: None, message });
            }
        }
        if let Some(older) = self.prepared.take(&xid) {
            older.rows.discard(&mut self.store);
        }
        let mut group = self.group.take();
        if let Some(group) = &mut group {
            let before = match self.again.as_ref().filter(|_| group.again) {
                Some(again) => again.before(&self.file, group.begin),
                None => {
                    let Position { gtids, file, offset, .. } = self.position.clone();
                    Open::new(gtids, file, offset)
                }
            };
            let rows = std::mem::take(&mut group.rows);
            let others = std::mem::take(&mut group.others).into_iter().collect();
            self.prepared.0.push(Transaction { xid, before, rows, others });
        }
        self.finish(group, Kept::default());
        Ok(())
    }

    /// Tables that are followed now and have rows in a prepared transaction.
    fn touched(&self, rows: &Kept, others: &[TableId]) -> Vec<TableId> {
        let mut tables: Vec<TableId> = rows.maps().iter().map(|map| map.table.clone()).chain(others.iter().cloned()).collect();
        tables.retain(|table| self.shapes.follows(table));
        tables.sort();
        tables.dedup();
        tables
    }

    /// XA COMMIT of a prepared transaction.
    pub(super) fn commit_prepared(&mut self, query: &Query, text: &str) -> Step {
        let again = self.group.as_ref().is_some_and(|group| group.again);
        let Some(transaction) = self.transaction(text)? else {
            let tables = if again { Vec::new() } else { self.shapes.heeded() };
            if tables.is_empty() {
                return self.commit_group();
            }
            let message = format!(
                "the XA transaction {text} is committed, and it was prepared before the source began to read: its rows are not known, and \
                 may be rows of {}",
                names(&tables)
            );
            return Err(Halt::Stand { tables, ddl: Some(query.printed(&self.server.charsets)), message });
        };
        if !again {
            self.judge_prepared(transaction, query)?;
        }
        let xid = transaction.xid.clone();
        if let Some(Transaction { rows, .. }) = self.prepared.take(&xid) {
            let group = self.group.take();
            self.finish(group, rows);
        }
        Ok(())
    }

    /// XA ROLLBACK of a prepared transaction.
    pub(super) fn roll_back_prepared(&mut self, text: &str) -> Step {
        if let Some(xid) = self.transaction(text)?.map(|transaction| transaction.xid.clone())
            && let Some(transaction) = self.prepared.take(&xid)
        {
            transaction.rows.discard(&mut self.store);
        }
        self.roll_back_group();
        Ok(())
    }

    fn transaction(&self, text: &str) -> Result<Option<&Transaction>, Halt> {
        let xid = Xid::parse(text).ok_or_else(|| {
            let message = format!("the XA transaction {text} is ended, and its identifier is not understood");
            Halt::Stand { tables: self.shapes.followed(), ddl: None, message }
        })?;
        Ok(self.prepared.get(&xid))
    }

    /// A prepared transaction keeps its tables from being changed: what was read then must agree with what is known now.
    fn judge_prepared(&self, transaction: &Transaction, query: &Query) -> Step {
        let unknown: Vec<TableId> = transaction.others.iter().filter(|table| self.shapes.heeds(table)).cloned().collect();
        if !unknown.is_empty() {
            let message = format!(
                "the XA transaction {} is committed, and its rows of {} were logged before the table was captured: reload it",
                transaction.xid,
                names(&unknown)
            );
            return Err(Halt::Stand { tables: unknown, ddl: Some(query.printed(&self.server.charsets)), message });
        }
        let maps: Vec<&Arc<TableMap>> = transaction.rows.maps().iter().filter(|map| self.shapes.heeds(&map.table)).collect();
        maps.into_iter().try_for_each(|map| self.judge(map))
    }
}

impl Group {
    /// The place of a savepoint in their list; names do not differ by case.
    pub(super) fn savepoint(&self, name: &str) -> Option<usize> {
        self.savepoints.iter().rposition(|(known, _)| known.eq_ignore_ascii_case(name))
    }
}
