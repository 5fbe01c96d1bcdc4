//! `instar wait FILE`: until the sinks have applied what was committed.

use super::load;
use crate::{
    cli::Wait,
    exit::{Exit, Failure},
};

pub async fn run(args: Wait) -> Result<Exit, Failure> {
    load(&args.file)?;
    Err(Failure::not_built("instar wait"))
}
