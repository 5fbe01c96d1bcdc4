//! The one binary: every command of a pipeline.

mod cli;
mod command;
mod desk;
mod exit;
#[cfg(target_env = "gnu")]
mod memory;
mod observe;
mod output;
mod place;
mod preflight;
mod process;
mod progress;
mod restart;

use std::process::ExitCode;

use clap::Parser;

use crate::{cli::Cli, exit::Exit};

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(target_env = "gnu")]
    if matches!(cli.command, cli::Command::Source(_)) {
        memory::few_arenas();
    }
    // A process that serves metrics sets up both.
    let logs = if matches!(cli.command, cli::Command::Run(_) | cli::Command::Source(_) | cli::Command::Sink(_)) {
        Ok(())
    } else {
        runtime::telemetry::init_logs()
    };
    if let Err(error) = logs {
        output::complain(&error.to_string());
        return Exit::Usage.into();
    }
    // The one provider; an error says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::complain(&format!("the runtime did not start: {error}"));
            return Exit::Error.into();
        }
    };
    match runtime.block_on(command::run(cli.command)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::complain(&failure.message);
            failure.exit.into()
        }
    }
}
