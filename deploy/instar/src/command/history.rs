//! `instar history FILE`: every schema change and its outcomes.

use super::{load, optional_table};
use crate::{
    cli::History,
    exit::{Exit, Failure},
};

pub async fn run(args: History) -> Result<Exit, Failure> {
    optional_table(&load(&args.file)?, args.table.as_deref())?;
    Err(Failure::not_built("instar history"))
}
