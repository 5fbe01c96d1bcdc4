use std::{fs, path::Path};

use schemas::{change::Kind, policy::Action};

use super::{document::Document, unbuilt::NOT_BUILT, *};

fn load(text: &str) -> Result<Pipeline, ConfigErrors> {
    Pipeline::parse("shop.yaml", text.to_owned())
}

/// The problems as they are printed, a line each.
fn problems(text: &str) -> Vec<String> {
    load(text).unwrap_err().to_string().lines().map(str::to_owned).collect()
}

const LEAST: &str = "\
pipeline: shop
source:
  engine: mysql
  url: mysql://repl:secret@127.0.0.1/shop
  tables: [shop.orders, customers]
sinks:
  warehouse:
    target: postgres
    url: postgres://loader@127.0.0.1/warehouse
";

#[test]
fn what_is_not_said_has_the_documented_default() {
    let pipeline = load(LEAST).unwrap();
    assert_eq!(pipeline.name, "shop");
    assert_eq!(pipeline.topics.prefix, "shop");
    assert_eq!(pipeline.topics.truncate, TruncateEvents::Publish);
    let local = LocalTopics { path: "./instar-data".into(), partitions: 1, retention: Duration::from_secs(7 * 86_400) };
    assert_eq!(pipeline.topics.transport, Transport::Local(local));
    assert_eq!(pipeline.admin, Admin { listen: "127.0.0.1:8710".parse().unwrap(), token: None });
    let source = &pipeline.source;
    assert_eq!(source.url.password, Some(Secret::new("secret")));
    let tables: Vec<String> = source.tables.iter().map(|t| t.table.to_string()).collect();
    assert_eq!(tables, ["shop.orders", "shop.customers"]);
    let snapshot = Snapshot { mode: SnapshotMode::Initial, workers: 2, chunk_rows: 50_000, slice: Duration::from_secs(2) };
    assert_eq!(source.snapshot, snapshot);
    assert_eq!((source.new_tables, source.row_metadata), (NewTables::Ignore, RowMetadata::Warn));
    assert_eq!((source.server_id, source.heartbeat), (None, Duration::from_secs(10)));
    assert_eq!(source.tls, Tls::default());
    let sink = &pipeline.sinks["warehouse"];
    assert_eq!((sink.workers, sink.create, sink.recreate, sink.adopt), (4, true, false, false));
    assert_eq!(sink.retry, Retry { initial: Duration::from_secs(1), max: Duration::from_secs(60) });
    assert_eq!(sink.batch, Batch { rows: 10_000, bytes: 16 << 20, linger: Duration::from_millis(10) });
    assert_eq!((sink.lock_timeout, sink.on_stop, sink.schema.as_deref()), (Duration::from_secs(5), OnStop::Exit, None));
    assert_eq!((sink.defaults.keyless, sink.defaults.bad_value), (Keyless::Refuse, BadValue::Stop));
    assert!(!sink.defaults.allow_truncation);
    assert_eq!(sink.tables, BTreeMap::new());
}

