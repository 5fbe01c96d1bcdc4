//! The copy: chunks of one row over odd keys, views, and shapes that differ.

use source::{
    engine::{Bounds, Chunk, ChunkReader, Engine, Row, RowSink},
    error::CaptureError,
};

use crate::world::{ALL, Flavour, MARIADBS, Rows, World, by_table, hear, published};

/// Reads a table in chunks of one row; returns the keys in the order read.
async fn one_by_one(world: &World, table: &str) -> Vec<Vec<u8>> {
    let mut engine = world.engine(&[table]);
    let (at, shapes) = engine.pinned(&world.ids(&[table])).await.unwrap();
    let mut reader = engine.reader().await.unwrap();
    let (mut above, mut keys) = (None, Vec::new());
    loop {
        let mut bounds = Bounds { above: above.clone(), up_to: None };
        let up_to = reader.bound(&shapes[0], &bounds, 1).await.unwrap();
        bounds.up_to.clone_from(&up_to);
        let mut rows = Rows::default();
        let chunk = reader.read(&published(&shapes[0]), &bounds, &at, &mut rows).await.unwrap();
        assert!(matches!(chunk, Chunk::Read { .. }), "{table}: {chunk:?}");
        assert_eq!(rows.0.len(), usize::from(up_to.is_some()), "{table} above {above:?} up to {up_to:?}");
        keys.extend(rows.0.into_iter().map(|row| row.key));
        match up_to {
            Some(_) => above = up_to,
            None => return keys,
        }
    }
}

#[tokio::test]
async fn chunks_of_one_row_find_every_key_once() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "chunks").await else { return };
        let keys: &[(&str, &str, usize)] = &[
            ("BIGINT UNSIGNED", "(0),(18446744073709551615),(9223372036854775808)", 3),
            ("DECIMAL(30,10)", "(-1.5),(0),(99999999999999999999.9999999999)", 3),
            ("VARCHAR(20) COLLATE utf8mb4_general_ci", "('a'),('B'),('c '' \\\\ x'),('')", 4),
            ("CHAR(5) CHARACTER SET latin1", "('é'),('e1'),('z')", 3),
            ("VARCHAR(9) CHARACTER SET utf16", "('a'),('😀'),('b')", 3),
            ("VARBINARY(9)", "(X''),(X'00'),(X'0000'),(X'FF')", 4),
            ("BINARY(3)", "(X'00'),(X'0001'),(X'FF')", 3),
            ("FLOAT", "(0.1),(-3.4e38),(1e-30)", 3),
            ("DOUBLE", "(0.1),(1e308),(-2.5)", 3),
            ("DATE", "('0000-00-00'),('2020-00-15'),('2020-01-01')", 3),
            ("DATETIME(6)", "('2020-01-01 00:00:00.000001'),('2020-01-01 00:00:00.000002')", 2),
            ("TIMESTAMP(3)", "('2020-01-01 00:00:00.001'),('2020-01-01 00:00:00.002')", 2),
            ("TIME(2)", "('-838:59:59'),('-00:00:00.01'),('10:00:00')", 3),
            ("YEAR", "(0),(1901),(2155)", 3),
            ("BIT(10)", "(0),(1),(1023)", 3),
            ("ENUM('z','a','m')", "('z'),('a'),('m')", 3),
            ("SET('z','a','m')", "(''),('z,m'),('a'),('m')", 4),
        ];
        for (i, (ty, values, count)) in keys.iter().enumerate() {
            let table = format!("t{i}");
            world.run(&format!("CREATE TABLE {table} (k {ty} NOT NULL PRIMARY KEY)")).await;
            world.run(&format!("INSERT INTO {table} VALUES {values}")).await;
            // Partial dates cannot be published; their bounds can be walked all the same.
            if *ty == "DATE" {
                world.run(&format!("DELETE FROM {table} WHERE k < '2020-01-01'")).await;
                world.run(&format!("INSERT INTO {table} VALUES ('1000-01-01'),('9999-12-31')")).await;
            }
            let found = one_by_one(&world, &table).await;
            let mut distinct = found.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!((found.len(), distinct.len()), (*count, *count), "{flavour:?} {ty}");
        }
    }
}

/// Takes as many rows as it is told.
struct Bounded(Rows, usize);

impl RowSink for Bounded {
    fn row(&mut self, row: Row<'_>) -> Result<(), CaptureError> {
        self.0.row(row)
    }

    fn full(&self) -> bool {
        self.0.0.len() >= self.1
    }
}

#[tokio::test]
async fn a_full_chunk_ends_early_and_its_reader_goes_on() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "full").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)").await;
        for id in 1..=40 {
            world.run(&format!("INSERT INTO t VALUES ({id}, REPEAT('x', 1000000))")).await;
        }
        let mut engine = world.engine(&["t"]);
        let (at, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let (mut reader, table) = (engine.reader().await.unwrap(), published(&shapes[0]));
        let mut few = Bounded(Rows::default(), 3);
        assert_eq!(reader.read(&table, &Bounds::default(), &at, &mut few).await.unwrap(), Chunk::Full { rows: 3 });
        let bound = |key: &str| Some(vec![key.to_owned()]);
        // Bounds hold on both sides; where fewer rows are left there is none.
        let within = Bounds { above: bound("10"), up_to: bound("20") };
        assert_eq!(reader.bound(&shapes[0], &within, 10).await.unwrap(), bound("20"));
        assert_eq!(reader.bound(&shapes[0], &within, 11).await.unwrap(), None);
        // As many as there are is not too many, and one row is always taken.
        let mut all = Bounded(Rows::default(), 10);
        assert!(matches!(reader.read(&table, &within, &at, &mut all).await.unwrap(), Chunk::Read { rows: 10, .. }));
        let one = Bounds { above: bound("10"), up_to: bound("11") };
        let mut none = Bounded(Rows::default(), 0);
        assert!(matches!(reader.read(&table, &one, &at, &mut none).await.unwrap(), Chunk::Read { rows: 1, .. }));
    }
}

