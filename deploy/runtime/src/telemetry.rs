//! Logs to standard error, metrics as Prometheus text. Neither holds row values or secrets.

use std::{env, io};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use thiserror::Error;
use tracing_subscriber::{EnvFilter, fmt, prelude::*};

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
    let layer = fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    let begun = match env::var(FORMAT).as_deref() {
        Ok("json") => registry.with(layer.json()).try_init(),
        Ok("text") | Err(env::VarError::NotPresent) => registry.with(layer.with_ansi(false)).try_init(),
        Ok(other) => return Err(TelemetryError::Format(other.to_owned())),
        Err(env::VarError::NotUnicode(_)) => return Err(TelemetryError::Format("text that is not UTF-8".to_owned())),
    };
    begun.map_err(|e| TelemetryError::Taken(e.to_string()))
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
