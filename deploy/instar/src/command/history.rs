//! `instar history FILE`: every schema change in source order, with its outcome on each sink.

use std::sync::Arc;

use runtime::control::Request;
use schemas::table::TableId;
use serde_json::json;
use sink::status::history::history_text;

use super::load;
use crate::{
    cli::History,
    desk,
    exit::{Exit, Failure},
    output,
};

pub async fn run(args: History) -> Result<Exit, Failure> {
    let pipeline = Arc::new(load(&args.file)?);
    // A table that was taken out of the configuration has a history all the same.
    let table = args
        .table
        .as_deref()
        .map(|name| super::table(&pipeline, name).unwrap_or_else(|_| named(name, pipeline.source.url.database.as_deref())));
    let history = desk::ask(&pipeline, Request::new("history", json!({ "table": table })), false).await?;
    let text = history_text(&history);
    match (args.output.json, text.is_empty()) {
        (true, _) => output::print_json(&history)?,
        (false, true) => output::print("no schema change yet")?,
        (false, false) => output::print(&text)?,
    }
    Ok(Exit::Fine)
}

fn named(name: &str, database: Option<&str>) -> TableId {
    match name.split_once('.') {
        Some((namespace, table)) => TableId::new(namespace, table),
        None => TableId::new(database.unwrap_or_default(), name),
    }
}
