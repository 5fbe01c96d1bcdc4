//! `instar verify FILE [TABLE]`: values compared, source against each sink.

use super::{load, optional_table};
use crate::{
    cli::Verify,
    exit::{Exit, Failure},
};

pub async fn run(args: Verify) -> Result<Exit, Failure> {
    optional_table(&load(&args.file)?, args.table.as_deref())?;
    Err(Failure::not_built("instar verify"))
}
