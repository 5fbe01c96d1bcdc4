//! `instar run FILE`: the source and all sinks in one process.

use super::load_process;
use crate::{
    cli::Run,
    exit::{Exit, Failure},
    process::{self, Role},
};

pub async fn run(args: Run) -> Result<Exit, Failure> {
    process::run(load_process(&args.file, args.admin)?, Role::Everything).await
}
