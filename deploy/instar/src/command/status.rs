//! `instar status FILE`: states, lag, positions, holds and copies; also when nothing runs.

use std::sync::Arc;

use runtime::control::Request;
use serde_json::json;
use sink::status::status_text;

use super::load;
use crate::{
    cli::Status,
    desk,
    exit::{Exit, Failure},
    output,
};

pub async fn run(args: Status) -> Result<Exit, Failure> {
    let pipeline = Arc::new(load(&args.file)?);
    let status = desk::ask(&pipeline, Request::new("status", json!({})), false).await?;
    if args.output.json {
        output::print_json(&status)?
    } else {
        output::print(&status_text(&status))?
    }
    Ok(Exit::Fine)
}
