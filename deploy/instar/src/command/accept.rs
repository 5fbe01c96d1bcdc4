//! `instar accept FILE [TABLE]`: a statement had no effect.

use super::{load, optional_table};
use crate::{
    cli::Accept,
    exit::{Exit, Failure},
};

pub async fn run(args: Accept) -> Result<Exit, Failure> {
    optional_table(&load(&args.file)?, args.table.as_deref())?;
    Err(Failure::not_built("instar accept"))
}
