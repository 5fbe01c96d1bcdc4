//! `instar sink FILE NAME`: one sink as a process of its own.

use runtime::config::Transport;

use super::{load_process, named_sink};
use crate::{
    cli::SinkProcess,
    exit::{Exit, Failure},
    process::{self, Role},
};

pub async fn run(args: SinkProcess) -> Result<Exit, Failure> {
    let pipeline = load_process(&args.file, args.admin)?;
    named_sink(&pipeline, &args.name)?;
    match &pipeline.topics.transport {
        Transport::Local(_) => Err(Failure::usage(format!(
            "{}: topics.transport is local, which one process has to itself: `instar run {0}` runs the source and all sinks in it",
            pipeline.file.display()
        ))),
        Transport::Kafka(_) => process::run(pipeline, Role::Sink(args.name)).await,
    }
}
