//! `instar wait FILE`: until the sinks have applied what the source had committed when the command began.

use std::sync::Arc;

use serde_json::json;
use source::{engine::Engine, mysql::MySql};

use super::load;
use crate::{
    cli::{Goal, Wait},
    desk::{self, Wanted},
    exit::{Exit, Failure},
    output,
};

pub async fn run(args: Wait) -> Result<Exit, Failure> {
    let pipeline = Arc::new(load(&args.file)?);
    let mut engine = MySql::new(&pipeline.source).map_err(|e| Failure::error(e.to_string()))?;
    let (end, _) = engine.end().await.map_err(|e| Failure::error(format!("source: {e}")))?;
    let timeout_ms = u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX);
    let wanted = Wanted { end: end.to_string(), settled: args.goal == Goal::Settled, timeout_ms };
    let (exit, message) = desk::wait(&pipeline, wanted).await?;
    let message = if exit == Exit::TimedOut { format!("timed out: {message}") } else { message };
    if args.output.json {
        output::print_json(&json!({ "exit": exit as u8, "message": message }))?;
    } else {
        output::print(&message)?;
    }
    Ok(exit)
}
