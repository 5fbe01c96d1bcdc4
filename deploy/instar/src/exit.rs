//! How a command ends.

use std::process::ExitCode;

use runtime::{
    config::ConfigErrors,
    control::{ControlError, Refusal},
    log::LogError,
};

/// The exit codes, which scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Fine = 0,
    Error = 1,
    /// Bad usage or configuration.
    Usage = 2,
    /// Stopped: needs operator.
    Stopped = 3,
    /// `wait`: a table is held.
    Held = 4,
    /// `wait`: the time is up.
    TimedOut = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// A command that did not do what it was asked to: what to print on standard error, and the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    pub fn error(message: impl Into<String>) -> Self {
        Self { exit: Exit::Error, message: message.into() }
    }

    /// For what the program does not do yet.
    pub fn not_built(what: &str) -> Self {
        Self::usage(format!("{what} is not built yet"))
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::usage(errors.to_string())
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self::error(error.to_string())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let exit = match refusal.code {
            2 => Exit::Usage,
            3 => Exit::Stopped,
            4 => Exit::Held,
            5 => Exit::TimedOut,
            _ => Exit::Error,
        };
        Self { exit, message: refusal.message }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Refused(refusal) => refusal.into(),
            ControlError::Lost(_) | ControlError::Log(_) => Self::error(error.to_string()),
        }
    }
}
