//! `instar reload FILE [TABLE]`: a table copied anew.

use source::capture::Command;

use super::{load, named_sink, optional_table, tell_source};
use crate::{
    cli::Reload,
    exit::{Exit, Failure},
};

pub async fn run(args: Reload) -> Result<Exit, Failure> {
    let pipeline = load(&args.file)?;
    let table = optional_table(&pipeline, args.table.as_deref())?;
    args.sink.as_deref().map(|name| named_sink(&pipeline, name)).transpose()?;
    let what = table.as_ref().map_or_else(|| "all tables".to_owned(), ToString::to_string);
    let command = Command::Reload { table: table.map(|t| t.to_string()), sink: args.sink };
    tell_source(pipeline, &command, &format!("reload of {what}"), args.output).await
}
