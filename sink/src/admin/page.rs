//! The web page.

/// The status text on a page that loads itself anew.
pub(super) fn render(pipeline: &str, status: &str) -> String {
    let (title, body) = (escape(pipeline), escape(status));
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\">\
         <title>{title}</title><style>body{{font-family:sans-serif;margin:2rem}}pre{{font-size:1rem;white-space:pre-wrap}}</style></head>\
         <body><h1>{title}</h1><pre>{body}</pre>\
         <p><a href=\"/status\">status</a> <a href=\"/metrics\">metrics</a> <a href=\"/readyz\">ready</a></p></body></html>"
    )
}

fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
        out
    })
}
