//! Names of the source's metrics.

/// Row events published, by `table`.
pub(super) const ROWS: &str = "instar_source_rows_total";
/// Transactions of the source passed.
pub(super) const TRANSACTIONS: &str = "instar_source_transactions_total";
/// Seconds that a publisher transaction took to become durable.
pub(super) const COMMIT_SECONDS: &str = "instar_source_commit_seconds";
/// Seconds between the source's commit and its publication, as of the newest transaction.
pub(super) const LAG_SECONDS: &str = "instar_source_lag_seconds";
/// Rows read by copies, by `table`.
pub(super) const COPY_ROWS: &str = "instar_source_copy_rows_total";
/// Schema-version events, by `kind`.
pub(super) const EVENTS: &str = "instar_source_events_total";
/// 1 while the source stands and a person must act.
pub(super) const STOPPED: &str = "instar_source_stopped";
/// Connections made anew after a transient fault.
pub(super) const RETRIES: &str = "instar_source_retries_total";
