use std::{
    collections::BTreeMap,
    env,
    fs::OpenOptions,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};

use redb::{Builder, StorageBackend, backends::FileBackend};
use serde_json::json;

use super::*;

/// A directory of its own for each test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("instar-log-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn all(log: &Log, topic: &Topic, lane: u32, from: Offset) -> Vec<(Offset, Option<Vec<u8>>, Vec<u8>)> {
    let mut out = Vec::new();
    let mut at = from;
    loop {
        let records = log.records(topic, lane, at, 1 << 20).unwrap();
        if records.is_empty() {
            return out;
        }
        out.extend(records.iter().map(|r| (r.offset, r.key.map(<[u8]>::to_vec), r.value.to_vec())));
        at = records.next();
    }
}

fn values(log: &Log, topic: &Topic, lane: u32) -> Vec<String> {
    let start = log.starts(topic)[lane as usize];
    all(log, topic, lane, start).into_iter().map(|(_, _, v)| String::from_utf8(v).unwrap()).collect()
}

#[test]
fn committed_records_are_read_back_by_lane_and_offset_also_after_a_restart() {
    let directory = Directory::new("roundtrip");
    let log = Log::open(&directory.0, LogOptions { partitions: 3, ..LogOptions::default() }).unwrap();
    let rows = log.topic("shop.shop.orders", None, Keep::Retention).unwrap();
    assert_eq!(rows.lanes, 3);
    let mut transaction = log.begin();
    for i in 0..1000u32 {
        let key = format!("key {i}");
        transaction.append(&rows, i % 2, (i % 3 > 0).then_some(key.as_bytes()), format!("value {i}").as_bytes()).unwrap();
    }
    assert_eq!(transaction.pending().0, 1000);
    assert_eq!(log.ends(&rows), [0, 0, 0]);
    transaction.commit().unwrap();
    assert_eq!(log.ends(&rows), [500, 500, 0]);
    let mut dropped = log.begin();
    dropped.append(&rows, 0, None, b"never").unwrap();
    drop(dropped);
    let mut transaction = log.begin();
    transaction.append(&rows, 2, None, &vec![9; 1_000_000]).unwrap();
    transaction.commit().unwrap();
    drop(log);
    for log in [Log::read(&directory.0).unwrap(), Log::read(&directory.0).unwrap()] {
        let found = log.find("shop.shop.orders").unwrap();
        assert_eq!(found, rows);
        assert_eq!(log.ends(&found), [500, 500, 1]);
        let want: Vec<_> = (0..1000u32)
            .filter(|i| i % 2 == 1)
            .zip(0u64..)
            .map(|(i, offset)| (offset, (i % 3 > 0).then(|| format!("key {i}").into_bytes()), format!("value {i}").into_bytes()))
            .collect();
        assert_eq!(all(&log, &found, 1, 0), want);
        assert_eq!(all(&log, &found, 1, 499), want[499..]);
        assert_eq!(all(&log, &found, 2, 0), [(0, None, vec![9; 1_000_000])]);
        assert!(matches!(log.records(&found, 1, 501, 1), Err(LogError::Beyond { wanted: 501, end: 500, .. })));
        let error = log.topic("new", None, Keep::Forever).unwrap_err().to_string();
        assert!(error.ends_with("the local log is open for reading only"), "{error}");
    }
}

#[test]
fn many_small_transactions_and_large_blocks_keep_their_order() {
    let directory = Directory::new("order");
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    let rows = log.topic("t", None, Keep::Retention).unwrap();
    let mut next = 0u64;
    for size in [1u64, 1, 5000, 1, 20_000, 3, 1, 4000, 1] {
        let mut transaction = log.begin();
        for _ in 0..size {
            transaction.append(&rows, 0, Some(&next.to_le_bytes()), &[next as u8; 150]).unwrap();
            next += 1;
        }
        transaction.commit().unwrap();
    }
    let got = all(&log, &rows, 0, 0);
    assert_eq!(got.len() as u64, next);
    for (i, (offset, key, value)) in got.into_iter().enumerate() {
        assert_eq!((offset, key, value), (i as u64, Some((i as u64).to_le_bytes().to_vec()), vec![i as u8; 150]));
    }
    assert!(log.records(&rows, 0, 0, 1 << 20).unwrap().size() <= 1 << 20);
}

