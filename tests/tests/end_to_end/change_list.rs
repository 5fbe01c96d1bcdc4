//! The 25 changes of the README, over Kafka with 4 lanes, a source and two instances of the sink as processes of their own.
//!
//! Each change has a table of its own, with rows copied and rows streamed before it and rows, updates and deletes behind it.

use std::time::Duration;

use tests::pipeline::{Transport, eventually, text};

use crate::world::{Options, World};

/// What becomes of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Applied,
    NothingToApply,
    /// The table waits; the others go on.
    Held,
    /// Nothing behind it reaches the sink.
    Stopped,
}

impl Expected {
    fn outcome(self) -> &'static str {
        match self {
            Expected::Applied => "applied",
            Expected::NothingToApply => "nothing_to_apply",
            Expected::Held => "held",
            Expected::Stopped => "stopped",
        }
    }
}

/// A change. `$t` is its table, which is named as the change.
#[derive(Debug, Clone, Copy)]
struct Change {
    name: &'static str,
    /// What stands in the brackets of CREATE TABLE.
    columns: &'static str,
    /// Rows before it: the first statement's are copied, the others' streamed.
    before: &'static [&'static str],
    ddl: &'static [&'static str],
    after: &'static [&'static str],
    /// Of each statement of `ddl`.
    expected: &'static [Expected],
}

use Expected::{Applied, Held, NothingToApply, Stopped};

/// Rows of tables with one column besides the key.
const NUMBERS: [&str; 3] = [
    "INSERT INTO $t (id, v) SELECT seq, seq * 10 FROM seq_1_to_40",
    "INSERT INTO $t (id, v) SELECT seq, seq * 10 FROM seq_41_to_80",
    "UPDATE $t SET v = -v WHERE id % 5 = 0; DELETE FROM $t WHERE id % 7 = 0",
];

/// Updates of old rows, a change of a key, and deletes; no column but the key is named.
const LATER: &str = "UPDATE $t SET id = id + 1000 WHERE id % 11 = 0; DELETE FROM $t WHERE id % 13 = 0";

