//! A schedule: a random phase (user, faults, rebalances, operator) and a healing phase (fair steps, no faults).

use std::{collections::BTreeMap, rc::Rc};

use schemas::{
    order::{
        ledger::{Approval, Hold, Ledger, LedgerChange, Outcome},
        protection::Protections,
        source::Command,
    },
    table::TableId,
};

use crate::{
    aims::Aim,
    apply::Instance,
    capture,
    database::{Kind, of_change},
    task::{Task, step},
    world::{SINK, Shared, World},
};

struct Running {
    task: Task,
    frozen: bool,
}

struct Schedule {
    w: Shared,
    sources: Vec<Running>,
    started: usize,
    sinks: Vec<Instance>,
    writes: f64,
    reloads: f64,
}

/// Runs one schedule; the violation found, if any.
pub fn run(seed: u64, aim: &Aim, protections: Protections, trace: bool) -> Option<String> {
    let w = Rc::new(World::new(seed, aim, protections, trace));
    let count = w.between(aim.sinks.0, aim.sinks.1);
    let sinks = (0..count).map(|n| Instance::new(&w, n)).collect();
    let (writes, reloads) = (aim.writes, aim.reloads);
    let mut schedule = Schedule { w, sources: Vec::new(), started: 0, sinks, writes, reloads };
    schedule.spawn();
    schedule.rebalance();
    schedule.go(aim);
    let violation = schedule.w.violation();
    // Processes hold the world: end them, so that it can go.
    schedule.sources.clear();
    schedule.sinks.iter_mut().for_each(|s| s.tasks.clear());
    violation
}

impl Schedule {
    fn spawn(&mut self) {
        let task: Task = Box::pin(capture::run(self.w.clone(), self.started));
        self.w.newest_source.set(self.started);
        self.started += 1;
        self.sources.push(Running { task, frozen: false });
    }

    fn rebalance(&mut self) {
        let w = self.w.clone();
        for lane in &w.partitions {
            self.sinks.iter().for_each(|s| s.assign(*lane, false));
            self.sinks[w.below(self.sinks.len())].assign(*lane, true);
        }
        if w.chance(0.3) {
            let lane = w.pick(&w.partitions);
            self.sinks[w.below(self.sinks.len())].assign(lane, true);
        }
    }

    fn run_source(&mut self) {
        self.sources.retain_mut(|s| s.frozen || !step(&mut s.task));
        if self.sources.iter().all(|s| s.frozen) {
            self.spawn();
        }
    }

    fn run_sinks(&mut self) {
        for sink in self.sinks.iter_mut().filter(|s| s.alive && !s.frozen) {
            for task in &mut sink.tasks {
                step(task);
            }
        }
    }

    fn run_a_sink(&mut self) {
        let n = self.w.below(self.sinks.len());
        let sink = &mut self.sinks[n];
        if sink.alive && !sink.frozen {
            let task = self.w.below(sink.tasks.len());
            step(&mut sink.tasks[task]);
        }
    }

    fn user(&self) {
        let w = &self.w;
        let tables = w.ids.len();
        let table = w.below(tables);
        if w.chance(self.writes) {
            w.database.borrow_mut().write(&mut w.random(), w.partial, w.bad);
        } else {
            let kind = w.pick(&w.kinds);
            let mut parts = vec![(table, kind)];
            if tables > 1 && w.chance(0.25) {
                let other = (table + 1 + w.below(tables - 1)) % tables;
                let same = matches!(kind, Kind::Truncate | Kind::Unknown | Kind::Comment);
                parts.push((other, if same { kind } else { w.pick(&w.kinds) }));
            }
            if parts.iter().any(|(_, k)| *k == Kind::Unknown) {
                parts.iter_mut().for_each(|p| p.1 = Kind::Unknown);
            }
            w.database.borrow_mut().statement(&parts);
        }
        w.log(|| format!("user: {:?}", w.database.borrow().log.last()));
    }

