//! What a copy costs.

use std::time::Duration;

use tests::pipeline::eventually;

use crate::world::World;

/// The most memory that the process has had, in megabytes.
fn peak(world: &World) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.pipeline.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// By the first rows a chunk has thousands; two hundred megabytes of the later ones would come at once.
#[tokio::test]
async fn rows_that_become_a_hundred_times_larger_do_not_take_a_hundred_times_the_memory() {
    for (name, key) in [("grown", "id INT PRIMARY KEY"), ("grown_keyless", "id INT")] {
        let setup = format!(
            "CREATE TABLE t ({key}, v LONGTEXT);\nINSERT INTO t SELECT seq, REPEAT('x', 1000) FROM seq_1_to_6000;\n\
             INSERT INTO t SELECT seq, REPEAT('y', 100000) FROM seq_6001_to_8000;"
        );
        let mut world = World::new(name, &setup, &["t"]).await;
        // The source alone: no sink's batches are measured.
        let yaml = std::fs::read_to_string(&world.pipeline.config).unwrap();
        let (source, _) = yaml.split_once("sinks:").unwrap();
        world.pipeline.reconfigure(&format!("{source}sinks: {{}}\n"));
        world.pipeline.start();
        eventually("the table is copied", Duration::from_secs(120), async || {
            world.pipeline.log().contains(&format!("table copied table={name}.t rows=8000"))
        })
        .await;
        let peak = peak(&world);
        assert!(peak < 140, "{name}: {peak} MB");
        assert_eq!(world.pipeline.stop(), 0);
    }
}
