//! `instar plan FILE`: what a statement would do.

use super::{load, table};
use crate::{
    cli::Plan,
    exit::{Exit, Failure},
};

pub async fn run(args: Plan) -> Result<Exit, Failure> {
    table(&load(&args.file)?, &args.table)?;
    Err(Failure::not_built("instar plan"))
}