    /// The operator: a way out for something. False: nothing to do.
    fn act(&self) -> bool {
        let w = &self.w;
        let ledger = w.target.borrow().ledger.clone();
        let busy: Vec<usize> = {
            let commands = w.commands.borrow();
            let left = commands.iter().skip(w.status.borrow().command as usize);
            left.filter_map(|c| {
                if let Command::Reload { table, for_sink } = c {
                    for_sink.as_deref().is_none_or(|s| s == SINK).then(|| w.index(table))
                } else {
                    None
                }
            })
            .collect()
        };
        let bad = |t: &usize| {
            let id = &w.ids[*t];
            let stopped = ledger.outcomes.iter().any(|((_, table), o)| table == id && *o == Outcome::Stopped);
            let at_row = ledger.stop_at_row.as_ref().is_some_and(|stop| stop.table == *id);
            (stopped || at_row || ledger.held.contains_key(id) || w.status.borrow().standing.contains(t))
                && !ledger.retired.contains(id)
                && !busy.contains(t)
                && w.wanted.borrow()[*t]
        };
        let bad: Vec<usize> = (0..w.ids.len()).filter(bad).collect();
        if bad.is_empty() {
            return false;
        }
        let t = w.pick(&bad);
        if let Some(Hold::Change { epoch }) = ledger.held.get(&w.ids[t])
            && !ledger.approved.contains_key(&w.ids[t])
            && w.chance(0.5)
        {
            let event = self.sinks.iter().find_map(|s| s.event(*epoch));
            let kind = event.and_then(|e| e.table(&w.ids[t]).map(|p| of_change(&p.changes).0));
            if kind.is_some_and(|k| k != Kind::Fail) {
                let approval = if w.chance(0.8) { Approval::Approve { ddl: None } } else { Approval::Keep };
                let change = LedgerChange::Approve { table: w.ids[t].clone(), approval, by: "operator".into() };
                w.target.borrow_mut().record(w, &[change]);
                return true;
            }
        }
        if w.chance(0.15) {
            w.log(|| format!("operator: retire {}", w.ids[t]));
            w.wanted.borrow_mut()[t] = false;
        } else {
            let for_sink = w.pick(&[None, None, Some(SINK)]);
            self.reload(t, for_sink);
        }
        true
    }

    fn reload(&self, t: usize, for_sink: Option<&str>) {
        self.w.log(|| format!("operator: reload {} for {for_sink:?}", self.w.ids[t]));
        self.w.commands.borrow_mut().push(Command::Reload { table: self.w.ids[t].clone(), for_sink: for_sink.map(str::to_owned) });
    }

    fn fault(&mut self) {
        let w = self.w.clone();
        let (x, n) = (w.unit(), w.below(self.sinks.len()));
        let sessions = self.sinks[n].sessions();
        if x < 0.2 {
            w.log(|| "source: killed".into());
            self.sources.retain(|s| s.frozen);
            self.spawn();
        } else if x < 0.3 {
            if let Some(live) = self.sources.iter_mut().find(|s| !s.frozen) {
                live.frozen = true;
                w.log(|| "source: frozen".into());
                self.spawn();
            }
        } else if x < 0.4 {
            self.sources.iter_mut().for_each(|s| s.frozen = false);
        } else if x < 0.55 {
            self.sinks[n].crash(&w);
            if w.chance(0.7) {
                self.sinks[n].start(&w);
            }
        } else if x < 0.7 {
            self.sinks[n].frozen = true;
            w.log(|| format!("sink{n}: frozen"));
        } else if x < 0.8 {
            self.sinks[n].frozen = false;
            if !self.sinks[n].alive {
                self.sinks[n].start(&w);
            }
        } else if x < 0.87 && !sessions.is_empty() {
            let sid = w.pick(&sessions);
            w.target.borrow_mut().dead.insert(sid);
            w.log(|| format!("session {sid} cut"));
        } else {
            self.rebalance();
            w.log(|| "rebalanced".into());
        }
    }

    fn server(&self) {
        self.w.target.borrow_mut().server(&self.w);
    }

    fn marker(&self) {
        self.w.transport.borrow_mut().marker(&mut self.w.random());
    }

