//! Much of one kind: a transaction of very many rows, very many tables, very many schema versions. Memory must stay flat, and the start
//! must not take longer than what is new asks for.

use std::time::{Duration, Instant};

use tests::{
    pipeline::{Pipeline, Setup, Usage},
    postgres, source,
};

const NAME: &str = "bench_scale";
/// Statements of one round trip.
const TOGETHER: u64 = 500;

struct Scale {
    source: source::Session,
    target: postgres::Session,
    pipeline: Pipeline,
}

impl Scale {
    async fn new() -> Self {
        let mut session = source::Session::connect(&source::url("mariadb")).await;
        session.fresh_database(NAME).await;
        Self { source: session, target: postgres::Session::fresh_database(NAME).await, pipeline: Pipeline::new(NAME, "") }
    }

    fn configure(&self, tables: &[String]) {
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let (source_url, target_url) = (source::url("mariadb"), postgres::database_url(NAME));
        let setup = Setup {
            name: NAME,
            source_url: &source_url,
            database: NAME,
            tables: &tables,
            target_url: &target_url,
            schema: "public",
            partitions: 1,
            source_extra: "",
            sink_extra: "",
        };
        self.pipeline.reconfigure(&setup.yaml());
    }

    async fn each(&mut self, count: u64, statement: impl Fn(u64) -> String) {
        for from in (0..count).step_by(TOGETHER as usize) {
            let statements: Vec<String> = (from..(from + TOGETHER).min(count)).map(&statement).collect();
            let block = format!("BEGIN NOT ATOMIC {}; END", statements.join("; "));
            self.source.run(&block).await;
        }
    }

    fn wait(&self, what: &str, begin: Instant) {
        let (code, printed) = self.pipeline.wait("caught-up", 3600);
        assert_eq!(code, 0, "{printed}\n{}", self.pipeline.log());
        let Usage { cpu_seconds, peak_mib } = Usage::of(self.pipeline.pid());
        println!("{what:44} {:>7.1} s wall  {cpu_seconds:>7.1} CPU-s in all  {peak_mib:>5.0} MiB peak", begin.elapsed().as_secs_f64());
    }

    async fn count(&self, table: &str) -> u64 {
        self.target.value(&format!("SELECT count(*) FROM {table}")).await.and_then(|n| n.parse().ok()).unwrap_or_default()
    }

    fn topics(&self) -> u64 {
        let folder = self.pipeline.folder.join("topics");
        let mut bytes = 0;
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(data) if data.is_dir() => folders.push(entry.path()),
                    Ok(data) => bytes += data.len(),
                    Err(_) => {}
                }
            }
        }
        bytes >> 20
    }
}

/// One transaction of so many rows, and its peak memory.
pub async fn transaction(rows: u64) {
    println!("one transaction of {rows} rows, source and sink in one process:");
    let mut scale = Scale::new().await;
    scale.source.run("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(80) NOT NULL)").await;
    scale.configure(&[format!("{NAME}.t")]);
    let begin = Instant::now();
    scale.pipeline.start();
    scale.wait("empty", begin);
    scale.source.run("BEGIN").await;
    for from in (0..rows).step_by(100_000) {
        let to = (from + 99_999).min(rows - 1);
        scale.source.run(&format!("INSERT INTO t SELECT seq, CONCAT(seq, REPEAT('x', 60)) FROM seq_{from}_to_{to}")).await;
    }
    scale.source.run("COMMIT").await;
    let begin = Instant::now();
    scale.wait("the transaction", begin);
    assert_eq!(scale.count("t").await, rows);
}

/// So many small tables: the start with their copies, rows into all of them, a start with nothing new.
pub async fn tables(count: u64) {
    println!("{count} tables, source and sink in one process:");
    let mut scale = Scale::new().await;
    scale.each(count, |i| format!("CREATE TABLE t{i} (id INT PRIMARY KEY, v VARCHAR(20) NOT NULL)")).await;
    scale.each(count, |i| format!("INSERT INTO t{i} VALUES (1, 'one')")).await;
    let tables: Vec<String> = (0..count).map(|i| format!("{NAME}.t{i}")).collect();
    scale.configure(&tables);
    let begin = Instant::now();
    scale.pipeline.start();
    scale.wait("start and copy", begin);
    let begin = Instant::now();
    scale.each(count, |i| format!("INSERT INTO t{i} VALUES (2, 'two')")).await;
    scale.wait("a row into each", begin);
    scale.pipeline.stop();
    let begin = Instant::now();
    scale.pipeline.start();
    scale.source.run("INSERT INTO t0 VALUES (3, 'three')").await;
    scale.flows("t0", 3).await;
    scale.wait("started again: until rows flow", begin);
    assert_eq!(scale.count(&format!("t{}", count - 1)).await, 2);
    println!("{:44} {:>7} MiB of topics", "", scale.topics());
}

/// So many ALTERs of one table behind it: a start with nothing new but a row.
pub async fn versions(count: u64) {
    println!("{count} schema versions, source and sink in one process:");
    let mut scale = Scale::new().await;
    scale.source.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) NOT NULL)").await;
    scale.configure(&[format!("{NAME}.t")]);
    scale.pipeline.start();
    scale.pipeline.caught_up();
    let begin = Instant::now();
    let renamed = |i: u64| if i.is_multiple_of(2) { ("v", "w") } else { ("w", "v") };
    scale.each(count, |i| format!("ALTER TABLE t RENAME COLUMN {} TO {}", renamed(i).0, renamed(i).1)).await;
    scale.wait("the ALTERs", begin);
    scale.pipeline.stop();
    let begin = Instant::now();
    scale.pipeline.start();
    scale.source.run("INSERT INTO t VALUES (1, 'one')").await;
    scale.flows("t", 1).await;
    scale.wait("started again: until rows flow", begin);
}

impl Scale {
    async fn flows(&self, table: &str, rows: u64) {
        while self.count(table).await < rows {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
