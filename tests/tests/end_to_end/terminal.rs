//! What a person sees who runs a pipeline on a terminal.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tests::pipeline::{binary, eventually};

use crate::world::{Options, World};

/// `instar run` on a pseudo-terminal, which `script` makes; what is shown there goes to a file.
struct Terminal {
    script: Child,
    shown: PathBuf,
    pid: PathBuf,
}

impl Terminal {
    fn start(world: &World, environment: &[(&str, &str)]) -> Terminal {
        let (shown, pid) = (world.pipeline.folder.join("shown"), world.pipeline.folder.join("pid"));
        let (binary, config) = (binary(), &world.pipeline.config);
        let command = format!("echo $$ > '{}'; exec '{}' run '{}' --admin 127.0.0.1:0", pid.display(), binary.display(), config.display());
        let script = Command::new("script")
            .args(["-qefc", &command, "/dev/null"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(&shown).unwrap())
            .spawn()
            .unwrap_or_else(|e| panic!("script, of the package bsdutils: {e}"));
        Terminal { script, shown, pid }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.shown).unwrap_or_default()).into_owned()
    }

    /// SIGTERM to the process itself, and its exit code.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = std::fs::read_to_string(&self.pid).unwrap();
        assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
        (self.script.wait().unwrap().code(), self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Ok(None) = self.script.try_wait()
            && let Ok(pid) = std::fs::read_to_string(&self.pid)
        {
            let _ = Command::new("kill").args(["-9", pid.trim()]).status();
            let _ = self.script.wait();
        }
    }
}

/// The lines of a terminal's screen after each clearing of it and at the end; only what the process writes is understood.
fn screens(text: &str) -> Vec<Vec<String>> {
    let (mut screens, mut lines, mut row, mut column) = (Vec::new(), vec![Vec::new()], 0_usize, 0_usize);
    let snapshot = |lines: &[Vec<char>]| lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned()).collect();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(Vec::new());
                }
            }
            '\x1b' => {
                let code: String = chars.by_ref().skip(1).take_while_inclusive(|c| !c.is_ascii_alphabetic());
                match code.as_str() {
                    "J" => {
                        screens.push(snapshot(&lines));
                        lines[row].truncate(column);
                        lines.truncate(row + 1);
                    }
                    "?7l" | "?7h" => {}
                    up if up.ends_with('A') => row -= up.trim_end_matches('A').parse::<usize>().unwrap(),
                    other => panic!("the escape {other:?} in {text:?}"),
                }
            }
            c => {
                let line: &mut Vec<char> = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
    }
    screens.push(snapshot(&lines));
    screens
}

trait TakeInclusive: Iterator<Item = char> + Sized {
    /// Up to the first character that does not fit, and with it.
    fn take_while_inclusive(self, fits: impl Fn(&char) -> bool) -> String {
        let mut taken = String::new();
        for c in self {
            taken.push(c);
            if !fits(&c) {
                break;
            }
        }
        taken
    }
}

impl<I: Iterator<Item = char>> TakeInclusive for I {}

const ROWS: u64 = 400_000;

async fn world(name: &str) -> World {
    let setup = format!(
        "CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(40));\nINSERT INTO big SELECT seq, 'row' FROM seq_1_to_{ROWS};\n\
         CREATE TABLE small (id INT PRIMARY KEY);\nINSERT INTO small VALUES (1);"
    );
    // Each chunk costs the server some milliseconds: the copy is seen on its way.
    let options = Options { source: "  snapshot: { chunk_rows: 50 }\n", ..Options::default() };
    World::with(name, &setup, &["big", "small"], options).await
}

#[tokio::test]
async fn a_copy_on_a_terminal_shows_bars_and_log_lines_stay_whole() {
    let mut world = world("bars").await;
    let terminal = Terminal::start(&world, &[]);
    eventually("the copy is told", Duration::from_secs(60), async || terminal.shown().contains("table copied table=bars.small rows=1"))
        .await;
    world.pipeline.caught_up();
    // Logs of the sink, when no bar is drawn any more.
    world.source.run("ALTER TABLE small ADD COLUMN v INT").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    let (code, shown) = terminal.stop();
    assert_eq!(code, Some(0), "{shown}");

    let screens = screens(&shown);
    let bar =
        |line: &String| line.starts_with("bars.big   [#") && line.contains("] ") && line.contains(" of about ") && line.ends_with(" rows");
    let drawn: Vec<&Vec<String>> = screens.iter().filter(|screen| screen.iter().any(bar)).collect();
    assert!(drawn.len() > 1, "no bars in {screens:#?}");
    for screen in &drawn {
        let bars: Vec<&String> = screen.iter().filter(|line| bar(line)).collect();
        assert!(bars.len() == 1 && screen.last().is_some_and(|line| line.starts_with("bars.small ")), "{screen:#?}");
        assert!(bars[0].len() < 80, "{bars:?}");
    }
    let shares = |screen: &Vec<String>| screen.iter().find(|line| bar(line)).map(|line| line.matches('#').count());
    assert!(shares(drawn[0]) < shares(drawn[drawn.len() - 1]), "the bar does not grow: {drawn:#?}");

    // What stays is the log, line by line.
    let last = screens.last().unwrap();
    let (log, rest): (Vec<_>, Vec<_>) = last.iter().partition(|line| line.starts_with("20") && line.contains("Z  INFO "));
    assert!(rest.iter().all(|line| line.is_empty()), "{last:#?}");
    let told = |what: &str| log.iter().any(|line| line.ends_with(what));
    assert!(
        told(&format!("table copied table=bars.big rows={ROWS}")) && told("schema change done sink=target table=bars.small epoch=2"),
        "{log:#?}"
    );
}

#[tokio::test]
async fn logs_as_json_on_a_terminal_are_json_alone() {
    let world = world("bars_json").await;
    let terminal = Terminal::start(&world, &[("INSTAR_LOG_FORMAT", "json")]);
    eventually("the copy is told", Duration::from_secs(60), async || terminal.shown().contains("\"table\":\"bars_json.small\",\"rows\":1"))
        .await;
    let (code, shown) = terminal.stop();
    assert_eq!(code, Some(0), "{shown}");
    for line in shown.lines() {
        let parsed: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        assert_eq!(parsed["level"], "INFO", "{line}");
    }
}