    fn go(&mut self, aim: &Aim) {
        let w = self.w.clone();
        let mut ops = w.between(aim.ops.0, aim.ops.1);
        let steps = w.between(aim.steps.0, aim.steps.1) as u32;
        while w.step.get() < steps && !w.broken() {
            w.step.set(w.step.get() + 1);
            self.random_step(&mut ops);
        }
        for _ in 4..ops {
            self.user();
        }
        self.heal();
        if !w.broken() {
            self.finish();
        }
    }

    fn random_step(&mut self, ops: &mut usize) {
        let w = self.w.clone();
        let x = w.unit();
        let reloads = 0.955 + self.reloads;
        if x < 0.34 {
            self.run_source();
        } else if x < 0.68 {
            self.run_a_sink();
        } else if x < 0.80 {
            self.marker();
        } else if x < 0.86 {
            self.server();
        } else if x < 0.94 {
            if *ops > 0 && w.chance(0.5) {
                self.user();
                *ops -= 1;
            } else {
                w.database.borrow_mut().reveal();
            }
        } else if x < 0.955 {
            self.act();
        } else if x < reloads {
            self.reload(w.below(w.ids.len()), w.pick(&[None, Some(SINK), Some("lake")]));
        } else if x < reloads + 0.0005 {
            let t = w.below(w.ids.len());
            w.wanted.borrow_mut()[t] = false;
        } else if x < reloads + 0.0035 {
            let ledger = w.target.borrow().ledger.clone();
            let retired: Vec<usize> = ledger.retired.iter().map(|id| w.index(id)).collect();
            if !retired.is_empty() {
                let t = w.pick(&retired);
                w.log(|| format!("operator: add {}", w.ids[t]));
                w.wanted.borrow_mut()[t] = true;
            }
        } else if x < reloads + 0.0045 {
            w.commands.borrow_mut().extend([Command::Pause, Command::Resume]);
        } else if w.chance(w.faults * 4.0) {
            self.fault();
        }
    }

    fn heal(&mut self) {
        let w = self.w.clone();
        self.sources.iter_mut().for_each(|s| s.frozen = false);
        for sink in &mut self.sinks {
            sink.frozen = false;
            if !sink.alive {
                sink.start(&w);
            }
        }
        self.rebalance();
        w.log(|| "---- healing".into());
        w.database.borrow_mut().mend();
        let mut why = String::new();
        for n in 0..1200 {
            w.step.set(w.step.get() + 1);
            self.run_source();
            self.run_source();
            self.marker();
            self.marker();
            self.server();
            self.run_sinks();
            w.database.borrow_mut().reveal();
            if w.broken() {
                return;
            }
            if n % 10 == 9 {
                match self.unrest() {
                    None if !(w.operator && self.act()) => return,
                    None => {}
                    Some(reason) => why = reason,
                }
                if w.operator && w.chance(0.2) && self.stuck() {
                    self.act();
                }
            }
        }
        w.violated(format!("no progress: {why}"));
    }

    /// The next epoch is there and is not decided.
    fn stuck(&self) -> bool {
        let next = self.w.target.borrow().ledger.decided + 1;
        self.sinks.iter().any(|s| s.event(next).is_some())
    }