#[test]
fn a_topic_keeps_its_lanes_and_its_kind_and_gets_a_new_identity_when_made_again() {
    let directory = Directory::new("topic");
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    let topic = log.topic("t", Some(4), Keep::Retention).unwrap();
    assert_eq!(log.topic("t", None, Keep::Retention).unwrap(), topic);
    let error = log.topic("t", Some(5), Keep::Retention).unwrap_err().to_string();
    assert!(error.ends_with("topic t has 4 lanes, 5 were asked for; a topic keeps the number it began with"), "{error}");
    let error = log.topic("t", Some(4), Keep::Newest).unwrap_err().to_string();
    assert!(error.contains("topic t is of another kind"), "{error}");
    let mut transaction = log.begin();
    let error = transaction.append(&topic, 4, None, b"").unwrap_err().to_string();
    assert_eq!(error, "topic t has 4 lanes; lane 4 was written to");
    transaction.append(&topic, 3, None, b"old").unwrap();
    transaction.commit().unwrap();
    log.remove(&topic).unwrap();
    assert_eq!(log.find("t"), None);
    let again = log.topic("t", Some(4), Keep::Retention).unwrap();
    assert_ne!(again.id, topic.id);
    assert_eq!(log.ends(&again), [0, 0, 0, 0]);
    assert!(log.records(&topic, 3, 0, 1).is_err(), "the old topic is gone");
}

#[test]
fn a_topic_that_keeps_the_newest_gives_the_newest_at_any_offset() {
    let directory = Directory::new("newest");
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    let progress = log.topic("p", Some(1), Keep::Newest).unwrap();
    assert_eq!(log.newest(&progress, 0).unwrap(), None);
    for i in 0..5 {
        let mut transaction = log.begin();
        transaction.append(&progress, 0, None, format!("{i} first").as_bytes()).unwrap();
        transaction.append(&progress, 0, None, format!("{i}").as_bytes()).unwrap();
        transaction.commit().unwrap();
    }
    assert_eq!(log.newest(&progress, 0).unwrap(), Some(b"4".to_vec()));
    assert_eq!((log.starts(&progress), log.ends(&progress)), (vec![9], vec![10]));
    assert_eq!(all(&log, &progress, 0, 0), [(9, None, b"4".to_vec())]);
    drop(log);
    let log = Log::read(&directory.0).unwrap();
    assert_eq!(log.newest(&log.find("p").unwrap(), 0).unwrap(), Some(b"4".to_vec()));
}

#[test]
fn the_same_schema_has_the_same_id_under_every_subject_and_after_a_restart() {
    let directory = Directory::new("schemas");
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    let (a, b) = (json!({"type": "record", "name": "a", "fields": []}), json!("string"));
    assert_eq!(log.register("t-key", &a).unwrap(), 1);
    assert_eq!(log.register("t-value", &b).unwrap(), 2);
    assert_eq!(log.register("u-key", &a).unwrap(), 1);
    let topic = log.topic("t", Some(1), Keep::Forever).unwrap();
    let mut transaction = log.begin();
    transaction.append(&topic, 0, None, b"the first record that names them").unwrap();
    transaction.commit().unwrap();
    drop(log);
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    assert_eq!(log.register("t-value", &json!({"name": "a", "fields": [], "type": "record"})).unwrap(), 1);
    assert_eq!(log.schema(1).unwrap(), a);
    assert_eq!(log.schema(2).unwrap(), b);
    assert!(log.schema(3).unwrap_err().to_string().ends_with("schema id 3 is not known to this log"));
}

#[test]
fn a_commit_is_told_to_those_who_wait() {
    let directory = Directory::new("changed");
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    let topic = log.topic("t", None, Keep::Forever).unwrap();
    let mut changed = log.changed();
    assert!(!changed.has_changed().unwrap());
    let mut transaction = log.begin();
    transaction.append(&topic, 0, None, b"x").unwrap();
    transaction.commit().unwrap();
    assert!(changed.has_changed().unwrap());
    assert_eq!(*changed.borrow_and_update(), 1);
    log.begin().commit().unwrap();
    assert!(!changed.has_changed().unwrap(), "an empty transaction is none");
}

const MINUTE: u64 = 60_000;

fn append_at(log: &Log, topic: &Topic, value: &str, now: u64) {
    let mut transaction = log.begin();
    transaction.append(topic, 0, None, value.as_bytes()).unwrap();
    transaction.commit_at(now).unwrap();
}