const CHANGES: [Change; 25] = [
    Change {
        name: "nullable_column",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t ADD COLUMN n VARCHAR(20) NULL"],
        after: &["INSERT INTO $t (id, v, n) VALUES (101, 1, 'x'), (102, 2, NULL)", "UPDATE $t SET n = 'later' WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "default_7_nullable",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t ADD COLUMN n INT DEFAULT 7"],
        after: &["INSERT INTO $t (id, v) VALUES (101, 1)", "INSERT INTO $t (id, v, n) VALUES (102, 2, 8)", LATER],
        expected: &[Applied],
    },
    Change {
        name: "default_7_explicit_null",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t ADD COLUMN n INT DEFAULT 7"],
        after: &["INSERT INTO $t (id, v, n) VALUES (101, 1, NULL)", "UPDATE $t SET n = NULL WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "not_null_default_later_row",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t ADD COLUMN n VARCHAR(20) NOT NULL DEFAULT 'it''s'"],
        after: &["INSERT INTO $t (id, v) VALUES (101, 1)", "INSERT INTO $t (id, v, n) VALUES (102, 2, '')", LATER],
        expected: &[Applied],
    },
    Change {
        name: "not_null_default_no_row",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t ADD COLUMN n INT NOT NULL DEFAULT 7"],
        after: &[],
        expected: &[Applied],
    },
    Change {
        name: "not_null_no_default",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t ADD COLUMN n INT NOT NULL, ADD COLUMN s VARCHAR(9) NOT NULL"],
        after: &["INSERT INTO $t (id, v, n, s) VALUES (101, 1, 5, 'x')", LATER],
        expected: &[Applied],
    },
    Change {
        name: "datetime_default_clock",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t ADD COLUMN d DATETIME DEFAULT CURRENT_TIMESTAMP"],
        after: &["INSERT INTO $t (id, v) VALUES (101, 1)", "INSERT INTO $t (id, v, d) VALUES (102, 1, NULL)", LATER],
        expected: &[Stopped],
    },
    Change {
        name: "two_first_and_after",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t ADD COLUMN a INT NOT NULL DEFAULT 1 FIRST, ADD COLUMN b INT DEFAULT 2 AFTER id"],
        after: &["INSERT INTO $t VALUES (10, 101, 20, 30), (11, 102, NULL, 31)", "UPDATE $t SET a = v, b = a WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "rename_nullable",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t RENAME COLUMN v TO w"],
        after: &["INSERT INTO $t (id, w) VALUES (101, 1), (102, NULL)", "UPDATE $t SET w = w + 1 WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "rename_not_null",
        columns: "id INT PRIMARY KEY, v INT NOT NULL",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t CHANGE v w INT NOT NULL"],
        after: &["INSERT INTO $t (id, w) VALUES (101, 1)", "UPDATE $t SET w = w + 1 WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "names_exchanged",
        columns: "id INT PRIMARY KEY, a INT, b INT",
        before: &[
            "INSERT INTO $t SELECT seq, seq * 10, seq * 100 FROM seq_1_to_40",
            "INSERT INTO $t SELECT seq, seq * 10, seq * 100 FROM seq_41_to_80",
        ],
        ddl: &["ALTER TABLE $t CHANGE a b INT, CHANGE b a INT"],
        after: &["INSERT INTO $t (id, a, b) VALUES (101, 1, 2)", "UPDATE $t SET a = NULL WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "drop_nullable",
        columns: "id INT PRIMARY KEY, v INT, w INT NOT NULL DEFAULT 4",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t DROP COLUMN v"],
        after: &["INSERT INTO $t (id, w) VALUES (101, 1)", "UPDATE $t SET w = id WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "drop_not_null",
        columns: "id INT PRIMARY KEY, v INT NOT NULL, w INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t DROP COLUMN v"],
        after: &["INSERT INTO $t (id, w) VALUES (101, 1)", "UPDATE $t SET w = id WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "drop_and_add_again",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t DROP COLUMN v", "ALTER TABLE $t ADD COLUMN v VARCHAR(20) NOT NULL DEFAULT 'new'"],
        after: &["INSERT INTO $t (id, v) VALUES (101, 'x')", "UPDATE $t SET v = CONCAT(v, id) WHERE id % 3 = 0", LATER],
        expected: &[Applied, Applied],
    },
    Change {
        name: "varchar_longer",
        columns: "id INT PRIMARY KEY, v VARCHAR(10)",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t MODIFY v VARCHAR(300)"],
        after: &["INSERT INTO $t VALUES (101, REPEAT('y', 300))", "UPDATE $t SET v = REPEAT('é', 299) WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "int_to_bigint",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t MODIFY v BIGINT"],
        after: &["INSERT INTO $t VALUES (101, -9223372036854775808)", "UPDATE $t SET v = v + 5000000000 WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "int_to_bigint_key",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t MODIFY id BIGINT"],
        after: &[
            "INSERT INTO $t VALUES (9223372036854775807, 1), (101, 2)",
            "UPDATE $t SET v = 5 WHERE id % 3 = 0",
            "UPDATE $t SET id = id + 5000000000 WHERE id % 11 = 0 AND id < 100; DELETE FROM $t WHERE id % 13 = 0",
        ],
        expected: &[Applied],
    },
    Change {
        name: "decimal_precision_scale",
        columns: "id INT PRIMARY KEY, v DECIMAL(8,2)",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t MODIFY v DECIMAL(20,6)"],
        after: &["INSERT INTO $t VALUES (101, 12345678901234.000001)", "UPDATE $t SET v = v / 3 WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "int_to_varchar",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t MODIFY v VARCHAR(20)"],
        after: &["INSERT INTO $t VALUES (101, 'no number')", "UPDATE $t SET v = CONCAT('n', v) WHERE id % 3 = 0", LATER],
        expected: &[Stopped],
    },
    Change {
        name: "datetime_to_datetime_6",
        columns: "id INT PRIMARY KEY, v DATETIME",
        before: &[
            "INSERT INTO $t SELECT seq, TIMESTAMPADD(SECOND, seq, '2024-02-29 23:59:00') FROM seq_1_to_40",
            "INSERT INTO $t SELECT seq, TIMESTAMPADD(SECOND, seq, '1969-12-31 23:59:00') FROM seq_41_to_80",
        ],
        ddl: &["ALTER TABLE $t MODIFY v DATETIME(6)"],
        after: &[
            "INSERT INTO $t VALUES (101, '1000-01-01 00:00:00.000001')",
            "UPDATE $t SET v = '2024-01-01 00:00:00.999999' WHERE id % 3 = 0",
            LATER,
        ],
        expected: &[Applied],
    },
    Change {
        name: "not_null_to_null",
        columns: "id INT PRIMARY KEY, v INT NOT NULL",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t MODIFY v INT NULL"],
        after: &["INSERT INTO $t VALUES (101, NULL)", "UPDATE $t SET v = NULL WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "enum_label_appended",
        columns: "id INT PRIMARY KEY, v ENUM('a','b')",
        before: &["INSERT INTO $t SELECT seq, 1 + seq % 2 FROM seq_1_to_40", "INSERT INTO $t SELECT seq, 1 + seq % 2 FROM seq_41_to_80"],
        ddl: &["ALTER TABLE $t MODIFY v ENUM('a','b','c')"],
        after: &["INSERT INTO $t VALUES (101, 'c')", "UPDATE $t SET v = 'c' WHERE id % 3 = 0", LATER],
        expected: &[NothingToApply],
    },
    Change {
        name: "truncate_between_rows",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["TRUNCATE TABLE $t"],
        after: &["INSERT INTO $t SELECT seq, 1 FROM seq_30_to_50", "UPDATE $t SET v = 2 WHERE id % 3 = 0", LATER],
        expected: &[Applied],
    },
    Change {
        name: "key_widened",
        columns: "id INT PRIMARY KEY, v INT NOT NULL",
        before: &NUMBERS,
        ddl: &["ALTER TABLE $t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)"],
        after: &["INSERT INTO $t VALUES (1, 1), (1, 2), (2, 2)", "DELETE FROM $t WHERE id = 1 AND v = 1", LATER],
        expected: &[Held],
    },
    Change {
        name: "drop_and_create",
        columns: "id INT PRIMARY KEY, v INT",
        before: &NUMBERS,
        ddl: &["DROP TABLE $t", "CREATE TABLE $t (code VARCHAR(9) PRIMARY KEY, amount DECIMAL(9,3) NOT NULL, id DATE)"],
        after: &["INSERT INTO $t VALUES ('a', 1.125, '2024-02-29'), ('b', 2, NULL)", "UPDATE $t SET amount = 3 WHERE code = 'b'"],
        expected: &[Stopped],
    },
];

impl Change {
    /// Whether the sink goes on by itself behind it.
    fn goes_on(&self) -> bool {
        self.expected.iter().all(|e| matches!(e, Applied | NothingToApply))
    }

    async fn run(&self, world: &mut World, statements: &[&str]) {
        for statement in statements.iter().flat_map(|s| s.split("; ")) {
            world.source.run(&statement.replace("$t", self.name)).await;
        }
    }

    /// The outcomes of its statements, in order: those of the table's history that carry DDL.
    fn outcomes(&self, world: &World) -> Vec<String> {
        let history = world.history(self.name);
        let outcome = |e: &serde_json::Value| e["outcomes"]["target"]["outcome"].as_str().unwrap_or("none").to_owned();
        history.iter().filter(|e| !e["ddl"].is_null()).map(outcome).collect()
    }

    fn assert_outcomes(&self, world: &World, expected: &[&str]) {
        assert_eq!(self.outcomes(world), expected, "{}: {:#?}", self.name, world.history(self.name));
    }
}

/// A world with a table for each change, copied rows and streamed ones; nothing is changed yet.
async fn begun(name: &str, changes: &[Change], sink: &str) -> World {
    let setup: String = changes
        .iter()
        .map(|c| format!("CREATE TABLE {t} ({});\n{};\n", c.columns, c.before[0].replace("$t", c.name), t = c.name))
        .collect();
    let tables: Vec<&str> = changes.iter().map(|c| c.name).collect();
    let options = Options { transport: Transport::Kafka, apart: true, sink, ..Options::default() };
    let mut world = World::with(name, &setup, &tables, options).await;
    world.start();
    for change in changes {
        change.run(&mut world, &change.before[1..]).await;
    }
    world
}

fn succeeds(world: &World, command: &[&str], table: &str) {
    let table = format!("{}.{table}", world.name);
    let output = world.pipeline.command(command, &[&table]);
    assert!(output.status.success(), "{command:?} {table}: {}\nlog:\n{}", text(&output), world.pipeline.log());
}

async fn all_equal(world: &mut World) {
    world.pipeline.caught_up();
    world.assert_equal().await;
}

#[tokio::test]
async fn each_of_the_25_changes_is_right_or_waits_for_a_person() {
    let mut world = begun("change_list", &CHANGES, "").await;
    // Those that are applied come in a row, while the instances are still at the rows before them.
    for change in CHANGES.iter().filter(|c| c.goes_on()) {
        change.run(&mut world, change.ddl).await;
        change.run(&mut world, change.after).await;
    }
    all_equal(&mut world).await;
    for change in CHANGES.iter().filter(|c| c.goes_on()) {
        change.assert_outcomes(&world, &change.expected.iter().map(|e| e.outcome()).collect::<Vec<_>>());
    }

    for change in CHANGES.iter().filter(|c| !c.goes_on()) {
        let rows = world.count(change.name).await;
        change.run(&mut world, change.ddl).await;
        change.run(&mut world, change.after).await;
        world.source.run("INSERT INTO nullable_column (id, v) SELECT COALESCE(MAX(id), 0) + 1, 1 FROM nullable_column").await;
        let (code, printed) = world.pipeline.wait("settled", 60);
        let stops = change.expected[0] == Stopped;
        assert_eq!(code, if stops { 3 } else { 4 }, "{}: {printed}\n{}", change.name, world.pipeline.log());
        assert!(printed.contains(change.name) && printed.contains("eload"), "{}: {printed}", change.name);
        assert_eq!(change.outcomes(&world)[0], change.expected[0].outcome(), "{}", change.name);
        assert_eq!(world.count(change.name).await, rows, "{}: rows of before stay, none of behind comes", change.name);

        succeeds(&world, &["reload"], change.name);
        all_equal(&mut world).await;
        let outcomes = change.outcomes(&world);
        assert!(outcomes.iter().all(|o| o == "superseded"), "{}: {outcomes:?}", change.name);
        eventually("the table streams", Duration::from_secs(20), async || world.table_state(change.name) == "streaming").await;
    }

    // All of them take rows again.
    for change in CHANGES.iter().filter(|c| c.name != "drop_and_create") {
        change.run(&mut world, &["UPDATE $t SET id = id + 2000 WHERE id % 17 = 0", "DELETE FROM $t WHERE id % 3 = 0"]).await;
    }
    world.source.run("DELETE FROM drop_and_create WHERE code = 'a'").await;
    all_equal(&mut world).await;
    for change in &CHANGES {
        assert_eq!(world.table_state(change.name), "streaming", "{}", change.name);
    }
}

/// The same changes where a policy lets a person decide.
#[tokio::test]
async fn changes_held_by_a_policy_are_approved_kept_or_reloaded() {
    let of = |name: &str| *CHANGES.iter().find(|c| c.name == name).expect("a change");
    let (approved, kept, key) = (of("int_to_varchar"), of("drop_nullable"), of("key_widened"));
    let policy = "    evolution: { change_type: hold, drop_column: hold }\n";
    let mut world = begun("change_list_held", &[approved, kept, key], policy).await;
    for change in [approved, kept, key] {
        change.run(&mut world, change.ddl).await;
        change.run(&mut world, change.after).await;
    }
    let (code, printed) = world.pipeline.wait("settled", 60);
    assert_eq!(code, 4, "{printed}\n{}", world.pipeline.log());
    for change in [approved, kept, key] {
        change.assert_outcomes(&world, &["held"]);
        assert!(printed.contains(change.name), "{printed}");
    }
    assert!(printed.contains("Restore the row key on the source, then reload the table"), "{printed}");
    let cards = text(&world.pipeline.command(&["review", "list"], &[]));
    assert!(cards.contains("must be dropped and made again as (id, v) first, by hand"), "{cards}");

    // What no statement can make is not approved.
    let output = world.pipeline.command(&["review", "approve"], &["change_list_held.key_widened"]);
    assert!(output.status.code() == Some(1) && text(&output).contains("cannot be run as it is"), "{}", text(&output));

    // An approved change that fails leaves its table held, and says why; it may be approved again.
    world.target.run("ALTER TABLE int_to_varchar ADD COLUMN theirs int").await;
    succeeds(&world, &["review", "approve"], approved.name);
    eventually("why it failed is told", Duration::from_secs(20), async || {
        let table = &world.pipeline.status()["sinks"]["target"]["tables"]["change_list_held.int_to_varchar"];
        table["state"] == "held" && table["message"].as_str().is_some_and(|m| m.contains("theirs"))
    })
    .await;
    world.target.run("ALTER TABLE int_to_varchar DROP COLUMN theirs").await;
    succeeds(&world, &["review", "approve"], approved.name);
    succeeds(&world, &["review", "keep"], kept.name);
    succeeds(&world, &["reload"], key.name);
    world.pipeline.caught_up();
    approved.assert_outcomes(&world, &["approved"]);
    kept.assert_outcomes(&world, &["kept"]);
    key.assert_outcomes(&world, &["superseded"]);
    // What is kept has a column more; a reload makes it the source's.
    assert!(world.count(kept.name).await > 0);
    succeeds(&world, &["reload"], kept.name);
    all_equal(&mut world).await;
}
