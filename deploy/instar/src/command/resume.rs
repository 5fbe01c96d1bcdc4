//! `instar resume FILE`.

use super::load;
use crate::{
    cli::Resume,
    exit::{Exit, Failure},
};

pub async fn run(args: Resume) -> Result<Exit, Failure> {
    load(&args.file)?;
    Err(Failure::not_built("instar resume"))
}