#[test]
fn retention_keeps_pace_with_many_blocks() {
    let directory = Directory::new("pace");
    let log = Log::open(&directory.0, LogOptions { partitions: 1, retention: Duration::from_secs(600) }).unwrap();
    let rows = log.topic("rows", Some(600), Keep::Retention).unwrap();
    let events = log.topic("events", None, Keep::Forever).unwrap();
    let mut transaction = log.begin();
    for lane in 0..600 {
        transaction.append(&rows, lane, None, b"row").unwrap();
    }
    transaction.commit_at(0).unwrap();
    let gone = || log.starts(&rows).iter().filter(|start| **start == 1).count();
    // One look has its bounds; as long as there is more to remove the next commit looks too.
    let mut seen = Vec::new();
    for millisecond in 1..5 {
        append_at(&log, &events, "later", 11 * MINUTE + millisecond);
        seen.push(gone());
    }
    assert_eq!(seen, [256, 512, 600, 600]);
}

#[test]
fn retention_removes_what_is_old_and_applied_by_every_known_sink_only() {
    let directory = Directory::new("retention");
    let options = LogOptions { partitions: 1, retention: Duration::from_secs(600) };
    let log = Log::open(&directory.0, options).unwrap();
    let rows = log.topic("rows", None, Keep::Retention).unwrap();
    let events = log.topic("events", None, Keep::Forever).unwrap();
    log.add_sink("a").unwrap();
    for i in 0..4 {
        append_at(&log, &rows, &format!("{i}"), i * MINUTE);
        append_at(&log, &events, &format!("{i}"), i * MINUTE);
    }
    // Old enough, but the sink has said nothing.
    append_at(&log, &events, "late", 13 * MINUTE);
    assert_eq!(values(&log, &rows, 0), ["0", "1", "2", "3"]);
    log.sink_position("a", &rows, 0, 2).unwrap();
    log.sink_position("b", &rows, 0, 1).unwrap();
    append_at(&log, &events, "later", 14 * MINUTE);
    assert_eq!(values(&log, &rows, 0), ["1", "2", "3"], "b has applied one");
    log.forget_sink("b").unwrap();
    append_at(&log, &events, "later", 15 * MINUTE);
    assert_eq!(values(&log, &rows, 0), ["2", "3"], "a has applied two");
    let error = log.records(&rows, 0, 1, 1000).unwrap_err();
    assert!(matches!(error, LogError::Expired { lane: 0, wanted: 1, first: 2, .. }), "{error:?}");
    log.sink_position("a", &rows, 0, 4).unwrap();
    // The last row is written at minute 3 and stays for ten minutes more.
    append_at(&log, &events, "later", 13 * MINUTE);
    assert_eq!(values(&log, &rows, 0), ["2", "3"], "the clock went back: nothing goes");
    drop(log);
    let log = Log::open(&directory.0, options).unwrap();
    assert_eq!(log.sinks(), ["a"]);
    append_at(&log, &events, "again", 60 * MINUTE);
    assert_eq!(values(&log, &rows, 0), ["2", "3"], "after a restart nothing goes before the sink has said where it is");
    log.sink_position("a", &rows, 0, 4).unwrap();
    append_at(&log, &events, "again", 61 * MINUTE);
    assert_eq!((log.starts(&rows), log.ends(&rows)), (vec![4], vec![4]));
    assert!(matches!(log.records(&rows, 0, 3, 1000), Err(LogError::Expired { first: 4, .. })));
    assert!(log.records(&rows, 0, 4, 1000).unwrap().is_empty());
    append_at(&log, &rows, "new", 62 * MINUTE);
    assert_eq!(all(&log, &rows, 0, 4), [(4, None, b"new".to_vec())]);
    assert_eq!(values(&log, &events, 0).len(), 10);
}

#[test]
fn a_second_process_is_refused_by_name() {
    let directory = Directory::new("locked");
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    let make = || -> MakeStore { Box::new(|| panic!("the lock comes first")) };
    let error = Log::open_with(directory.0.clone(), LogOptions::default(), make(), Duration::ZERO).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, LogError::Locked(_)), "{text}");
    assert!(text.contains(&directory.0.display().to_string()), "{text}");
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    assert!(matches!(Log::read(&directory.0).unwrap_err(), LogError::Locked(_)));
    drop(log);
    drop(Log::open(&directory.0, LogOptions::default()).unwrap());
    Log::read(&directory.0).unwrap();
}

#[test]
fn reading_where_no_log_is_says_so() {
    let directory = Directory::new("absent");
    let error = Log::read(&directory.0).unwrap_err();
    assert!(matches!(error, LogError::Absent(_)), "{error}");
    assert!(!directory.0.exists(), "reading creates nothing");
}