#[test]
fn names_in_backquotes_may_hold_dots() {
    let pipeline =
        load(&LEAST.replace(
            "[shop.orders, customers]",
            r#"['`my.base`.`we.ird``t`', 'shop.`a.b`', '`c.d`', 'shop.plain.dot', 'shop.tick`', '`*`']"#,
        ))
        .unwrap();
    let tables: Vec<(String, String)> = pipeline.source.tables.iter().map(|t| (t.table.namespace.clone(), t.table.name.clone())).collect();
    let expected = [("my.base", "we.ird`t"), ("shop", "a.b"), ("shop", "c.d"), ("shop", "plain.dot"), ("shop", "tick`"), ("shop", "*")];
    assert_eq!(tables, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    for text in ["'`a`b'", "'`a'", "'`a`.``'", "'`a`.b.c'"] {
        let found = problems(&LEAST.replace("[shop.orders, customers]", &format!("[{text}]")));
        assert!(found[0].contains("is not `database`.`table`"), "{found:?}");
    }
}

#[test]
fn everything_that_is_said_is_taken() {
    let pipeline = load(
        "\
pipeline: shop
topics: { transport: local, prefix: s, truncate: stop, local: { path: /var/lib/x, partitions: 4, retention: 2h } }
source:
  engine: mysql
  url: mariadb://repl@127.0.0.1:3307/shop
  tables: [{ table: orders }]
  snapshot: { mode: never, workers: 8, chunk_rows: 1, slice: 200ms }
  row_metadata: require
  type_map: { shop.orders.d: string }
  tls: { ca: ca.pem, certificate: c.pem, key: k.pem }
  server_id: 77
  heartbeat: 1s
sinks:
  warehouse:
    target: postgres
    url: postgresql://loader@127.0.0.1/warehouse
    schema: public
    workers: 2
    create: false
    recreate: true
    adopt: true
    keyless: full_row
    bad_value: hold
    on_stop: wait
    retry: { initial: 10ms, max: 1m }
    lock_timeout: 1s
    batch: { rows: 5, bytes: 1kB, linger: 0s }
    evolution: { type_changes: hold, lengthen: apply, drop_column: keep }
    type_map: { json: text }
    allow_truncation: true
    tls: { mode: verify-ca }
    tables:
      shop.orders: { allow_truncation: false, rename: o, columns: { a: aa }, evolution: { drop_column: stop }, keyless: append, type_map: { x: y } }
admin: { listen: '0.0.0.0:0', token: t }
",
    )
    .unwrap();
    let topics = Topics {
        prefix: "s".into(),
        truncate: TruncateEvents::Stop,
        transport: Transport::Local(LocalTopics { path: "/var/lib/x".into(), partitions: 4, retention: Duration::from_secs(7200) }),
    };
    assert_eq!(pipeline.topics, topics);
    let source = &pipeline.source;
    assert_eq!(source.tables[0].table, TableId::new("shop", "orders"));
    assert_eq!(source.snapshot.mode, SnapshotMode::Never);
    assert_eq!((source.snapshot.workers, source.snapshot.chunk_rows), (8, 1));
    assert_eq!((source.row_metadata, source.server_id), (RowMetadata::Require, Some(77)));
    assert_eq!(source.type_map, [("shop.orders.d".into(), "string".into())].into());
    let tls = Tls { mode: TlsMode::VerifyFull, ca: Some("ca.pem".into()), certificate: Some("c.pem".into()), key: Some("k.pem".into()) };
    assert_eq!(source.tls, tls);
    let sink = &pipeline.sinks["warehouse"];
    assert_eq!((sink.workers, sink.create, sink.recreate, sink.adopt, sink.on_stop), (2, false, true, true, OnStop::Wait));
    assert_eq!(sink.batch, Batch { rows: 5, bytes: 1024, linger: Duration::ZERO });
    assert_eq!(sink.tls.mode, TlsMode::VerifyCa);
    let table = sink.table(&TableId::new("shop", "orders"));
    assert_eq!((table.rename.as_deref(), table.columns["a"].as_str()), (Some("o"), "aa"));
    let action = |kind| table.evolution.action(kind);
    assert_eq!(action(Kind::Lengthen), Some(Action::Apply));
    assert_eq!(action(Kind::Shorten), Some(Action::Hold));
    assert_eq!(action(Kind::DropColumn), Some(Action::Stop));
    assert_eq!((sink.defaults.allow_truncation, table.allow_truncation), (true, false));
    assert_eq!((table.keyless, table.bad_value), (Keyless::Append, BadValue::Hold));
    assert_eq!(table.type_map, [("json".into(), "text".into()), ("x".into(), "y".into())].into());
    let other = sink.table(&TableId::new("shop", "other"));
    assert_eq!((other.keyless, other.evolution.action(Kind::DropColumn)), (Keyless::FullRow, Some(Action::Keep)));
    assert_eq!((pipeline.admin.listen.port(), pipeline.admin.token), (0, Some(Secret::new("t"))));
}

#[test]
fn all_problems_are_said_at_once_with_key_line_and_nearest_name() {
    let text = "\
pipeline: a shop
topics:
  transport: kafka
  kafka: { brokers: 'a:1,b:x', tls: { mode: prefer }, sasl: { mechanism: PLAIN, user: u }, properties: { acks: 1 } }
  truncat: stop
source:
  engine: mysq
  url: mysql://repl:${env:INSTAR_NO_SUCH_PASSWORD}@127.0.0.1/shop
  tables:
    - shop.orders
    - shop.*
    - { table: shop.lines, filtre: x > 1, filter: x > 1 }
  heartbeat: 10
sinks:
  warehouse:
    target: postgres
    url: postgres://127.0.0.1/w
    evoluton: { drop_column: keep }
    evolution: { drop_colum: keep, lengthen: aply }
    workers: 0
    batch: { bytes: 16 Mb }
  lake: { target: fabric, url: 'https://x' }
";
    assert_eq!(
        problems(text),
        [
            "shop.yaml: line 1: pipeline: \"a shop\" is no name; use at most 40 letters, digits, _, - and .",
            "shop.yaml: line 4: topics.kafka.brokers: \"b:x\" is not a broker's address; write host:port, several with commas between them",
            "shop.yaml: line 4: topics.kafka.registry: is missing; write for example registry: \"http://127.0.0.1:8081\"",
            "shop.yaml: line 4: topics.kafka.tls: has mode: prefer, which a broker cannot be asked for; write disable, require, verify-ca or verify-full",
            "shop.yaml: line 4: topics.kafka.sasl: needs user and password for this mechanism",
            "shop.yaml: line 4: topics.kafka.properties.acks: is not for the configuration to set (always all)",
            "shop.yaml: line 5: topics.truncat: unknown key; did you mean truncate?",
            "shop.yaml: line 7: source.engine: \"mysq\" is not one of mysql, postgres, sqlserver, odbc; did you mean mysql?",
            "shop.yaml: line 8: source.url: the environment variable INSTAR_NO_SUCH_PASSWORD is not set",
            "shop.yaml: line 11: source.tables[1]: shop.*: a pattern of tables is not built yet; name each table",
            "shop.yaml: line 12: source.tables[2].filter: a row filter is not built yet",
            "shop.yaml: line 12: source.tables[2].filtre: unknown key; did you mean filter?",
            "shop.yaml: line 13: source.heartbeat: \"10\" has no unit; write for example 10ms, 5s, 2m, 1h or 7d",
            "shop.yaml: line 18: sinks.warehouse.evoluton: unknown key; did you mean evolution?",
            "shop.yaml: line 19: sinks.warehouse.evolution.drop_colum: is neither a kind of change nor a group of them; did you mean drop_column?",
            "shop.yaml: line 19: sinks.warehouse.evolution.lengthen: \"aply\" is not one of apply, hold, stop, keep; did you mean apply?",
            "shop.yaml: line 20: sinks.warehouse.workers: \"0\" is not a whole number from 1 to 64",
            "shop.yaml: line 21: sinks.warehouse.batch.bytes: \"16 Mb\" is not a size; write for example 64kB, 16MB or 1GB",
            "shop.yaml: line 22: sinks.lake.target: fabric: the Fabric sink is not built yet",
        ]
    );
}

#[test]
fn a_kafka_cluster_is_taken_with_all_that_is_said_of_it() {
    let text = |kafka: &str| {
        format!(
            "pipeline: shop\ntopics: {{ transport: kafka, kafka: {{ {kafka} }} }}\nsource: {{ engine: mysql, url: 'mysql://u@h/d', tables: [a] }}\nsinks: {{}}\n"
        )
    };
    let kafka = |text: &str| match load(text).unwrap().topics.transport {
        Transport::Kafka(kafka) => kafka,
        Transport::Local(_) => panic!("not the broker's"),
    };
    let least = kafka(&text("brokers: 'b1,b2:9093', registry: 'http://r:8081'"));
    assert_eq!((least.brokers.as_str(), least.partitions, least.replication), ("b1:9092,b2:9093", 1, 1));
    assert_eq!((&least.tls, &least.sasl, &least.registry_auth), (&None, &None, &RegistryAuth::None));
    let all = kafka(&text(
        "brokers: [b], registry: 'https://r/x', partitions: 4, replication: 3, properties: { linger.ms: 20 }, tls: { ca: ca.pem }, \
         sasl: { mechanism: SCRAM-SHA-512, username: u, password: p }, registry_auth: { token: t }",
    ));
    assert_eq!((all.partitions, all.replication), (4, 3));
    assert_eq!(all.properties, [("linger.ms".to_owned(), Secret::new("20"))].into());
    let tls = Tls { mode: TlsMode::VerifyFull, ca: Some("ca.pem".into()), certificate: None, key: None };
    assert_eq!((all.tls.as_ref(), &all.registry_tls), (Some(&tls), &tls));
    let sasl = Sasl::Password { mechanism: SaslMechanism::ScramSha512, user: "u".into(), password: Secret::new("p") };
    assert_eq!((all.sasl, all.registry_auth), (Some(sasl), RegistryAuth::Bearer(Secret::new("t"))));
}

#[test]
fn a_file_that_is_half_written_says_where_and_what_is_missing() {
    for (text, wanted) in [
        ("", vec!["shop.yaml: is empty; pipeline, source and sinks are needed"]),
        (
            "pipeline: x\nsource:\n  engine: mys",
            vec![
                "shop.yaml: line 1: sinks: is missing; write for example sinks: { warehouse: { target: postgres, url: … } }",
                "shop.yaml: line 2: source.url: is missing; write for example url: mysql://user:${env:PASSWORD}@127.0.0.1:3306/shop",
                "shop.yaml: line 2: source.tables: is missing; write for example tables: [shop.orders, shop.customers]",
                "shop.yaml: line 3: source.engine: \"mys\" is not one of mysql, postgres, sqlserver, odbc; did you mean mysql?",
            ],
        ),
        (
            "pipeline:\nsource: { engine: mysql, url: 'mysql://h/d', tables: [] }\nsinks:\n",
            vec![
                "shop.yaml: line 1: pipeline: has no value",
                "shop.yaml: line 2: source.tables: names no table",
                "shop.yaml: line 3: sinks: has no value; write {} for a pipeline without sinks",
            ],
        ),
        (
            "pipeline: x\ntopics: { prefix: a b, truncate: stop, local: { partitions: 2 } }\nsource: { engine: mysql, url: 'mysql://h/d', tables: [a] }\nsinks: {}\n",
            vec!["shop.yaml: line 2: topics.prefix: \"a b\" is no name; use at most 40 letters, digits, _, - and ."],
        ),
        (
            "pipeline: x\nsource: mysql\nsinks: [a]\n",
            vec![
                "shop.yaml: line 2: source: takes keys with values, not a value",
                "shop.yaml: line 2: source.engine: is missing; write for example engine: mysql",
                "shop.yaml: line 2: source.url: is missing; write for example url: mysql://user:${env:PASSWORD}@127.0.0.1:3306/shop",
                "shop.yaml: line 2: source.tables: is missing; write for example tables: [shop.orders, shop.customers]",
                "shop.yaml: line 3: sinks: takes keys with values, not a value",
            ],
        ),
    ] {
        assert_eq!(problems(text), wanted, "{text}");
    }
    for (text, line, part) in [
        ("pipeline: [", 2, "did not find expected node content"),
        ("pipeline: x\nsource: { engine: mysql\nsinks: {}\n", 3, "did not find expected ',' or '}'"),
        ("pipeline: x\npipeline: y\n", 1, "duplicate entry"),
        ("pipeline: \"x\nsource: y\n", 3, "unexpected end of stream"),
    ] {
        let errors = load(text).unwrap_err();
        assert_eq!(errors.problems.len(), 1);
        let problem = &errors.problems[0];
        assert_eq!(problem.line, Some(line), "{text}: {problem:?}");
        assert!(problem.message.contains(part), "{text}: {problem:?}");
    }
    let missing = Pipeline::load("/nowhere/shop.yaml").unwrap_err().to_string();
    assert_eq!(missing, "/nowhere/shop.yaml: cannot be read: No such file or directory (os error 2)");
}

#[test]
fn names_that_contradict_each_other_are_found() {
    let text = format!(
        "{LEAST}    database: w\n    retry: {{ initial: 2m }}\n    tls: {{ certificate: c.pem }}\n    tables: {{ shop.ordesr: {{ rename: x }} }}\n"
    )
    .replace("[shop.orders, customers]", "[shop.orders, orders]")
    .replace("mysql://", "postgres://");
    assert_eq!(
        problems(&text),
        [
            "shop.yaml: line 4: source.url: begins with postgres://, but must begin with mysql:// or mariadb://",
            "shop.yaml: line 5: source.tables[1]: shop.orders is named twice",
            "shop.yaml: line 10: sinks.warehouse.database: a PostgreSQL sink has its database in the url; schema says where in it the tables go",
            "shop.yaml: line 11: sinks.warehouse.retry: has an initial pause that is longer than its max",
            "shop.yaml: line 12: sinks.warehouse.tls: has a certificate without its key; give both",
            "shop.yaml: line 13: sinks.warehouse.tables.shop.ordesr: shop.ordesr is not among source.tables; did you mean shop.orders?",
        ]
    );
}

#[test]
fn a_target_table_has_one_writer() {
    let text = LEAST.replace(
        "    url: postgres://loader@127.0.0.1/warehouse\n",
        "    url: postgres://loader@127.0.0.1/warehouse\n    tables: { customers: { rename: orders } }\n  \
         again:\n    target: postgres\n    url: postgres://other@LOCALHOST:5432/warehouse\n    tables: { orders: { rename: o } }\n  \
         apart:\n    target: postgres\n    url: postgres://loader@127.0.0.1/warehouse\n    schema: apart\n  \
         elsewhere:\n    target: postgres\n    url: postgres://loader@127.0.0.1:5433/warehouse\n  \
         other:\n    target: postgres\n    url: postgres://loader@127.0.0.1/other\n  \
         last:\n    target: postgres\n    url: postgres://127.0.0.1/warehouse\n    schema: shop\n    tables: { customers: { rename: c } }\n",
    );
    let twice = |line: u32, sink: &str, key: &str, table: &str, other: &str| {
        format!(
            "shop.yaml: line {line}: sinks.{sink}: {key} writes the table shop.{table} of 127.0.0.1:5432/warehouse, and so does {other}; \
             give one of them another schema or rename"
        )
    };
    let renamed = "sinks.warehouse.tables.shop.customers.rename";
    assert_eq!(
        problems(&text),
        [
            twice(7, "warehouse", renamed, "orders", "sinks.warehouse (table shop.orders)"),
            twice(25, "last", "sinks.last (table shop.orders)", "orders", "sinks.warehouse (table shop.orders)"),
        ]
    );
    // Under the names that it has left, a table is in nobody's way.
    let again = problems(&text.replace("tables: { orders: { rename: o } }", "create: true"));
    assert_eq!(again.len(), 3, "{again:?}");
    assert_eq!(again[1], twice(11, "again", "sinks.again (table shop.orders)", "orders", "sinks.warehouse (table shop.orders)"));
}

#[test]
fn columns_and_types_that_cannot_be_mapped_are_named() {
    let text = LEAST.replace(
        "sinks:",
        "  type_map: { shop.orders.d: string, date: string, 'BIGINT unsigned': string, shop.orders.n: text, dat: string, orders.d: string }\nsinks:",
    );
    assert_eq!(
        problems(&text),
        [
            "shop.yaml: line 6: source.type_map.shop.orders.n: \"text\" is not one of string",
            "shop.yaml: line 6: source.type_map.dat: dat is neither a type of the source (date, bigint unsigned) nor \
             database.table.column; did you mean date?",
            "shop.yaml: line 6: source.type_map.orders.d: orders.d is not a whole name; write database.table.column",
        ]
    );
}

#[test]
fn every_refusal_of_what_is_not_built_is_reached() {
    for unbuilt in NOT_BUILT {
        let value = unbuilt.value.unwrap_or("true");
        let mut text = match unbuilt.value {
            Some(name) => name.to_owned(),
            None => "[x]".to_owned(),
        };
        for step in unbuilt.key.split('.').rev() {
            text = match (step, unbuilt.key.starts_with("source.tables")) {
                ("*", true) => format!("[{text}]"),
                ("*", false) => format!("{{ shop.orders: {text} }}"),
                _ => format!("{{ {step}: {text} }}"),
            };
        }
        let said = problems(&text);
        let sentence = format!("{} is not built yet", unbuilt.what);
        assert!(said.iter().any(|line| line.contains(&sentence)), "{} {value}: {said:?}", unbuilt.key);
        assert!(!said.iter().any(|line| line.contains("unknown key")), "{}: {said:?}", unbuilt.key);
    }
}

/// Loads a file that takes its secrets from the environment, which a test does not have.
fn load_example(path: &Path, text: &str) {
    let text = text.replace("${env:SOURCE_PASSWORD}", "a").replace("${env:TARGET_PASSWORD}", "b");
    pipeline::load(Document::parse(path, text).unwrap()).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn the_working_examples_are_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        load_example(&path, &fs::read_to_string(&path).unwrap());
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    names.sort();
    assert_eq!(names, ["every-key.yaml", "mysql-to-postgres-kafka.yaml", "mysql-to-postgres.yaml"]);
}

#[test]
fn the_pipelines_of_compose_and_chart_are_whole() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let compose = deploy.join("compose/pipeline.yaml");
    load_example(&compose, &fs::read_to_string(&compose).unwrap());
    let chart = deploy.join("kubernetes/instar/values.yaml");
    let values: serde_yaml_ng::Value = serde_yaml_ng::from_str(&fs::read_to_string(&chart).unwrap()).unwrap();
    load_example(&chart, &serde_yaml_ng::to_string(&values["pipeline"]).unwrap());
}
