//! Speed and memory of the local log: rows of 150 bytes appended and read back.
//!
//! `cargo run --release -p runtime --example log_speed -- DIRECTORY [ROWS]`; the directory is emptied first.

use std::{
    env,
    error::Error,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use runtime::log::{Keep, Log, LogOptions, Topic};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let directory = args.next().ok_or("usage: log_speed DIRECTORY [ROWS]")?;
    let rows: u64 = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let directory = Path::new(&directory);
    if directory.join("log.redb").exists() {
        fs::remove_dir_all(directory)?;
    }
    let log = Log::open(directory, LogOptions { partitions: 4, retention: Duration::from_secs(3600) })?;
    let topic = log.topic("rows", None, Keep::Retention)?;
    for (name, batch) in
        [("append, 10,000 rows a commit", 10_000), ("append, 1,000 rows a commit", 1_000), ("append, 10 rows a commit", 10)]
    {
        let rows = rows.min(batch * 2_000);
        measure(name, rows, || append(&log, &topic, rows, batch))?;
    }
    let total: u64 = log.ends(&topic).iter().sum();
    measure("read all", total, || read(&log, &topic))?;
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        bytes += entry?.metadata()?.len();
    }
    println!("{bytes} bytes of files for {total} rows");
    Ok(())
}

fn append(log: &Log, topic: &Topic, rows: u64, batch: u64) -> Result<(), Box<dyn Error>> {
    let value = [7u8; 150];
    let mut transaction = log.begin();
    for i in 1..=rows {
        transaction.append(topic, (i % 4) as u32, Some(&i.to_le_bytes()), &value)?;
        if i % batch == 0 {
            transaction.commit()?;
            transaction = log.begin();
        }
    }
    Ok(transaction.commit()?)
}

fn read(log: &Log, topic: &Topic) -> Result<(), Box<dyn Error>> {
    for (lane, end) in (0..).zip(log.ends(topic)) {
        let (mut at, mut bytes) = (0, 0);
        while at < end {
            let records = log.records(topic, lane, at, 1 << 20)?;
            bytes += records.iter().map(|r| r.value.len()).sum::<usize>();
            at = records.next();
        }
        if bytes as u64 != end * 150 {
            return Err(format!("lane {lane}: {bytes} bytes").into());
        }
    }
    Ok(())
}

fn measure(name: &str, rows: u64, work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let (cpu, wall) = (cpu()?, Instant::now());
    work()?;
    let (cpu, wall) = (self::cpu()? - cpu, wall.elapsed().as_secs_f64());
    let per_row = cpu * 1e6 / rows as f64;
    println!("{name}: {rows} rows, {per_row:.3} µs CPU a row, {:.0} rows/s in wall time, {} peak", rows as f64 / wall, peak()?);
    Ok(())
}

/// Seconds of processor time of this process, user and system.
fn cpu() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("schedstat")?.parse::<f64>()? / 1e9)
}

fn peak() -> Result<String, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().find_map(|l| l.strip_prefix("VmHWM:")).ok_or("VmHWM")?.trim().to_owned())
}
