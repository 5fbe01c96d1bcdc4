//! The binary's own behaviour: usage, configuration, exit codes.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Output},
};

fn instar(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_instar")).args(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A file of its own, removed at the end.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = env::temp_dir().join(format!("instar-cli-{}-{name}.yaml", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const GOOD: &str = "\
pipeline: shop
source: { engine: mysql, url: 'mysql://a@127.0.0.1:1/shop', tables: [shop.orders] }
sinks: { warehouse: { target: postgres, url: 'postgres://a@127.0.0.1:1/w' } }
";

#[test]
fn bad_usage_ends_with_2_and_help_with_0() {
    for (args, said) in [
        (&["chekc"][..], "a similar subcommand exists: 'check'"),
        (&[], "Usage: instar <COMMAND>"),
        (&["wait", "f", "--for", "ever"], "caught-up, settled"),
        (&["run", "f", "--admin", "nowhere"], "invalid value 'nowhere' for '--admin <ADDR>'"),
        (&["plan", "f", "--table", "t"], "--ddl <DDL>"),
        (&["review"], "Usage: instar review <COMMAND>"),
    ] {
        let (code, _, err) = instar(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(said), "{args:?}: {err}");
    }
    let (code, out, _) = instar(&["--help"]);
    assert_eq!(code, 0);
    for command in [
        "check", "run", "source", "sink", "plan", "status", "history", "wait", "review", "reload", "accept", "pause", "resume", "verify",
        "matrix",
    ] {
        assert!(out.lines().any(|line| line.trim_start().starts_with(&format!("{command} "))), "{command} is not in\n{out}");
    }
}

#[test]
fn every_command_refuses_a_bad_configuration_by_key_and_line() {
    let file = File::new("bad", &GOOD.replace("tables: [shop.orders]", "tabels: [shop.orders]"));
    let wanted = format!(
        "{0}: line 2: source.tabels: unknown key; did you mean tables?\n{0}: line 2: source.tables: is missing; write for example tables: \
         [shop.orders, shop.customers]\n",
        file.name()
    );
    for args in [
        &["check"][..],
        &["run"],
        &["source"],
        &["status"],
        &["history"],
        &["wait"],
        &["review", "list"],
        &["reload"],
        &["accept"],
        &["pause"],
        &["resume"],
        &["verify"],
    ] {
        let (code, out, err) = instar(&[args, &[file.name()]].concat());
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        assert_eq!((code, out.as_str(), lines(&err)), (2, "", lines(&wanted)), "{args:?}");
    }
    let (code, _, err) = instar(&["check", "/nowhere/pipeline.yaml"]);
    assert_eq!((code, err.as_str()), (2, "/nowhere/pipeline.yaml: cannot be read: No such file or directory (os error 2)\n"));
}

#[test]
fn names_on_the_command_line_are_looked_up_in_the_file() {
    let file = File::new("names", GOOD);
    for (args, said) in [
        (&["reload", file.name(), "shop.order"][..], "shop.order is not among source.tables"),
        (&["reload", file.name(), "orders", "--sink", "lake"], "lake is not among the sinks of"),
        (&["sink", file.name(), "lake"], "they are warehouse"),
    ] {
        let (code, _, err) = instar(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(said), "{args:?}: {err}");
    }
}

#[test]
fn a_local_pipeline_runs_in_one_process() {
    let file = File::new("local", GOOD);
    for args in [&["source", file.name()][..], &["sink", file.name(), "warehouse"]] {
        let (code, _, err) = instar(args);
        let wanted = format!(
            "{0}: topics.transport is local, which one process has to itself: `instar run {0}` runs the source and all sinks in it\n",
            file.name()
        );
        assert_eq!((code, err), (2, wanted), "{args:?}");
    }
}

#[test]
fn the_matrix_is_printed_as_text_and_as_json() {
    let (code, out, _) = instar(&["matrix"]);
    assert_eq!((code, out), (0, schemas::matrix::text()));
    let (code, out, _) = instar(&["matrix", "--json"]);
    let rows: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    for row in &rows {
        for key in ["source", "kind", "target", "outcome", "note"] {
            assert!(row[key].is_string(), "{row:?}");
        }
        assert!(["applied", "nothing_to_apply", "held", "stopped"].contains(&row["outcome"].as_str().unwrap()), "{row:?}");
    }
    assert!(rows.len() > 39, "{}", rows.len());
}

#[test]
fn a_log_filter_that_is_none_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_instar")).arg("matrix").env("INSTAR_LOG", "source=lots").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("INSTAR_LOG: "));
}
