//! How far the copies are: bars on a terminal, lines in the log otherwise.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    time::{Duration, Instant},
};

use runtime::telemetry::{self, CLEAR};
use schemas::table::TableId;
use source::capture::{CopyStatus, SourceStatus};
use tokio::sync::watch;

/// How often bars are drawn at most.
const FRAME: Duration = Duration::from_millis(200);
/// How often a copy is told in the log.
const TELL: Duration = Duration::from_secs(10);
/// Characters of a bar: with a name and counts it fits a line of 80.
const WIDTH: usize = 20;
/// Tables that are drawn at once.
const BARS: usize = 8;

/// The copies that were seen and are not complete, and the tables whose complete copy was told.
#[derive(Debug, Default)]
struct Copies {
    open: BTreeMap<TableId, CopyStatus>,
    told: BTreeSet<TableId>,
}

impl Copies {
    /// Takes over a status; gives the copies that are complete since the last one, with the rows they brought.
    fn update(&mut self, status: &SourceStatus) -> Vec<(TableId, u64)> {
        self.open = status.tables.iter().filter_map(|(id, copy)| Some((id.clone(), copy.clone()?))).collect();
        self.told.retain(|id| status.tables.contains_key(id) && !self.open.contains_key(id));
        let complete = |id: &TableId| status.tables.get(id).is_some_and(Option::is_none);
        let copied = status.copied.iter().filter(|(id, _)| complete(id));
        copied.filter(|(id, _)| self.told.insert((*id).clone())).map(|(id, rows)| (id.clone(), *rows)).collect()
    }

    /// The tables that are being read come first; of those that wait only as many as there is room for.
    fn lines(&self) -> Vec<String> {
        let mut copies: Vec<_> = self.open.iter().collect();
        copies.sort_by_key(|(_, copy)| copy.rows_done == 0);
        let shown = &copies[..copies.len().min(BARS)];
        let names = shown.iter().map(|(id, _)| id.to_string().chars().count()).max().unwrap_or_default();
        let mut lines: Vec<String> = shown.iter().map(|(id, copy)| line(&format!("{:<names$}", id.to_string()), copy)).collect();
        if copies.len() > BARS {
            lines.push(format!("and {} more tables", copies.len() - BARS));
        }
        lines
    }
}

/// A table's line. The estimate is the server's own, which can be too small: then the bar stays short of its end.
fn line(table: &str, copy: &CopyStatus) -> String {
    let (done, about) = (copy.rows_done, copy.rows_estimated);
    if done == 0 && about == 0 {
        return format!("{table} waits to be copied");
    }
    let share = if about == 0 { 0 } else { (u128::from(done) * 100 / u128::from(about)).min(99) };
    let full = usize::try_from(share).unwrap_or_default() * WIDTH / 100;
    format!("{table} [{}{}] {share:>2} %  {done} of about {about} rows", "#".repeat(full), ".".repeat(WIDTH - full))
}

/// Draws lines and leaves the cursor at the beginning of the first, so that a line of the log takes their place.
fn frame(lines: &[String]) -> String {
    // A line that is too long is cut: wrapped, it would take a place more than the cursor goes up.
    let mut text = format!("{CLEAR}\x1b[?7l{}\x1b[?7h", lines.join("\n"));
    if lines.len() > 1 {
        text.push_str(&format!("\x1b[{}A", lines.len() - 1));
    }
    text.push('\r');
    text
}

/// Follows the source until it ends.
pub async fn follow(mut status: watch::Receiver<SourceStatus>) {
    let draws = telemetry::draws();
    let (mut copies, mut told, mut drawn) = (Copies::default(), None::<Instant>, false);
    loop {
        let ended = copies.update(&status.borrow_and_update());
        if drawn && copies.open.is_empty() {
            draw(CLEAR);
            drawn = false;
        }
        for (table, rows) in ended {
            tracing::info!(%table, rows, "table copied");
        }
        if draws && !copies.open.is_empty() {
            draw(&frame(&copies.lines()));
            drawn = true;
        } else if !copies.open.is_empty() && told.is_none_or(|at| at.elapsed() >= TELL) {
            for (table, copy) in &copies.open {
                tracing::info!(%table, rows = copy.rows_done, estimated = copy.rows_estimated, "table is being copied");
            }
            told = Some(Instant::now());
        }
        if status.changed().await.is_err() {
            break;
        }
        tokio::time::sleep(FRAME).await;
    }
    if drawn {
        draw(CLEAR);
    }
}

