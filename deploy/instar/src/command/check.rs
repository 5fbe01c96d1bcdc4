//! `instar check FILE`: everything that is wrong, with its remedy.

use serde_json::json;

use super::load;
use crate::{
    cli::Check,
    exit::{Exit, Failure},
    output, preflight,
};

pub async fn run(args: Check) -> Result<Exit, Failure> {
    let pipeline = load(&args.file)?;
    // Side by side: a source that does not answer is waited for once.
    let (problems, grants) = tokio::join!(preflight::problems(&pipeline), preflight::grants(&pipeline));
    let fatal = problems.iter().filter(|p| p.fatal).count();
    if args.output.json {
        let list: Vec<_> = problems.iter().map(|p| json!({ "fatal": p.fatal, "what": p.what, "remedy": p.remedy, "sql": p.sql })).collect();
        output::print_json(&json!({ "pipeline": pipeline.name, "problems": list, "grants": grants }))?;
    } else {
        for problem in &problems {
            output::print(&preflight::line(problem))?;
        }
        if !grants.is_empty() {
            output::print(&format!("the source's account needs these rights, and no more:\n  {}", grants.join("\n  ")))?;
        }
        let verdict = if fatal == 0 { "ready to run".to_owned() } else { format!("{fatal} problem(s) to mend") };
        output::print(&format!("{}: {verdict}", pipeline.name))?;
    }
    Ok(if fatal == 0 { Exit::Fine } else { Exit::Error })
}
