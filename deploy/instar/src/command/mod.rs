//! One file per command.

mod accept;
mod check;
mod history;
mod matrix;
mod pause;
mod plan;
mod reload;
mod resume;
mod review;
mod run;
mod sink;
mod source;
mod status;
mod verify;
mod wait;

use std::sync::Arc;

use ::source::capture::Command as CaptureCommand;
use runtime::{
    config::{Pipeline, Sink},
    control::Request,
};
use schemas::table::TableId;
use serde_json::json;

use crate::{
    cli::{Admin, Command, File, Output},
    desk,
    exit::{Exit, Failure},
    output,
};

pub async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Check(args) => check::run(args).await,
        Command::Run(args) => run::run(args).await,
        Command::Source(args) => source::run(args).await,
        Command::Sink(args) => sink::run(args).await,
        Command::Plan(args) => plan::run(args).await,
        Command::Status(args) => status::run(args).await,
        Command::History(args) => history::run(args).await,
        Command::Wait(args) => wait::run(args).await,
        Command::Review(args) => review::run(args).await,
        Command::Reload(args) => reload::run(args).await,
        Command::Accept(args) => accept::run(args).await,
        Command::Pause(args) => pause::run(args).await,
        Command::Resume(args) => resume::run(args).await,
        Command::Verify(args) => verify::run(args).await,
        Command::Matrix(args) => matrix::run(args),
    }
}

/// The pipeline of a command's file.
fn load(file: &File) -> Result<Pipeline, Failure> {
    Ok(Pipeline::load(&file.path)?)
}

/// The pipeline of a process that serves its status.
fn load_process(file: &File, admin: Admin) -> Result<Pipeline, Failure> {
    let mut pipeline = load(file)?;
    if let Some(listen) = admin.listen {
        pipeline.admin.listen = listen;
    }
    Ok(pipeline)
}

/// A table that the command line names: `database.table`, or a table of the URL's database.
fn table(pipeline: &Pipeline, name: &str) -> Result<TableId, Failure> {
    let tables = &pipeline.source.tables;
    let named =
        |id: &TableId| id.to_string() == name || (pipeline.source.url.database.as_deref() == Some(&id.namespace) && id.name == name);
    tables.iter().map(|t| &t.table).find(|id| named(id)).cloned().ok_or_else(|| {
        let known: Vec<String> = tables.iter().map(|t| t.table.to_string()).collect();
        Failure::usage(format!("{name} is not among source.tables of {}; they are {}", pipeline.file.display(), known.join(", ")))
    })
}

fn optional_table(pipeline: &Pipeline, name: Option<&str>) -> Result<Option<TableId>, Failure> {
    name.map(|name| table(pipeline, name)).transpose()
}

/// A sink that the command line names.
fn named_sink<'p>(pipeline: &'p Pipeline, name: &str) -> Result<&'p Sink, Failure> {
    pipeline.sinks.get(name).ok_or_else(|| {
        let known: Vec<&str> = pipeline.sinks.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("they are {}", known.join(", ")) };
        Failure::usage(format!("{name} is not among the sinks of {}; {known}", pipeline.file.display()))
    })
}

/// Puts a command where the source reads it, now or when it runs again.
async fn tell_source(pipeline: Pipeline, command: &CaptureCommand, what: &str, output: Output) -> Result<Exit, Failure> {
    let arguments = serde_json::to_value(command).map_err(|e| Failure::error(e.to_string()))?;
    let answer = desk::ask(&Arc::new(pipeline), Request::new("source", arguments), true).await?;
    if output.json {
        output::print_json(&json!({ "command": what, "offset": answer["offset"] }))?;
    } else {
        output::print(&format!("{what}: asked for; the source takes it where it stands"))?;
    }
    Ok(Exit::Fine)
}

/// Who decides, for the audit log.
fn person() -> String {
    std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "unknown".into())
}
