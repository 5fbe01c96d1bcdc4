//! The ways out, in words. What happened is the change's own `Display`.

/// Ways out of a hold.
pub const HELD: &str = "Approve or keep the change, or reload the table.";
/// Ways out where the target cannot have a column under its name.
pub const NAME: &str = "Give the column another name on this sink (`columns`), keep the change, or reload the table once it has one.";
/// Ways out where the target has no type for a column.
pub const TYPE: &str = "Give the column a type on this sink (`type_map`), keep the change, or reload the table once it has one.";
/// Ways out of a stop.
pub const STOPPED: &str = "Reload the table, or remove it from the configuration.";
/// The way out where the row key changed.
pub const KEY: &str = "Restore the row key on the source, then reload the table.";
/// Ways out where the source's table is gone.
pub const GONE: &str = "Remove the table from the configuration, or put it back on the source and reload the table.";
/// Ways out where it is not known what a statement did.
pub const UNKNOWN: &str =
    "Reload the table, remove it from the configuration, or accept the statement if it changed neither shape nor rows of it.";
/// The way out where the configuration no longer fits the source.
pub const MAPPING: &str = "Correct the table's columns in the configuration, or reload the table.";
