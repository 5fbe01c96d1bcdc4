//! `instar reload FILE [TABLE]`: a table copied anew.

use super::{load, named_sink, optional_table};
use crate::{
    cli::Reload,
    exit::{Exit, Failure},
};

pub async fn run(args: Reload) -> Result<Exit, Failure> {
    let pipeline = load(&args.file)?;
    optional_table(&pipeline, args.table.as_deref())?;
    args.sink.as_deref().map(|name| named_sink(&pipeline, name)).transpose()?;
    Err(Failure::not_built("instar reload"))
}
