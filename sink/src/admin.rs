//! What a process serves over HTTP: `/`, `/status`, `/metrics`, `/healthz`, `/readyz`. Nothing here changes state.

mod page;

use std::{future::Future, io, net::SocketAddr, pin::Pin, sync::Arc};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use runtime::shutdown::Shutdown;
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch};

use crate::status::{Liveness, status_text};

/// Gives the pipeline's status; an error says why it cannot be told.
pub type StatusSource = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync>;

/// What the pages are made of.
#[derive(Clone)]
pub struct Admin {
    pub pipeline: String,
    /// What runs in this process, and its state: the source, and sinks by name.
    pub parts: Vec<(String, watch::Receiver<Liveness>)>,
    pub status: StatusSource,
    /// Prometheus text.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Binds the address (port 0: any free one), and gives the one it got.
pub async fn bind(listen: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves until shutdown.
pub async fn serve(listener: TcpListener, admin: Admin, shutdown: Shutdown) -> io::Result<()> {
    let end = async move { shutdown.wait().await };
    axum::serve(listener, router(admin)).with_graceful_shutdown(end).await
}

fn router(admin: Admin) -> Router {
    Router::new()
        .route("/", get(root))
        .route("/status", get(status))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(admin)
}

async fn root(State(admin): State<Admin>) -> Response {
    match (admin.status)().await {
        Ok(status) => Html(page::render(&admin.pipeline, &status_text(&status))).into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, Html(page::render(&admin.pipeline, &why))).into_response(),
    }
}

async fn status(State(admin): State<Admin>) -> Response {
    match (admin.status)().await {
        Ok(status) => Json(status).into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], (admin.metrics)()).into_response()
}

/// The process answers.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Ready unless some part of the process waits for a person, or has ended.
async fn readyz(State(admin): State<Admin>) -> Response {
    let mut text = String::new();
    let mut ready = true;
    for (name, state) in &admin.parts {
        let state = state.borrow().clone();
        let (word, message) = match &state {
            Liveness::Running => ("running", ""),
            Liveness::Paused => ("paused", ""),
            Liveness::Retrying(reason) => ("retrying", reason.as_str()),
            Liveness::Stopped(message) | Liveness::Ended(message) => ("stopped", message.as_str()),
            Liveness::Down => ("down", ""),
        };
        ready &= match state {
            Liveness::Running | Liveness::Paused | Liveness::Retrying(_) => true,
            Liveness::Stopped(_) | Liveness::Ended(_) | Liveness::Down => false,
        };
        text.push_str(&format!("{name}: {word} {message}").trim_end().replace('\n', " "));
        text.push('\n');
    }
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> (u16, String) {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    #[tokio::test]
    async fn a_stop_is_not_ready_and_everything_else_answers() {
        let (state, receiver) = watch::channel(Liveness::Running);
        let answer = json!({ "pipeline": "shop", "source": { "state": "running", "message": "<b>" }, "sinks": {} });
        let admin = Admin {
            pipeline: "shop".into(),
            parts: vec![("sink warehouse".into(), receiver)],
            status: Arc::new(move || {
                let answer = answer.clone();
                Box::pin(async move { Ok(answer) })
            }),
            metrics: Arc::new(|| "instar_up 1\n".into()),
        };
        let (listener, address) = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let (end, shutdown) = Shutdown::new();
        let server = tokio::spawn(serve(listener, admin, shutdown));

        assert_eq!(get(address, "/healthz").await, (200, "ok\n".into()));
        assert_eq!(get(address, "/metrics").await, (200, "instar_up 1\n".into()));
        assert_eq!(get(address, "/readyz").await, (200, "sink warehouse: running\n".into()));
        let (code, body) = get(address, "/status").await;
        assert_eq!((code, serde_json::from_str::<Value>(&body).unwrap()["source"]["state"].clone()), (200, json!("running")));
        let (code, body) = get(address, "/").await;
        assert!(code == 200 && body.contains("pipeline shop") && body.contains("&lt;b&gt;") && !body.contains("<b>"), "{body}");
        assert_eq!(get(address, "/nothing").await.0, 404);

        state.send_replace(Liveness::Stopped("a change stops. Reload the table.".into()));
        assert_eq!(get(address, "/readyz").await, (503, "sink warehouse: stopped a change stops. Reload the table.\n".into()));
        end.request();
        server.await.unwrap().unwrap();
    }
}
