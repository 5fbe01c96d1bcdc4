//! Statements of the log: transaction control, and what changes shapes.

use schemas::{
    ddl::mysql::{Context, Control, Parsed, parse},
    table::TableId,
};

use super::{Groups, Halt, Identity, Ready, Step};
use crate::{
    engine::{Entry, Statement, StatementTable},
    mysql::{
        decode::{
            gtid::AlterPhase,
            query::{Form, Query},
        },
        event::Event,
        shapes::{Session, Verdict, names},
    },
};

impl Groups {
    pub(super) fn query(&mut self, event: &Event, form: Form) -> Step {
        let mut query = Query::read(&event.body, form, self.server.mariadb)?;
        if query.text.eq_ignore_ascii_case(b"BEGIN") {
            return self.control(event, &query, &Control::Begin);
        }
        let context = self.server.context(&query);
        query.charset.clone_from(&context.charset);
        let alter = match self.group.as_ref().map(|g| &g.identity) {
            Some(Identity::MariaDb(gtid)) => gtid.alter,
            Some(Identity::Anonymous | Identity::MySql(_)) | None => AlterPhase::None,
        };
        if matches!(alter, AlterPhase::Start | AlterPhase::Rollback) {
            return self.commit_group();
        }
        if self.group.as_ref().is_some_and(|group| group.again) {
            return match parse(&query.text, &context) {
                Parsed::Transaction(control) => self.control(event, &query, &control),
                Parsed::Nothing | Parsed::Tables(_) | Parsed::RowChange { .. } | Parsed::Unknown { .. } => self.end_standalone(&query),
            };
        }
        let session = Session { server: event.server_id, thread: query.thread };
        let begun = self.group.as_ref().is_some_and(|group| group.begun);
        if query.error_code != 0 || begun {
            self.inside_or_failed(&query, &context, session)?;
        }
        if query.error_code != 0 {
            return self.end_standalone(&query);
        }
        match self.shapes.statement(&query.text, &context, session) {
            Verdict::Nothing => self.end_standalone(&query),
            Verdict::Transaction(control) => self.control(event, &query, &control),
            Verdict::Stand { tables, message } => Err(Halt::Stand { tables, ddl: Some(query.printed(&self.server.charsets)), message }),
            Verdict::Tables(tables) => {
                self.statement(event, &query, tables);
                Ok(())
            }
        }
    }

    /// A statement that failed on the server, or that shares its group with rows, must not be one of captured tables.
    fn inside_or_failed(&self, query: &Query, context: &Context, session: Session) -> Step {
        // Savepoints and the like are the rule; the shapes are not copied for them.
        if matches!(parse(&query.text, context), Parsed::Nothing | Parsed::Transaction(_)) {
            return Ok(());
        }
        let why = if query.error_code == 0 {
            "the statement stands in one group with rows".to_owned()
        } else {
            format!("the statement failed on the server with error {} and may have had a part of its effect", query.error_code)
        };
        let tables: Vec<TableId> = match self.shapes.clone().statement(&query.text, context, session) {
            Verdict::Nothing | Verdict::Transaction(_) => return Ok(()),
            Verdict::Tables(tables) => tables.into_iter().map(|table| table.id).collect(),
            Verdict::Stand { tables, .. } if query.error_code != 0 => tables,
            // It stands by itself, and says better why.
            Verdict::Stand { .. } => return Ok(()),
        };
        let message = format!("{why}; it may have touched {}", names(&tables));
        Err(Halt::Stand { tables, ddl: Some(query.printed(&self.server.charsets)), message })
    }

    fn control(&mut self, event: &Event, query: &Query, control: &Control) -> Step {
        match control {
            Control::Begin | Control::XaStart(_) => {
                let mut group = match self.group.take() {
                    Some(group) => group,
                    None => self.new_group(event, Identity::Anonymous, None, i64::from(event.timestamp) * 1000)?,
                };
                group.begun = true;
                group.xa |= matches!(control, Control::XaStart(_));
                self.group = Some(group);
                Ok(())
            }
            Control::Commit => self.commit_group(),
            Control::XaCommit { one_phase: true, .. } => self.commit_group(),
            Control::XaCommit { xid, one_phase: false } => self.commit_prepared(query, xid),
            Control::XaRollback(xid) => self.roll_back_prepared(xid),
            Control::Savepoint(name) => {
                if let Some(group) = &mut self.group {
                    if let Some(older) = group.savepoint(name) {
                        group.savepoints.remove(older);
                    }
                    group.savepoints.push((name.clone(), group.rows.mark()));
                }
                Ok(())
            }
            Control::Release(name) => {
                if let Some(group) = &mut self.group
                    && let Some(known) = group.savepoint(name)
                {
                    group.savepoints.truncate(known);
                }
                Ok(())
            }
            Control::XaEnd(_) | Control::XaPrepare(_) => Ok(()),
            Control::RollbackTo(name) => self.roll_back_to(query, name),
            Control::Rollback => {
                if self.group.as_ref().is_some_and(|group| group.passed_on) {
                    return Err(self.taken_back(query, "the whole transaction"));
                }
                self.roll_back_group();
                Ok(())
            }
        }
    }

    /// What came behind a savepoint is taken back. Rows of tables without transactions are not among it: they have a group of their own.
    fn roll_back_to(&mut self, query: &Query, name: &str) -> Step {
        let Some(group) = &mut self.group else { return Ok(()) };
        let Some(known) = group.savepoint(name) else {
            if group.rows.is_empty() && !group.passed_on {
                return Ok(());
            }
            return Err(self.taken_back(query, &format!("what came behind the savepoint {name}, which the log does not set,")));
        };
        let mark = group.savepoints[known].1;
        group.savepoints.truncate(known + 1);
        group.rows.back_to(mark, &mut self.store);
        Ok(())
    }

    fn taken_back(&self, query: &Query, what: &str) -> Halt {
        let tables = self.group_tables();
        let message = format!("{what} was rolled back in the log, and rows of {} are published already: reload", names(&tables));
        Halt::Stand { tables, ddl: Some(query.printed(&self.server.charsets)), message }
    }

    fn statement(&mut self, event: &Event, query: &Query, tables: Vec<StatementTable>) {
        let ts_ms = self.group.as_ref().map_or(i64::from(event.timestamp) * 1000, |group| group.ts_ms);
        let group = self.group.take();
        self.advance(group.as_ref());
        let statement = Statement { position: self.position.clone(), ts_ms, ddl: query.printed(&self.server.charsets), tables };
        self.ready.push_back(Ready::Entry(Entry::Statement(statement)));
    }

    /// A statement that is a group by itself ends it.
    fn end_standalone(&mut self, query: &Query) -> Step {
        match &mut self.group {
            Some(group) if group.begun => Ok(()),
            // CREATE TABLE … SELECT, in one transaction with its rows.
            Some(group) if query.text.ends_with(b"START TRANSACTION") => {
                group.begun = true;
                Ok(())
            }
            Some(_) | None => self.commit_group(),
        }
    }
}
