//! How far the copies are: bars on a terminal, lines in the log otherwise.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use schemas::table::TableId;
use source::capture::{CopyStatus, SourceStatus};
use tokio::sync::watch;

/// How often bars are drawn at most.
const FRAME: Duration = Duration::from_millis(200);
/// How often a copy is told in the log.
const TELL: Duration = Duration::from_secs(10);
/// Characters of a bar.
const WIDTH: usize = 30;

/// The copies that were seen and are not complete.
#[derive(Debug, Default)]
struct Copies(BTreeMap<TableId, CopyStatus>);

impl Copies {
    /// Takes over a status; gives the copies that are complete since the last one.
    fn update(&mut self, status: &SourceStatus) -> Vec<(TableId, CopyStatus)> {
        let complete = |id: &TableId| status.tables.get(id).is_some_and(Option::is_none);
        let ended: Vec<(TableId, CopyStatus)> =
            self.0.iter().filter(|(id, _)| complete(id)).map(|(id, copy)| (id.clone(), copy.clone())).collect();
        self.0 = status.tables.iter().filter_map(|(id, copy)| Some((id.clone(), copy.clone()?))).collect();
        ended
    }

    fn lines(&self) -> Vec<String> {
        self.0.iter().map(|(id, copy)| line(&id.to_string(), copy)).collect()
    }
}

/// A table's line. The estimate is the server's own, which can be too small: then the bar stays short of its end.
fn line(table: &str, copy: &CopyStatus) -> String {
    let (done, about) = (copy.rows_done, copy.rows_estimated);
    let share = if about == 0 { 0 } else { (u128::from(done) * 100 / u128::from(about)).min(99) };
    let full = usize::try_from(share).unwrap_or_default() * WIDTH / 100;
    format!("{table:<30} [{}{}] {share:>2} %  {done} of about {about} rows", "#".repeat(full), ".".repeat(WIDTH - full))
}

/// Draws lines and leaves the cursor at the beginning of the first, so that a line of the log takes their place.
fn frame(lines: &[String]) -> String {
    // Carriage return, clear to the end of the screen.
    let mut text = format!("\r\x1b[J{}", lines.join("\n"));
    if lines.len() > 1 {
        text.push_str(&format!("\x1b[{}A", lines.len() - 1));
    }
    text.push('\r');
    text
}

/// Follows the source until it ends.
pub async fn follow(mut status: watch::Receiver<SourceStatus>) {
    let terminal = io::stderr().is_terminal();
    let (mut copies, mut told, mut drawn) = (Copies::default(), None::<Instant>, false);
    loop {
        let ended = copies.update(&status.borrow_and_update());
        if drawn && (!ended.is_empty() || copies.0.is_empty()) {
            draw(&frame(&[]));
            drawn = false;
        }
        for (table, copy) in ended {
            tracing::info!(%table, rows = copy.rows_done, "table copied");
        }
        if terminal && !copies.0.is_empty() {
            draw(&frame(&copies.lines()));
            drawn = true;
        } else if !copies.0.is_empty() && told.is_none_or(|at| at.elapsed() >= TELL) {
            for (table, copy) in &copies.0 {
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
        draw(&frame(&[]));
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

    #[test]
    fn a_bar_shows_its_share_and_never_more_than_all() {
        let shown = |done, about| line("shop.orders", &copy(done, about));
        assert_eq!(shown(50, 100), "shop.orders                    [###############...............] 50 %  50 of about 100 rows");
        assert!(shown(0, 0).contains("[..............................]  0 %  0 of about 0 rows"));
        assert!(shown(500, 100).contains("[#############################.] 99 %  500 of about 100 rows"));
    }

    #[test]
    fn a_frame_leaves_the_cursor_where_it_began() {
        assert_eq!(frame(&["a".into(), "b".into(), "c".into()]), "\r\x1b[Ja\nb\nc\x1b[2A\r");
        assert_eq!(frame(&[]), "\r\x1b[J\r");
    }

    #[test]
    fn a_copy_that_is_complete_is_told_once_and_a_retired_table_is_not() {
        let id = |name: &str| TableId::new("shop", name);
        let status = |tables: Vec<(&str, Option<CopyStatus>)>| SourceStatus {
            tables: tables.into_iter().map(|(name, copy)| (id(name), copy)).collect(),
            ..SourceStatus::default()
        };
        let mut copies = Copies::default();
        assert_eq!(copies.update(&status(vec![("a", Some(copy(1, 2))), ("b", Some(copy(3, 4)))])), []);
        assert_eq!(copies.lines().len(), 2);
        assert_eq!(copies.update(&status(vec![("a", None)])), [(id("a"), copy(1, 2))]);
        assert_eq!(copies.update(&status(vec![("a", None)])), []);
        assert!(copies.lines().is_empty());
    }
}