#[test]
fn a_store_whose_making_was_cut_short_is_made_again() {
    let directory = Directory::new("cut");
    fs::create_dir_all(&directory.0).unwrap();
    fs::write(directory.0.join("log.redb.new"), "half of a store").unwrap();
    assert!(matches!(Log::read(&directory.0), Err(LogError::Absent(_))));
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    assert!(!directory.0.join("log.redb.new").exists());
    log.topic("t", None, Keep::Forever).unwrap();
    drop(log);
    fs::write(directory.0.join("log.redb"), "not a store").unwrap();
    let error = Log::open(&directory.0, LogOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{}: ", directory.0.display())), "{error}");
}

/// A disk of a certain size.
#[derive(Debug)]
struct SmallDisk {
    file: FileBackend,
    size: Arc<AtomicU64>,
}

impl SmallDisk {
    fn check(&self, end: u64) -> io::Result<()> {
        if end > self.size.load(Ordering::SeqCst) { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }
}

impl StorageBackend for SmallDisk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(offset + data.len() as u64)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

#[test]
fn a_full_disk_leaves_what_was_committed_and_goes_on_when_there_is_room() {
    let directory = Directory::new("full");
    let size = Arc::new(AtomicU64::new(3 << 20));
    let make: MakeStore = Box::new({
        let (path, size) = (directory.0.join(store::FILE), size.clone());
        move || {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
            Builder::new().create_with_backend(SmallDisk { file: FileBackend::new(file)?, size: size.clone() })
        }
    });
    let log = Log::open_with(directory.0.clone(), LogOptions::default(), make, Duration::ZERO).unwrap();
    let topic = log.topic("t", None, Keep::Forever).unwrap();
    let mut committed = 0u64;
    let write = |from: u64| {
        let mut transaction = log.begin();
        for i in from..from + 100 {
            let mut value = vec![0u8; 1000];
            value[..8].copy_from_slice(&i.to_le_bytes());
            transaction.append(&topic, 0, None, &value).unwrap();
        }
        transaction.commit()
    };
    let check = |rows: u64| {
        let got = all(&log, &topic, 0, 0);
        assert_eq!(got.len() as u64, rows);
        assert!(got.iter().all(|(offset, _, value)| value[..8] == offset.to_le_bytes()));
    };
    let error = loop {
        match write(committed) {
            Ok(()) => committed += 100,
            Err(error) => break error,
        }
        assert!(committed < 10_000, "the disk never filled up");
    };
    assert!(matches!(error, LogError::Full(_)), "{error}");
    assert!(error.to_string().starts_with(&format!("{}: the disk of the local log is full", directory.0.display())), "{error}");
    assert!(committed >= 500, "{committed}");
    check(committed);
    assert!(matches!(write(committed), Err(LogError::Full(_))), "still full");
    check(committed);
    size.store(u64::MAX, Ordering::SeqCst);
    write(committed).unwrap();
    check(committed + 100);
    drop(log);
    let log = Log::read(&directory.0).unwrap();
    assert_eq!(log.ends(&topic), [committed + 100]);
}

#[test]
fn a_full_disk_stops_rows_too_and_nothing_of_their_transaction_is_there() {
    let directory = Directory::new("full-rows");
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    let (rows, events) = (log.topic("rows", Some(2), Keep::Retention).unwrap(), log.topic("events", None, Keep::Forever).unwrap());
    let write = |n: u8| {
        let mut transaction = log.begin();
        for lane in 0..2 {
            transaction.append(&rows, lane, None, &vec![n; 100_000]).unwrap();
        }
        transaction.append(&events, 0, None, &[n]).unwrap();
        transaction.commit()
    };
    write(1).unwrap();
    // Room for the first lane's block of the next transaction, not for the second's.
    log.0.segments.room.store(350_000, Ordering::SeqCst);
    for _ in 0..2 {
        let error = write(2).unwrap_err();
        assert!(matches!(error, LogError::Full(_)), "{error}");
        assert_eq!((log.ends(&rows), log.ends(&events)), (vec![1, 1], vec![1]));
        let length = fs::metadata(directory.0.join("segment-0000000000")).unwrap().len();
        assert!((200_000..210_000).contains(&length), "what was not committed is given back: {length}");
    }
    log.0.segments.room.store(u64::MAX, Ordering::SeqCst);
    write(3).unwrap();
    drop(log);
    let log = Log::read(&directory.0).unwrap();
    for lane in 0..2 {
        assert_eq!(all(&log, &rows, lane, 0), [(0, None, vec![1; 100_000]), (1, None, vec![3; 100_000])]);
    }
    assert_eq!(all(&log, &events, 0, 0), [(0, None, vec![1]), (1, None, vec![3])]);
}

fn segments(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("segment-")).collect();
    names.sort();
    names
}

#[test]
fn a_reader_beside_a_writer_sees_every_record_once_and_never_more_than_the_ends() {
    let directory = Directory::new("beside");
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    let rows = log.topic("rows", None, Keep::Retention).unwrap();
    const LAST: u64 = 30_000;
    let writer = std::thread::spawn({
        let (log, rows) = (log.clone(), rows.clone());
        move || {
            let mut next = 0;
            while next < LAST {
                let mut transaction = log.begin();
                // Mostly small commits, and now and then one that makes all before it settle.
                for _ in 0..if next % 700 < 40 { 1500 } else { 40 } {
                    transaction.append(&rows, 0, None, &[next.to_le_bytes().as_slice(), &[0; 120]].concat()).unwrap();
                    next += 1;
                }
                transaction.commit().unwrap();
            }
            next
        }
    });
    let mut at = 0;
    while at < LAST {
        let records = log.records(&rows, 0, at, 1 << 16).unwrap();
        for record in &records {
            assert_eq!((record.offset, &record.value[..8]), (at, at.to_le_bytes().as_slice()));
            at += 1;
        }
        assert_eq!(records.next(), at);
        assert!(at <= log.ends(&rows)[0]);
    }
    let last = writer.join().unwrap();
    assert_eq!(all(&log, &rows, 0, 0).len() as u64, last);
}

#[test]
fn small_commits_settle_into_a_segment_and_are_read_as_before() {
    let directory = Directory::new("settle");
    let log = Log::open(&directory.0, LogOptions { partitions: 2, ..LogOptions::default() }).unwrap();
    let rows = log.topic("rows", None, Keep::Retention).unwrap();
    let value = |i: u64| [i.to_le_bytes().as_slice(), &[i as u8; 2000]].concat();
    let mut written = 0;
    let mut settled = Vec::new();
    while written < 6000 {
        let mut transaction = log.begin();
        for _ in 0..25 {
            transaction.append(&rows, (written % 3 / 2) as u32, Some(b"k"), &value(written)).unwrap();
            written += 1;
        }
        transaction.commit().unwrap();
        let fresh = guard(log.0.state.read()).fresh;
        assert!(fresh <= 4 << 20, "{fresh}");
        if fresh == 0 {
            settled.push(written);
        }
    }
    assert!(settled.len() == 2, "settled at {settled:?}");
    let check = |log: &Log| {
        for lane in 0..2 {
            let want: Vec<u64> = (0..written).filter(|i| i % 3 / 2 == u64::from(lane)).collect();
            for from in [0, 1, 700, 1333, want.len() - 1] {
                let got = all(log, &rows, lane, from as u64);
                let want: Vec<_> = (from as u64..).zip(&want[from..]).map(|(at, i)| (at, Some(b"k".to_vec()), value(*i))).collect();
                assert!(got == want, "lane {lane} from {from}");
            }
        }
    };
    check(&log);
    drop(log);
    let log = Log::open(&directory.0, LogOptions::default()).unwrap();
    assert!(guard(log.0.state.read()).fresh > 0);
    check(&log);
    log.remove(&rows).unwrap();
    assert_eq!(guard(log.0.state.read()).fresh, 0);
}

#[test]
fn retention_and_removal_give_the_disk_back() {
    let directory = Directory::new("segments");
    let log = Log::open(&directory.0, LogOptions { partitions: 1, retention: Duration::from_secs(60) }).unwrap();
    let rows = log.topic("rows", None, Keep::Retention).unwrap();
    let other = log.topic("other", None, Keep::Retention).unwrap();
    let value = vec![1u8; 1 << 20];
    for i in 0..200u64 {
        let mut transaction = log.begin();
        let topic = if i == 100 { &other } else { &rows };
        transaction.append(topic, 0, None, &value).unwrap();
        transaction.commit_at(i * 1000).unwrap();
    }
    assert_eq!(segments(&directory.0), ["segment-0000000002", "segment-0000000003"], "two of 64 MB are older than a minute");
    fs::write(directory.0.join("segment-0000000099"), "of a writer that was killed before its commit").unwrap();
    drop(log);
    let log = Log::open(&directory.0, LogOptions { partitions: 1, retention: Duration::from_secs(60) }).unwrap();
    assert!(!segments(&directory.0).contains(&"segment-0000000099".to_owned()));
    append_at(&log, &rows, "late", 10_000_000);
    assert_eq!(log.starts(&rows), [199], "everything old is gone");
    assert_eq!(log.starts(&other), [1]);
    append_at(&log, &rows, "later", 10_020_000);
    assert_eq!(segments(&directory.0), ["segment-0000000003"]);
    assert_eq!(values(&log, &rows, 0), ["late", "later"]);
    log.remove(&rows).unwrap();
    let again = log.topic("rows", None, Keep::Retention).unwrap();
    append_at(&log, &again, "again", 10_020_001);
    assert_eq!(values(&log, &again, 0), ["again"]);
}

/// Writes transactions for ever: transaction `n` puts `n % 97 + 1` records saying `n` into each of three lanes, and `n` into progress.
/// Prints each `n` that is committed.
fn write_for_ever(directory: &Path) {
    let log = Log::open(directory, LogOptions { partitions: 3, retention: Duration::from_secs(3600) }).unwrap();
    let rows = log.topic("rows", None, Keep::Retention).unwrap();
    let progress = log.topic("progress", Some(1), Keep::Newest).unwrap();
    let begin = log.newest(&progress, 0).unwrap().map_or(0, |v| u64::from_le_bytes(v.try_into().unwrap()) + 1);
    let mut out = io::stdout().lock();
    for n in begin.. {
        let mut transaction = log.begin();
        for lane in 0..3 {
            for _ in 0..=n % 97 {
                let mut value = vec![lane as u8; 8 + (n % 13 * 40) as usize];
                value[..8].copy_from_slice(&n.to_le_bytes());
                transaction.append(&rows, lane, Some(b"key"), &value).unwrap();
            }
        }
        transaction.append(&progress, 0, None, &n.to_le_bytes()).unwrap();
        transaction.commit().unwrap();
        writeln!(out, "committed {n}").unwrap();
    }
}

const CHILD: &str = "INSTAR_TEST_LOG_WRITER";

#[test]
fn a_kill_at_any_moment_leaves_every_transaction_whole_or_not_at_all() {
    if let Some(directory) = env::var_os(CHILD) {
        return write_for_ever(Path::new(&directory));
    }
    let directory = Directory::new("kill");
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut newest_seen = 0;
    for _ in 0..40 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "log::tests::a_kill_at_any_moment_leaves_every_transaction_whole_or_not_at_all"])
            .env(CHILD, &directory.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The kill is drawn by commits and then by a pause shorter than one, so that it falls anywhere within one.
        let wanted = 2 + (random >> 33) % 15;
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.rsplit_once("committed ").map(|(_, n)| n.parse::<u64>().unwrap()));
        let mut told = None;
        for _ in 0..wanted {
            told = lines.next();
            assert!(told.is_some(), "the writer ended by itself");
        }
        std::thread::sleep(Duration::from_micros((random >> 20) % 4000));
        child.kill().unwrap();
        child.wait().unwrap();
        let told = lines.last().or(told).unwrap();

        let log = Log::read(&directory.0).unwrap();
        let newest = log.newest(&log.find("progress").unwrap(), 0).unwrap().unwrap();
        let newest = u64::from_le_bytes(newest.try_into().unwrap());
        assert!(newest >= told && newest <= told + 1 && newest > newest_seen, "newest {newest}, told {told}, before {newest_seen}");
        newest_seen = newest;
        check_whole(&log, newest);
    }
}

fn check_whole(log: &Log, newest: u64) {
    let rows = log.find("rows").unwrap();
    for lane in 0..3 {
        let mut counts = BTreeMap::new();
        for (_, key, value) in all(log, &rows, lane, 0) {
            let n = u64::from_le_bytes(value[..8].try_into().unwrap());
            assert_eq!((key.as_deref(), value.len() as u64), (Some(&b"key"[..]), 8 + n % 13 * 40));
            assert!(value[8..].iter().all(|b| u32::from(*b) == lane));
            *counts.entry(n).or_insert(0) += 1;
        }
        let want: BTreeMap<u64, u64> = (0..=newest).map(|n| (n, n % 97 + 1)).collect();
        assert_eq!(counts, want, "lane {lane}");
    }
}
