//! The command line.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Carries row changes from databases to topics and on to targets, while the shape of the tables changes.
#[derive(Debug, Parser)]
#[command(name = "instar", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check the configuration and everything it names; list all problems with their remedies
    Check(Check),
    /// Run the source and all sinks in one process
    Run(Run),
    /// Run the source alone
    Source(SourceProcess),
    /// Run one sink alone; several of the same sink share its lanes
    Sink(SinkProcess),
    /// Say what a statement would do on each sink; nothing is touched
    Plan(Plan),
    /// Show states, lag, positions, holds and copies
    Status(Status),
    /// Show every schema change with its outcome on each sink
    History(History),
    /// Wait until the sinks have applied what the source had committed when the command began
    Wait(Wait),
    /// Look at held changes and decide them
    #[command(subcommand)]
    Review(Review),
    /// Copy a table, or all tables, anew
    Reload(Reload),
    /// Accept that the statement the source stands at had no effect on a table
    Accept(Accept),
    /// Pause the pipeline
    Pause(Pause),
    /// Let a paused pipeline go on
    Resume(Resume),
    /// Compare values of the source with each sink
    Verify(Verify),
    /// Print the rules: what each change of each source does on each target
    Matrix(Matrix),
}

/// The pipeline's file.
#[derive(Debug, Clone, Args)]
pub struct File {
    /// The pipeline's configuration file
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct Output {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct Admin {
    /// Where to serve status and metrics, instead of admin.listen; port 0: any free port, which is printed
    #[arg(long = "admin", value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pub file: File,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub file: File,
    #[command(flatten)]
    pub admin: Admin,
}

#[derive(Debug, Args)]
pub struct SourceProcess {
    #[command(flatten)]
    pub file: File,
    #[command(flatten)]
    pub admin: Admin,
}

#[derive(Debug, Args)]
pub struct SinkProcess {
    #[command(flatten)]
    pub file: File,
    /// The sink's name in the file
    pub name: String,
    #[command(flatten)]
    pub admin: Admin,
}

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub file: File,
    /// The table that the statement is about
    #[arg(long)]
    pub table: String,
    /// The statement, in the source's dialect
    #[arg(long)]
    pub ddl: String,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub file: File,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct History {
    #[command(flatten)]
    pub file: File,
    /// Of this table only
    #[arg(long)]
    pub table: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

/// What `wait` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Everything is applied
    CaughtUp,
    /// Everything is applied, or stands behind a hold or a stop
    Settled,
}

#[derive(Debug, Args)]
pub struct Wait {
    #[command(flatten)]
    pub file: File,
    #[arg(long = "for", value_name = "GOAL", default_value = "caught-up")]
    pub goal: Goal,
    /// How long at most
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub output: Output,
}

fn duration(text: &str) -> Result<Duration, String> {
    runtime::config::duration(text)
}

#[derive(Debug, Subcommand)]
pub enum Review {
    /// List the held tables
    List(ReviewList),
    /// Show the card of a held table
    Show(ReviewTable),
    /// Run the proposed DDL on the target, or another
    Approve(ReviewApprove),
    /// Leave the target as it is while rows still fit
    Keep(ReviewTable),
}

#[derive(Debug, Args)]
pub struct ReviewList {
    #[command(flatten)]
    pub file: File,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct ReviewTable {
    #[command(flatten)]
    pub file: File,
    pub table: String,
    /// The sink; needed where the table is held on several
    #[arg(long)]
    pub sink: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct ReviewApprove {
    #[command(flatten)]
    pub review: ReviewTable,
    /// A statement to run instead of the proposed ones; may be given several times, in order
    #[arg(long)]
    pub ddl: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Reload {
    #[command(flatten)]
    pub file: File,
    /// The table; all tables where none is named
    pub table: Option<String>,
    /// For this sink only
    #[arg(long)]
    pub sink: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Accept {
    #[command(flatten)]
    pub file: File,
    /// The table; every table that the statement may touch where none is named
    pub table: Option<String>,
    /// The position that the source stands at, as `status` prints it; refused where it stands elsewhere by now
    #[arg(long, value_name = "POSITION")]
    pub at: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    pub file: File,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    pub file: File,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    pub file: File,
    /// The table; all tables where none is named
    pub table: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Matrix {
    #[command(flatten)]
    pub output: Output,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wait_has_its_defaults_and_takes_durations() {
        let parse = |args: &[&str]| match Cli::try_parse_from([&["instar", "wait", "f"], args].concat()).map(|cli| cli.command) {
            Ok(Command::Wait(wait)) => Ok((wait.goal, wait.timeout)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(parse(&[]), Ok((Goal::CaughtUp, Duration::from_secs(60))));
        assert_eq!(parse(&["--for", "settled", "--timeout", "500ms"]), Ok((Goal::Settled, Duration::from_millis(500))));
        assert!(parse(&["--timeout", "5"]).unwrap_err().contains("\"5\" has no unit; write for example 10ms, 5s"));
        assert!(parse(&["--for", "ever"]).unwrap_err().contains("[possible values: caught-up, settled]"));
    }
}
