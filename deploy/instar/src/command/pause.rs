//! `instar pause FILE`.

use super::load;
use crate::{
    cli::Pause,
    exit::{Exit, Failure},
};

pub async fn run(args: Pause) -> Result<Exit, Failure> {
    load(&args.file)?;
    Err(Failure::not_built("instar pause"))
}
