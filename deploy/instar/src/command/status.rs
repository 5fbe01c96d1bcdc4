//! `instar status FILE`: states, lag, positions.

use super::load;
use crate::{
    cli::Status,
    exit::{Exit, Failure},
};

pub async fn run(args: Status) -> Result<Exit, Failure> {
    load(&args.file)?;
    Err(Failure::not_built("instar status"))
}
