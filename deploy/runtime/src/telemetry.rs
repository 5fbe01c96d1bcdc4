//! Logs to standard error, metrics as Prometheus text. Neither holds row values or secrets.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use thiserror::Error;
use tracing_subscriber::{
    EnvFilter,
    fmt::{self, writer::BoxMakeWriter},
    prelude::*,
};

/// What is logged: levels, by part of the program, as `info,source=debug`.
pub const FILTER: &str = "INSTAR_LOG";
/// How: `text` (default) or `json`.
pub const FORMAT: &str = "INSTAR_LOG_FORMAT";
/// Libraries are quiet unless they are asked for.
const DEFAULT_FILTER: &str = "info,mysql_async=warn,tokio_postgres=warn,rustls=warn";
/// Upper bounds of times, in seconds.
const SECONDS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

#[derive(Debug, Error)]
pub enum TelemetryError {
    #[error("{FILTER}: {0}; write for example info or info,source=debug")]
    Filter(String),
    #[error("{FORMAT}: {0:?} is not one of text, json")]
    Format(String),
    #[error("{0}")]
    Taken(String),
}

/// The metrics of this process.
#[derive(Debug, Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// The text that `/metrics` gives.
    pub fn render(&self) -> String {
        self.0.run_upkeep();
        self.0.render()
    }
}

/// Begins logging and counting; once in a process.
pub fn init() -> Result<Metrics, TelemetryError> {
    init_logs()?;
    let recorder = recorder()?;
    let metrics = Metrics(recorder.handle());
    metrics::set_global_recorder(recorder).map_err(|e| TelemetryError::Taken(e.to_string()))?;
    Ok(metrics)
}

/// Begins logging alone: for commands that serve no metrics.
pub fn init_logs() -> Result<(), TelemetryError> {
    let filter = filter(env::var(FILTER).ok().as_deref())?;
    let json = json()?;
    let writer = if draws() { BoxMakeWriter::new(|| OverBars) } else { BoxMakeWriter::new(io::stderr) };
    // No colours: the library panics on them where it is built without.
    let layer = fmt::layer().with_ansi(false).with_writer(writer);
    let registry = tracing_subscriber::registry().with(filter);
    let begun = if json { registry.with(layer.json()).try_init() } else { registry.with(layer).try_init() };
    begun.map_err(|e| TelemetryError::Taken(e.to_string()))
}

/// Whether logs are JSON.
fn json() -> Result<bool, TelemetryError> {
    match env::var(FORMAT).as_deref() {
        Ok("json") => Ok(true),
        Ok("text") | Err(env::VarError::NotPresent) => Ok(false),
        Ok(other) => Err(TelemetryError::Format(other.to_owned())),
        Err(env::VarError::NotUnicode(_)) => Err(TelemetryError::Format("text that is not UTF-8".to_owned())),
    }
}

/// Whether bars may be drawn on standard error: it is a terminal that can move its cursor, and logs are text for a person.
pub fn draws() -> bool {
    let moves = env::var("TERM").is_ok_and(|name| !name.is_empty() && name != "dumb");
    moves && io::stderr().is_terminal() && json().is_ok_and(|json| !json)
}

/// Clears from where bars begin, which is where the cursor stands.
pub const CLEAR: &str = "\r\x1b[J";

/// Standard error where bars may stand: a line of the log takes their place, and they are drawn again below it.
struct OverBars;

impl Write for OverBars {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(&[CLEAR.as_bytes(), line].concat())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn filter(configured: Option<&str>) -> Result<EnvFilter, TelemetryError> {
    let text = configured.filter(|text| !text.trim().is_empty()).unwrap_or(DEFAULT_FILTER);
    EnvFilter::try_new(text).map_err(|e| TelemetryError::Filter(e.to_string()))
}

fn recorder() -> Result<PrometheusRecorder, TelemetryError> {
    let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS);
    Ok(builder.map_err(|e| TelemetryError::Taken(e.to_string()))?.build_recorder())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_rendered_as_prometheus_text() {
        let recorder = recorder().unwrap();
        let metrics = Metrics(recorder.handle());
        metrics::with_local_recorder(&recorder, || {
            metrics::describe_counter!("instar_rows_total", "Rows published.");
            metrics::counter!("instar_rows_total", "table" => "shop.orders").increment(3);
            metrics::gauge!("instar_held", "table" => "a\"b").set(1.0);
            metrics::histogram!("instar_flush_seconds").record(0.004);
        });
        let text = metrics.render();
        for line in [
            "# HELP instar_rows_total Rows published.",
            "# TYPE instar_rows_total counter",
            "instar_rows_total{table=\"shop.orders\"} 3",
            "instar_held{table=\"a\\\"b\"} 1",
            "instar_flush_seconds_bucket{le=\"0.0025\"} 0",
            "instar_flush_seconds_bucket{le=\"0.005\"} 1",
            "instar_flush_seconds_count 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_filter_is_taken_or_refused_by_name() {
        assert_eq!(filter(None).unwrap().to_string(), filter(Some(" ")).unwrap().to_string());
        assert_eq!(filter(Some("debug")).unwrap().to_string(), "debug");
        let error = filter(Some("source=lots")).unwrap_err().to_string();
        assert!(error.starts_with("INSTAR_LOG: error parsing level filter"), "{error}");
    }
}
