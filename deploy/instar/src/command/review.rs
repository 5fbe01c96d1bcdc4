//! `instar review`: cards of held tables, and their decisions.

use std::sync::Arc;

use runtime::control::Request;
use schemas::{order::ledger::Approval, table::TableId};
use serde_json::{Value as Json, json};
use sink::{
    postgres::PostgresTarget,
    review::{approve, cards_text},
};

use super::{load, named_sink, person, table};
use crate::{
    cli::{Output, Review, ReviewTable},
    desk,
    exit::{Exit, Failure},
    output,
};

pub async fn run(args: Review) -> Result<Exit, Failure> {
    match args {
        Review::List(list) => show(&list.file, None, None, list.output).await,
        Review::Show(review) => show(&review.file, Some(&review.table), review.sink.as_deref(), review.output).await,
        Review::Approve(args) => {
            let ddl = if args.ddl.is_empty() { None } else { Some(args.ddl) };
            decide(args.review, Approval::Approve { ddl }, "approved").await
        }
        Review::Keep(review) => decide(review, Approval::Keep, "kept").await,
    }
}

async fn show(file: &crate::cli::File, name: Option<&str>, sink: Option<&str>, output: Output) -> Result<Exit, Failure> {
    let pipeline = Arc::new(load(file)?);
    let wanted = name.map(|name| table(&pipeline, name)).transpose()?;
    sink.map(|name| named_sink(&pipeline, name)).transpose()?;
    let cards = desk::ask(&pipeline, Request::new("review", json!({ "sink": sink })), false).await?;
    let shown = |card: &&Json| wanted.as_ref().is_none_or(|id| card["table"] == id.to_string().as_str());
    let cards: Vec<Json> = cards.as_array().into_iter().flatten().filter(shown).cloned().collect();
    match (output.json, wanted, cards.is_empty()) {
        (_, Some(id), true) => return Err(Failure::error(format!("{id} is not held"))),
        (true, ..) => output::print_json(&cards)?,
        (false, None, true) => output::print("no table is held")?,
        (false, _, false) => output::print(&cards_text(&cards))?,
    }
    Ok(Exit::Fine)
}

/// Records a decision in the target; the sink's process carries it out.
async fn decide(review: ReviewTable, approval: Approval, done: &str) -> Result<Exit, Failure> {
    let pipeline = load(&review.file)?;
    let id = table(&pipeline, &review.table)?;
    let sinks: Vec<_> = match review.sink.as_deref() {
        Some(name) => vec![named_sink(&pipeline, name)?],
        None => pipeline.sinks.values().collect(),
    };
    let [sink] = sinks.as_slice() else {
        return Err(Failure::usage(format!("{id} may be held on several sinks: name one by --sink")));
    };
    let target = PostgresTarget::new(&pipeline.name, sink).map_err(|e| Failure::error(e.to_string()))?;
    approve(&target, &id, approval, &person()).await.map_err(|e| Failure::error(e.to_string()))?;
    report(&id, &sink.name, done, review.output)
}

fn report(id: &TableId, sink: &str, done: &str, output: Output) -> Result<Exit, Failure> {
    if output.json {
        output::print_json(&json!({ "table": id.to_string(), "sink": sink, "decision": done }))?;
    } else {
        output::print(&format!("{id} on {sink}: {done}; the sink carries it out"))?;
    }
    Ok(Exit::Fine)
}
