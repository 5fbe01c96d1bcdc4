//! `instar plan FILE`: what a statement would do on each sink; nothing is touched.

use std::collections::BTreeMap;

use runtime::config::{SourceEngine, TargetEngine};
use serde_json::{Value as Json, json};
use sink::{
    evolve::dry::{self, Answer, Statement},
    postgres::PostgresTarget,
    status::history::change,
};
use source::{
    engine::Engine,
    mysql::{Explained, MySql},
};

use super::{load, table};
use crate::{
    cli::Plan,
    exit::{Exit, Failure},
    output,
};

pub async fn run(args: Plan) -> Result<Exit, Failure> {
    let pipeline = load(&args.file)?;
    let id = table(&pipeline, &args.table)?;
    let failed = |e: source::error::CaptureError| Failure::error(format!("source: {e}"));
    let mut engine = match pipeline.source.engine {
        SourceEngine::MySql => MySql::new(&pipeline.source).map_err(failed)?,
    };
    let (_, mut shapes) = engine.pinned(std::slice::from_ref(&id)).await.map_err(failed)?;
    let Some(before) = shapes.pop() else { return Err(Failure::error(format!("source: {id} is not there"))) };
    let mut answers = BTreeMap::new();
    let mut changes = Vec::new();
    let everywhere = |outcome, reason: String| Answer { outcome, reason, target_ddl: Vec::new() };
    match engine.explain(&args.ddl, &before).await.map_err(failed)? {
        Explained::Nothing => {
            let answer = everywhere("nothing_to_apply", format!("the statement changes nothing of {id}"));
            answers.extend(pipeline.sinks.keys().map(|name| (name.clone(), answer.clone())));
        }
        Explained::Stands(why) => {
            let answer = everywhere("stopped", format!("the source would stand before it: {why}"));
            answers.extend(pipeline.sinks.keys().map(|name| (name.clone(), answer.clone())));
        }
        Explained::Changes { shape, changes: typed } => {
            changes = typed.iter().map(change).collect();
            let statement = Statement { ddl: args.ddl.clone(), before, after: shape, changes: typed };
            for (name, sink) in &pipeline.sinks {
                let answer = match sink.target {
                    TargetEngine::Postgres => match PostgresTarget::new(&pipeline.name, sink) {
                        Ok(target) => dry::dry_run(&target, sink, &statement).await,
                        Err(error) => Err(error),
                    },
                };
                answers.insert(name.clone(), answer.map_err(|e| Failure::error(format!("sink {name}: {e}")))?);
            }
        }
    }
    if args.output.json {
        let sinks: serde_json::Map<String, Json> = answers
            .iter()
            .map(|(name, a)| (name.clone(), json!({ "outcome": a.outcome, "reason": a.reason, "target_ddl": a.target_ddl })))
            .collect();
        output::print_json(&json!({ "table": id.to_string(), "ddl": args.ddl, "changes": changes, "sinks": sinks }))?;
    } else {
        for (name, answer) in &answers {
            output::print(&text(name, answer))?;
        }
    }
    Ok(Exit::Fine)
}

fn text(sink: &str, answer: &Answer) -> String {
    let mut text = format!("{sink}: {}", answer.outcome);
    if !answer.reason.is_empty() {
        text.push_str(&format!("\n  {}", answer.reason));
    }
    for sql in &answer.target_ddl {
        text.push_str(&format!("\n  target> {sql}"));
    }
    text
}
