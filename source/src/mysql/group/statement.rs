//! Statements of the log: transaction control, and what changes shapes.

use schemas::{
    ddl::mysql::{Context, Control, Parsed, parse},
    table::TableId,
};

use super::{Group, Groups, Halt, Identity, Step};
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
            self.end_group();
            return Ok(());
        }
        let session = Session { server: event.server_id, thread: query.thread };
        let begun = self.group.as_ref().is_some_and(|group| group.begun);
        if query.error_code != 0 || begun {
            self.inside_or_failed(&query, &context, session)?;
        }
        if query.error_code != 0 {
            self.end_standalone(&query);
            return Ok(());
        }
        match self.shapes.statement(&query.text, &context, session) {
            Verdict::Nothing => {
                self.end_standalone(&query);
                Ok(())
            }
            Verdict::Transaction(control) => self.control(event, &query, &control),
            Verdict::Stand { tables, message } => Err(Halt::Stand { tables, ddl: Some(query.printed()), message }),
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
        Err(Halt::Stand { tables, ddl: Some(query.printed()), message })
    }

    fn control(&mut self, event: &Event, query: &Query, control: &Control) -> Step {
        match control {
            Control::Begin | Control::XaStart(_) => {
                let group = self.group.get_or_insert_with(|| Group::new(Identity::Anonymous, None, i64::from(event.timestamp) * 1000));
                group.begun = true;
                group.xa |= matches!(control, Control::XaStart(_));
            }
            Control::Commit => self.end_group(),
            Control::XaCommit { .. } => self.end_group(),
            Control::Savepoint(_) | Control::Release(_) => {
                if let Some(group) = &mut self.group {
                    group.savepoints = true;
                }
            }
            Control::XaEnd(_) | Control::XaPrepare(_) => {}
            Control::Rollback | Control::RollbackTo(_) | Control::XaRollback(_) => {
                let tables = self.group_tables();
                if !tables.is_empty() {
                    let message = format!(
                        "a part of a transaction with rows of {} was rolled back in the log; this cannot be followed yet: reload",
                        names(&tables)
                    );
                    return Err(Halt::Stand { tables, ddl: Some(query.printed()), message });
                }
                if !matches!(control, Control::RollbackTo(_)) {
                    self.end_group();
                }
            }
        }
        Ok(())
    }

    fn statement(&mut self, event: &Event, query: &Query, tables: Vec<StatementTable>) {
        let ts_ms = self.group.as_ref().map_or(i64::from(event.timestamp) * 1000, |group| group.ts_ms);
        let group = self.group.take();
        self.advance(group.as_ref());
        let statement = Statement { position: self.position.clone(), ts_ms, ddl: query.printed(), tables };
        self.ready.push_back(Entry::Statement(statement));
    }

    /// A statement that is a group by itself ends it.
    fn end_standalone(&mut self, query: &Query) {
        match &mut self.group {
            Some(group) if group.begun => {}
            // CREATE TABLE … SELECT, in one transaction with its rows.
            Some(group) if query.text.ends_with(b"START TRANSACTION") => group.begun = true,
            Some(_) | None => self.end_group(),
        }
    }
}
