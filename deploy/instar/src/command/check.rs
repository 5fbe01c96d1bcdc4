//! `instar check FILE`: everything that is wrong, with remedies.

use super::load;
use crate::{
    cli::Check,
    exit::{Exit, Failure},
};

pub async fn run(args: Check) -> Result<Exit, Failure> {
    load(&args.file)?;
    Err(Failure::not_built("instar check"))
}
