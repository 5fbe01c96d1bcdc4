//! `instar run FILE`: the source and all sinks in one process.

use super::load_process;
use crate::{
    cli::Run,
    exit::{Exit, Failure},
};

pub async fn run(args: Run) -> Result<Exit, Failure> {
    load_process(&args.file, args.admin)?;
    Err(Failure::not_built("instar run"))
}
