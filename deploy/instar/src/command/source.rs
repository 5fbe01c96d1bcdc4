//! `instar source FILE`: the source as a process of its own.

use runtime::config::Transport;

use super::load_process;
use crate::{
    cli::SourceProcess,
    exit::{Exit, Failure},
    process::{self, Role},
};

pub async fn run(args: SourceProcess) -> Result<Exit, Failure> {
    let pipeline = load_process(&args.file, args.admin)?;
    match &pipeline.topics.transport {
        Transport::Local(_) => Err(Failure::usage(format!(
            "{}: topics.transport is local, which one process has to itself: `instar run {0}` runs the source and all sinks in it",
            pipeline.file.display()
        ))),
        Transport::Kafka(_) => process::run(pipeline, Role::Source).await,
    }
}
