//! `instar pause FILE`: capture rests; what is published is still applied.

use source::capture::Command;

use super::{load, tell_source};
use crate::{
    cli::Pause,
    exit::{Exit, Failure},
};

pub async fn run(args: Pause) -> Result<Exit, Failure> {
    tell_source(load(&args.file)?, &Command::Pause, "pause", args.output).await
}
