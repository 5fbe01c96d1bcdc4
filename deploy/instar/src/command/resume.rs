//! `instar resume FILE`: capture goes on.

use source::capture::Command;

use super::{load, tell_source};
use crate::{
    cli::Resume,
    exit::{Exit, Failure},
};

pub async fn run(args: Resume) -> Result<Exit, Failure> {
    tell_source(load(&args.file)?, &Command::Resume, "resume", args.output).await
}