    /// What still has to happen; None: nothing, without a person.
    fn unrest(&self) -> Option<String> {
        let w = &self.w;
        let (target, transport, status) = (w.target.borrow(), w.transport.borrow(), w.status.borrow());
        let ledger = &target.ledger;
        let behind_row = |epoch: u64| ledger.stop_at_row.as_ref().is_some_and(|stop| epoch > stop.epoch);
        let waits = |t: &TableId, epoch: u64| !behind_row(epoch) && !self.leads_out(epoch, t);
        let approved = ledger.approved.keys().any(|t| ledger.held.get(t).is_some_and(|h| waits(t, h.epoch())));
        if !transport.late.is_empty() || !target.running.is_empty() || approved {
            return Some("markers, statements or approvals".into());
        }
        let commands = w.commands.borrow().len() as u64;
        if status.command < commands || status.open || !status.configured {
            return Some(format!("source {status:?}, {commands} commands"));
        }
        if status.standing.is_empty() && (status.position < w.database.borrow().log.len() || status.copying) {
            return Some(format!("source {status:?} of {}", w.database.borrow().log.len()));
        }
        drop(transport);
        if let Some(reason) = self.way_out_not_taken(ledger) {
            return Some(reason);
        }
        let top = w.newest_epoch();
        let at_row = ledger.stop_at_row.is_some();
        let stopped = at_row || ledger.outcomes.iter().any(|((e, _), o)| *e == ledger.decided + 1 && *o == Outcome::Stopped);
        if ledger.decided < top && !stopped {
            return Some(format!("decided {} of {top}: {ledger:?}", ledger.decided));
        }
        if at_row {
            return None;
        }
        if ledger.queued.iter().any(|(t, queue)| !ledger.held.contains_key(t) && queue.first().is_some_and(|e| waits(t, *e))) {
            return Some(format!("queues {:?}", ledger.queued));
        }
        let transport = w.transport.borrow();
        for (t, lane) in &w.partitions {
            let id = &w.ids[*t];
            if ledger.held.contains_key(id) || ledger.retired.contains(id) || ledger.blocked.contains_key(id) {
                continue;
            }
            let from = ledger.position(id, *lane).position;
            if let Some((offset, row)) = transport.rows(w.partition(*t, *lane), from).find(|(_, row)| row.epoch <= ledger.decided) {
                return Some(format!("row {offset} waits in lane {lane} of {id}: {row:?}"));
            }
        }
        None
    }

    /// Whether a reload or removal of the table stands in the topic behind this epoch.
    fn leads_out(&self, epoch: u64, table: &TableId) -> bool {
        let w = &self.w;
        let transport = w.transport.borrow();
        let mut anew = transport.events(w.versions(), 0).filter(|(_, e)| e.epoch.is_some_and(|e| e > epoch) && w.begins_anew(e));
        anew.any(|(_, e)| e.table(table).is_some())
    }

    /// A stop behind which a reload or removal stands in the topic.
    fn way_out_not_taken(&self, ledger: &Ledger) -> Option<String> {
        if let Some(stop) = &ledger.stop_at_row {
            let led = self.leads_out(stop.epoch, &stop.table);
            return led.then(|| format!("the stop at a row of {}, behind which it begins anew", stop.table));
        }
        let next = ledger.decided + 1;
        let mut stops = ledger.outcomes.iter().filter(|((epoch, _), o)| *epoch == next && **o == Outcome::Stopped);
        let ((epoch, table), _) = stops.find(|((epoch, table), _)| self.leads_out(*epoch, table))?;
        Some(format!("the stop E{epoch} of {table}, behind which it begins anew"))
    }

    /// Once faults end, all is applied and equal.
    fn finish(&self) {
        let w = &self.w;
        let (target, transport, db) = (w.target.borrow(), w.transport.borrow(), w.database.borrow());
        let mut seen = BTreeMap::new();
        for (partition, (t, lane)) in w.partitions.iter().enumerate() {
            let mut last = (0, 0);
            for (offset, row) in transport.rows(partition, 0) {
                if row.seq <= last.0 || row.epoch < last.1 {
                    w.violated(format!("seq or epoch falls in lane {lane} of {} at {offset}", w.ids[*t]));
                }
                last = (row.seq, row.epoch);
                if seen.insert(row.seq, (partition, offset)).is_some() {
                    w.violated(format!("seq {} is given twice", row.seq));
                }
            }
        }
        let ledger = &target.ledger;
        let standing = !w.status.borrow().standing.is_empty();
        let newest = transport.events(w.versions(), 0).filter_map(|(_, e)| e.epoch).max().unwrap_or(0);
        if ledger.decided < newest || standing || ledger.stop_at_row.is_some() {
            return;
        }
        for (t, id) in w.ids.iter().enumerate() {
            if ledger.held.contains_key(id) || ledger.retired.contains(id) || ledger.queued.contains_key(id) || target.kept.contains(&t) {
                continue;
            }
            if ledger.blocked.contains_key(id) {
                w.violated(format!("{id} stays blocked"));
            }
            let there = target.tables[t].as_ref().map(|table| (table.version, &table.rows));
            if there != Some((db.version[t], &db.rows[t])) {
                w.violated(format!("{id} differs: source {} {:?}, target {there:?}", db.version[t], db.rows[t]));
            }
        }
    }
}
