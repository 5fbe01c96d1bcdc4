//! What a process serves over HTTP: status, metrics, health.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use runtime::{config::Pipeline, control::Request, telemetry::Metrics};
use serde_json::{Value, json};
use sink::status::{self, Liveness};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{desk::Desk, exit::Failure, observe::Live};

#[derive(Clone)]
struct Served {
    pipeline: Arc<Pipeline>,
    desk: Arc<Desk>,
    live: Arc<dyn Live>,
    metrics: Metrics,
}

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Server(JoinHandle<()>);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Binds to `admin.listen` and says where.
pub async fn serve(pipeline: &Arc<Pipeline>, desk: Arc<Desk>, live: Arc<dyn Live>, metrics: Metrics) -> Result<Server, Failure> {
    let listen = pipeline.admin.listen;
    let failed = |e: std::io::Error| Failure::error(format!("admin.listen {listen}: {e}; choose another address, or give --admin ADDR (port 0: any free port)"));
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tracing::info!("status at http://{address}/");
    let router = Router::new()
        .route("/", get(page))
        .route("/status", get(status_json))
        .route("/history", get(history_json))
        .route("/metrics", get(metrics_text))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(Served { pipeline: pipeline.clone(), desk, live, metrics });
    Ok(Server(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::warn!(%error, "the admin server ended");
        }
    })))
}

async fn ask(served: &Served, command: &str) -> Result<Value, Response> {
    let answer = served.desk.handle(Request::new(command, json!({ "table": null }))).await;
    answer.map_err(|e| (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error_code": 500, "message": e.message }))).into_response())
}

async fn status_json(State(served): State<Served>) -> Result<Json<Value>, Response> {
    ask(&served, "status").await.map(Json)
}

async fn history_json(State(served): State<Served>) -> Result<Json<Value>, Response> {
    ask(&served, "history").await.map(Json)
}

async fn page(State(served): State<Served>) -> Result<Html<String>, Response> {
    let status = ask(&served, "status").await?;
    let history = ask(&served, "history").await?;
    let text = format!("{}\n{}", status::status_text(&status), status::history::history_text(&history));
    let title = escape(&served.pipeline.name);
    Ok(Html(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=5><title>{title} - Instar</title>\
         <body style=\"font-family:sans-serif\"><h1>{title}</h1><pre>{}</pre>\
         <p><a href=/status>status</a> <a href=/history>history</a> <a href=/metrics>metrics</a></p>",
        escape(&text)
    )))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

async fn metrics_text(State(served): State<Served>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], served.metrics.render()).into_response()
}

/// 503 with the reason where a part needs an operator.
async fn ready(State(served): State<Served>) -> Response {
    let durable = ask(&served, "status").await.ok();
    let stopped = |part: &str, state: Liveness| if let Liveness::Stopped(why) = state { Some(format!("{part} is stopped: {why}\n")) } else { None };
    let mut reasons: Vec<String> = stopped("source", served.live.source()).into_iter().collect();
    for name in served.pipeline.sinks.keys() {
        let recorded = durable.as_ref().map(|s| &s["sinks"][name.as_str()]).filter(|s| s["state"] == "stopped");
        let recorded = recorded.and_then(|s| s["message"].as_str()).map(|why| format!("sink {name} is stopped: {why}\n"));
        reasons.extend(stopped(&format!("sink {name}"), served.live.sink(name)).or(recorded));
    }
    if reasons.is_empty() { "ready\n".into_response() } else { (StatusCode::SERVICE_UNAVAILABLE, reasons.concat()).into_response() }
}