/// A terminal that has gone is no reason to end.
fn draw(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(rows_done: u64, rows_estimated: u64) -> CopyStatus {
        CopyStatus { rows_done, rows_estimated }
    }

    fn id(name: &str) -> TableId {
        TableId::new("shop", name)
    }

    #[test]
    fn a_bar_shows_its_share_and_never_more_than_all() {
        let shown = |done, about| line("shop.orders", &copy(done, about));
        assert_eq!(shown(50, 100), "shop.orders [##########..........] 50 %  50 of about 100 rows");
        assert_eq!(shown(0, 9), "shop.orders [....................]  0 %  0 of about 9 rows");
        assert_eq!(shown(500, 100), "shop.orders [###################.] 99 %  500 of about 100 rows");
        assert_eq!(shown(0, 0), "shop.orders waits to be copied");
    }

    #[test]
    fn tables_that_are_read_come_first_and_many_take_no_more_than_their_lines() {
        let tables = |count: u64| (0..count).map(|n| (id(&format!("t{n}")), copy(u64::from(n == count - 1), 2))).collect();
        let mut copies = Copies { open: tables(3), ..Copies::default() };
        let shown = copies.lines();
        assert!(shown.len() == 3 && shown[0].starts_with("shop.t2 [##########") && shown[1].starts_with("shop.t0 [...."), "{shown:?}");
        copies.open = tables(100);
        let shown = copies.lines();
        assert!(shown.len() == 9 && shown[0].starts_with("shop.t99 [#") && shown[1].starts_with("shop.t0  ["), "{shown:?}");
        assert_eq!(shown[8], "and 92 more tables");
    }

    #[test]
    fn a_frame_leaves_the_cursor_where_it_began() {
        assert_eq!(frame(&["a".into(), "b".into(), "c".into()]), "\r\x1b[J\x1b[?7la\nb\nc\x1b[?7h\x1b[2A\r");
        assert_eq!(frame(&["a".into()]), "\r\x1b[J\x1b[?7la\x1b[?7h\r");
    }

    #[test]
    fn a_copy_that_is_complete_is_told_once_with_all_its_rows_and_a_retired_table_is_not() {
        let status = |tables: Vec<(&str, Option<CopyStatus>)>, copied: &[(&str, u64)]| SourceStatus {
            tables: tables.into_iter().map(|(name, copy)| (id(name), copy)).collect(),
            copied: copied.iter().map(|(name, rows)| (id(name), *rows)).collect(),
            ..SourceStatus::default()
        };
        let mut copies = Copies::default();
        assert_eq!(copies.update(&status(vec![("a", Some(copy(1, 2))), ("b", Some(copy(3, 4)))], &[("a", 1), ("b", 3)])), []);
        assert_eq!(copies.lines().len(), 2);
        assert_eq!(copies.update(&status(vec![("a", None)], &[("a", 2), ("b", 3)])), [(id("a"), 2)]);
        assert_eq!(copies.update(&status(vec![("a", None)], &[("a", 2), ("b", 3)])), []);
        assert!(copies.lines().is_empty());
        // Copied anew, and another so fast that nobody saw it begin.
        assert_eq!(copies.update(&status(vec![("a", Some(copy(1, 2)))], &[("a", 1)])), []);
        assert_eq!(copies.update(&status(vec![("a", None), ("c", None)], &[("a", 5), ("c", 0)])), [(id("a"), 5), (id("c"), 0)]);
        // Copied by a process before this one.
        assert_eq!(Copies::default().update(&status(vec![("a", None)], &[])), []);
    }
}
