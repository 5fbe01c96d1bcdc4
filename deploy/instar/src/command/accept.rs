//! `instar accept FILE [TABLE]`: the statement that the source stands at had no effect on a table.

use source::capture::Command;

use super::{load, optional_table, person, tell_source};
use crate::{
    cli::Accept,
    exit::{Exit, Failure},
};

pub async fn run(args: Accept) -> Result<Exit, Failure> {
    let pipeline = load(&args.file)?;
    let table = optional_table(&pipeline, args.table.as_deref())?.map(|t| t.to_string());
    tell_source(pipeline, &Command::Accept { table, at: args.at, by: Some(person()) }, "accept", args.output).await
}