#[tokio::test]
async fn composite_keys_are_walked_in_the_servers_order() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "composite").await else { return };
        world.run("CREATE TABLE t (a VARCHAR(5) NOT NULL, `b``q` INT NOT NULL, c DATE NOT NULL, v INT, UNIQUE KEY k (c, a, `b``q`))").await;
        world.run("INSERT INTO t VALUES ('x', 1, '2020-01-01', 1), ('X', 2, '2020-01-01', 2), ('a', 9, '2020-01-02', 3), ('x', -1, '2020-01-01', 4)").await;
        let keys = one_by_one(&world, "t").await;
        // Day 18262 is 2020-01-01: zigzag 36524.
        let day = |n: u8| vec![0xac + 2 * n, 0x9d, 0x02];
        let key = |n: u8, a: u8, b: u8| [day(n), vec![2, a, b]].concat();
        assert_eq!(keys, [key(0, b'x', 1), key(0, b'x', 2), key(0, b'X', 4), key(1, b'a', 18)]);
    }
}

#[tokio::test]
async fn mariadbs_own_types_can_be_keys() {
    for flavour in MARIADBS {
        let Some(mut world) = World::new(flavour, "own_keys").await else { continue };
        for (i, (ty, values)) in [
            ("UUID", "(UUID()),(UUID()),('f47ac10b-58cc-4372-a567-0e02b2c3d479')"),
            ("INET6", "('::1'),('1::'),('::ffff:1.2.3.4')"),
            ("INET4", "('1.2.3.4'),('200.0.0.1'),('0.0.0.0')"),
        ]
        .iter()
        .enumerate()
        {
            world.run(&format!("CREATE TABLE t{i} (k {ty} NOT NULL PRIMARY KEY)")).await;
            world.run(&format!("INSERT INTO t{i} VALUES {values}")).await;
            assert_eq!(one_by_one(&world, &format!("t{i}")).await.len(), 3, "{ty}");
        }
    }
}

#[tokio::test]
async fn a_table_that_changed_is_not_read_under_the_old_shape() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "other_shape").await else { return };
        world.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)").await;
        let mut engine = world.engine(&["t"]);
        let (at, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let mut reader = engine.reader().await.unwrap();
        world.run("ALTER TABLE t RENAME COLUMN a TO c, RENAME COLUMN b TO a").await;
        let mut rows = Rows::default();
        let chunk = reader.read(&published(&shapes[0]), &Bounds::default(), &at, &mut rows).await.unwrap();
        assert_eq!((chunk, rows.0.len()), (Chunk::OtherShape, 0));
        world.run("DROP TABLE t").await;
        assert_eq!(reader.read(&published(&shapes[0]), &Bounds::default(), &at, &mut rows).await.unwrap(), Chunk::OtherShape);
    }
}

#[tokio::test]
async fn a_table_without_a_key_is_one_view_at_a_place() {
    for flavour in ALL {
        let Some(mut world) = World::new(flavour, "keyless").await else { return };
        // Servers are often set so; a view needs more.
        world.run("SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
        world.run("CREATE TABLE t (a INT, b VARCHAR(9))").await;
        world.run("INSERT INTO t SELECT 1, 'same' FROM information_schema.COLLATIONS LIMIT 200").await;
        let mut engine = world.engine(&["t"]);
        let (_, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
        let table = published(&shapes[0]);
        let mut reader = engine.reader().await.unwrap();
        let place = reader.view(&shapes[0]).await.unwrap().expect("the shape is as expected");
        world.run("INSERT INTO t VALUES (2, 'later')").await;
        world.run("DELETE FROM t WHERE a = 1 LIMIT 5").await;
        let mut rows = Rows::default();
        let mut parts = 0;
        while reader.view_rows(&table, 64, &mut rows).await.unwrap() {
            parts += 1;
        }
        assert_eq!((rows.0.len(), parts), (200, 3));
        assert!(rows.0.iter().all(|row| row.key.is_empty()));
        let (end, _) = engine.end().await.unwrap();
        let mut stream = engine.stream(&place, shapes.clone()).await.unwrap();
        let heard = hear(&mut stream, &mut by_table(&shapes), &end).await.unwrap();
        assert_eq!(heard.rows.len(), 6);
        drop(stream);
        world.run("SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ").await;
    }
}

#[tokio::test]
async fn without_gtids_a_chunk_waits_for_what_stands_in_the_log() {
    use source::mysql::position::{Gtids, Position};
    let Some(mut world) = World::new(Flavour::MySql, "by_file").await else { return };
    world.run("CREATE TABLE t (id INT PRIMARY KEY)").await;
    world.run("INSERT INTO t VALUES (1), (2)").await;
    let mut engine = world.engine(&["t"]);
    let (at, shapes) = engine.pinned(&world.ids(&["t"])).await.unwrap();
    let mut reader = engine.reader().await.unwrap();
    let by_file = Position { gtids: Gtids::None, ..at };
    let mut rows = Rows::default();
    let chunk = reader.read(&published(&shapes[0]), &Bounds::default(), &by_file, &mut rows).await.unwrap();
    assert!(matches!(chunk, Chunk::Read { rows: 2, .. }), "{chunk:?}");
}
