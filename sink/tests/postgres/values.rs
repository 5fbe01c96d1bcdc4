//! Every type at its least, greatest and special values, from Avro into PostgreSQL and back as text; and every fit check.

use schemas::{
    native::{
        Native,
        mysql::{LobSize, Native as My},
        postgres::{Native as Pg, declare},
    },
    table::Column,
    wire::codec::{
        put_boolean, put_bytes, put_decimal_i128, put_double, put_float, put_int, put_long, put_null, put_some, put_twos_complement,
    },
};
use sink::target::{Target, Written};

use crate::support::{Database, charset, create, database, int, message, upsert, version, write, write_as};

type Put = Box<dyn Fn(&mut Vec<u8>)>;

fn long(n: i64) -> Put {
    Box::new(move |out| put_long(out, n))
}

fn bytes(value: &[u8]) -> Put {
    let value = value.to_vec();
    Box::new(move |out| put_bytes(out, &value))
}

fn string(value: &str) -> Put {
    bytes(value.as_bytes())
}

fn decimal(n: i128) -> Put {
    Box::new(move |out| put_decimal_i128(out, n))
}

fn float(n: f32) -> Put {
    Box::new(move |out| put_float(out, n))
}

fn double(n: f64) -> Put {
    Box::new(move |out| put_double(out, n))
}

fn boolean(value: bool) -> Put {
    Box::new(move |out| put_boolean(out, value))
}

fn mysql(native: My) -> Native {
    Native::MySql(native)
}

fn integer(bits: u8, unsigned: bool) -> Native {
    mysql(My::Integer { bits, unsigned, zerofill: false, width: None })
}

fn varchar(length: u32) -> Native {
    mysql(My::VarChar { length, charset: charset(), compressed: false })
}

fn row(id: i32, value: Option<&Put>) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, id);
    match value {
        None => put_null(&mut out),
        Some(put) => {
            put_some(&mut out);
            put(&mut out);
        }
    }
    out
}

/// Writes the values, and NULL, by arrays, by a stage and by COPY straight into the table, and reads each back.
async fn round_trip(database: &Database, source: Native, target: Pg, values: Vec<(Put, &str)>) {
    let what = format!("{source:?} into {target}");
    let version = version("v", &[("id", int(), Pg::Integer, false), ("v", source, target, true)], &["id"]);
    let rows: Vec<_> =
        values.iter().map(|(put, _)| Some(put)).chain([None]).enumerate().map(|(i, put)| (i as i32, row(i as i32, put))).collect();
    let keys: Vec<_> = (0..10_000)
        .map(|i| {
            let mut key = Vec::new();
            put_int(&mut key, i);
            key
        })
        .collect();
    let filler: Vec<_> = (1_000..1_300).map(|i| (i, row(i, None))).collect();
    let mut expected: Vec<_> = values.iter().map(|(_, text)| (*text).to_owned()).collect();
    expected.push("NULL".into());
    for way in ["arrays", "stage", "copy"] {
        database.sql("DROP TABLE IF EXISTS shop.v; DELETE FROM instar.lanes").await;
        create(database, &version).await;
        let mut writer = database.target.writer().await.unwrap();
        let mut effects: Vec<_> = rows.iter().map(|(i, row)| upsert(&keys[*i as usize], row)).collect();
        if way == "stage" {
            effects.extend(filler.iter().map(|(i, row)| upsert(&keys[*i as usize], row)));
        }
        let written = write_as(&mut writer, &version, 0, effects, way == "copy").await;
        assert_eq!(written.unwrap_or_else(|e| panic!("{what} by {way}: {e}")), Written::Committed);
        assert_eq!(database.rows("SELECT v::text FROM shop.v WHERE id < 1000 ORDER BY id").await, expected, "{what} by {way}");
    }
}

/// The error of writing one value.
async fn refused(database: &Database, source: Native, target: Pg, put: Put) -> (&'static str, String) {
    database.sql("DROP TABLE IF EXISTS shop.v; DELETE FROM instar.lanes").await;
    let version = version("v", &[("id", int(), Pg::Integer, false), ("v", source, target, true)], &["id"]);
    create(database, &version).await;
    let mut writer = database.target.writer().await.unwrap();
    let record = row(7, Some(&put));
    let error = write(&mut writer, &version, 0, vec![upsert(&record[..1], &record)]).await.unwrap_err();
    assert_eq!(database.one("SELECT count(*) FROM shop.v").await, "0");
    assert_eq!(database.one("SELECT count(*) FROM instar.lanes").await, "0", "the lane must not move");
    message(&error)
}

fn declared(native: &Native) -> Pg {
    declare(&Column::new(0, "v", native.clone())).unwrap()
}

#[tokio::test]
async fn whole_numbers_of_every_width_arrive_exactly() {
    let Some(database) = database().await else { return };
    for (bits, unsigned, values) in [
        (8, false, vec![(-128i64, "-128"), (127, "127"), (0, "0")]),
        (8, true, vec![(255, "255")]),
        (16, false, vec![(-32768, "-32768"), (32767, "32767")]),
        (16, true, vec![(65535, "65535")]),
        (24, false, vec![(-8_388_608, "-8388608"), (8_388_607, "8388607")]),
        (24, true, vec![(16_777_215, "16777215")]),
        (32, false, vec![(-2_147_483_648, "-2147483648"), (2_147_483_647, "2147483647")]),
        (32, true, vec![(4_294_967_295, "4294967295")]),
        (64, false, vec![(i64::MIN, "-9223372036854775808"), (i64::MAX, "9223372036854775807")]),
    ] {
        let native = integer(bits, unsigned);
        let target = declared(&native);
        round_trip(&database, native, target, values.into_iter().map(|(n, text)| (long(n), text)).collect()).await;
    }
    let unsigned = integer(64, true);
    let target = declared(&unsigned);
    assert_eq!(target.to_string(), "numeric(20,0)");
    let values = || vec![(decimal(0), "0"), (decimal(18_446_744_073_709_551_615), "18446744073709551615"), (decimal(10_000), "10000")];
    round_trip(&database, unsigned.clone(), target, values()).await;
    round_trip(&database, unsigned, Pg::BigInt, vec![(decimal(i128::from(i64::MAX)), "9223372036854775807")]).await;
    round_trip(&database, integer(8, false), Pg::Boolean, vec![(long(0), "false"), (long(1), "true")]).await;
    round_trip(&database, integer(32, false), Pg::Numeric { size: Some((12, 2)) }, vec![(long(-7), "-7.00"), (long(0), "0.00")]).await;
    round_trip(&database, mysql(My::Year), Pg::SmallInt, vec![(long(0), "0"), (long(1901), "1901"), (long(2155), "2155")]).await;
    round_trip(&database, Native::Postgres(Pg::Boolean), Pg::Boolean, vec![(boolean(true), "true"), (boolean(false), "false")]).await;
}

#[tokio::test]
async fn decimals_of_every_size_arrive_exactly() {
    let Some(database) = database().await else { return };
    let native = |precision: u8, scale: u8| mysql(My::Decimal { precision, scale, unsigned: false });
    let size = |p: u16, s: i16| Pg::Numeric { size: Some((p, s)) };
    let money = || {
        vec![
            (decimal(0), "0.00"),
            (decimal(1), "0.01"),
            (decimal(-1), "-0.01"),
            (decimal(100_000_000), "1000000.00"),
            (decimal(99_999), "999.99"),
            (decimal(123_456_789_012), "1234567890.12"),
            (decimal(-999_999_999_999), "-9999999999.99"),
            (decimal(10), "0.10"),
        ]
    };
    round_trip(&database, native(12, 2), size(12, 2), money()).await;
    round_trip(&database, native(5, 5), size(5, 5), vec![(decimal(1), "0.00001"), (decimal(-99_999), "-0.99999")]).await;
    round_trip(&database, native(10, 3), size(12, 4), vec![(decimal(1_234), "1.2340"), (decimal(-1), "-0.0010")]).await;
    let wide = [
        (12_345_678_901_234_567_890_123_456_789_012_345_678i128, "1234567890123456789012345678.9012345678"),
        (-1, "-0.0000000001"),
        (10_000_000_000, "1.0000000000"),
    ];
    round_trip(&database, native(38, 10), size(38, 10), wide.iter().map(|(n, t)| (decimal(*n), *t)).collect()).await;
    let deep = [(1i128, "0.000000000000000000000000000001"), (-(10i128.pow(30)), "-1.000000000000000000000000000000")];
    round_trip(&database, native(38, 30), size(38, 30), deep.iter().map(|(n, t)| (decimal(*n), *t)).collect()).await;
    // 65 nines, 35 of them before the point, and its negative: 27 bytes of two's complement.
    let nines = nines(65);
    let minus: Vec<u8> = negate(&nines);
    let text = format!("{}.{}", "9".repeat(35), "9".repeat(30));
    let negative = format!("-{text}");
    let put = |bytes: Vec<u8>| -> Put { Box::new(move |out| put_twos_complement(out, &bytes)) };
    round_trip(&database, native(65, 30), size(65, 30), vec![(put(nines), &text), (put(minus), &negative), (decimal(0), &zero(30))]).await;
    let numeric = Native::Postgres(Pg::Numeric { size: None });
    let texts = ["1.50", "-0.001", "0", "0.000", "123456789012345678901234567890.12345678901234567890", "NaN", "Infinity", "-Infinity"];
    round_trip(&database, numeric, Pg::Numeric { size: None }, texts.iter().map(|t| (string(t), *t)).collect()).await;
}

fn zero(scale: usize) -> String {
    format!("0.{}", "0".repeat(scale))
}

/// 10^digits - 1, big-endian with a leading zero byte.
fn nines(digits: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; 28];
    for _ in 0..digits {
        let mut carry = 9u32;
        for byte in bytes.iter_mut().rev() {
            let value = u32::from(*byte) * 10 + carry;
            *byte = value as u8;
            carry = value >> 8;
        }
    }
    bytes
}

fn negate(bytes: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = bytes.iter().map(|b| !b).collect();
    for byte in out.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    out
}

#[tokio::test]
async fn floats_arrive_bit_for_bit() {
    let Some(database) = database().await else { return };
    let single =
        [(0.1f32, "0.1"), (-0.0, "-0"), (f32::MAX, "3.4028235e+38"), (f32::NAN, "NaN"), (f32::INFINITY, "Infinity"), (1e-45, "1e-45")];
    let real = mysql(My::Float { unsigned: false, digits: None });
    round_trip(&database, real.clone(), Pg::Real, single.iter().map(|(n, t)| (float(*n), *t)).collect()).await;
    round_trip(&database, real, Pg::Double, vec![(float(0.5), "0.5")]).await;
    let twice =
        [(0.1f64, "0.1"), (-0.0, "-0"), (f64::MAX, "1.7976931348623157e+308"), (f64::NEG_INFINITY, "-Infinity"), (5e-324, "5e-324")];
    let native = mysql(My::Double { unsigned: false, digits: None });
    round_trip(&database, native.clone(), Pg::Double, twice.iter().map(|(n, t)| (double(*n), *t)).collect()).await;
    round_trip(&database, native.clone(), Pg::Real, vec![(double(0.5), "0.5")]).await;
    let (kind, text) = refused(&database, native, Pg::Real, double(0.1)).await;
    assert_eq!(kind, "bad value");
    assert!(text.contains("table shop.v, key id=7, column v: the number needs double precision"), "{text}");
}

#[tokio::test]
async fn text_arrives_as_it_is() {
    let Some(database) = database().await else { return };
    let texts = ["", " ", "a ", "NULL", "naïve 漢字 😀", "line\nbreak\ttab\\n\"'", "\\N", "\u{1}\u{7f}"];
    let values = || texts.iter().map(|t| (string(t), *t)).collect::<Vec<_>>();
    round_trip(&database, crate::support::text(), Pg::Text, values()).await;
    round_trip(&database, varchar(40), Pg::VarChar { length: Some(40) }, values()).await;
    round_trip(&database, varchar(40), Pg::VarChar { length: None }, values()).await;
    round_trip(&database, varchar(10), Pg::Char { length: 10 }, vec![(string("ab"), "ab"), (string("漢字"), "漢字")]).await;
    let labels = || vec!["small".to_owned(), "größer".to_owned()];
    let set = mysql(My::Set { labels: labels(), charset: charset() });
    round_trip(&database, set, Pg::Text, vec![(string(""), ""), (string("small,größer"), "small,größer")]).await;
    let choice = mysql(My::Enum { labels: labels(), charset: charset() });
    round_trip(&database, choice.clone(), Pg::Text, vec![(string(""), ""), (string("größer"), "größer")]).await;
    database.sql("CREATE SCHEMA IF NOT EXISTS shop; CREATE TYPE shop.\"Size\" AS ENUM ('small', 'größer')").await;
    let own = Pg::Enum { name: "shop.Size".into(), labels: labels() };
    round_trip(&database, choice.clone(), own.clone(), vec![(string("größer"), "größer")]).await;
    let (_, text) = refused(&database, choice, own, string("")).await;
    assert!(text.contains("not a label of the target's enum type"), "{text}");
    let document = r#"{"b": 1, "a": [1.0, 1e2, null], "b": 2}"#;
    round_trip(&database, mysql(My::Json), Pg::Json, vec![(string(document), document), (string("null"), "null")]).await;
    round_trip(&database, mysql(My::Json), Pg::Jsonb, vec![(string("[1, 2]"), "[1, 2]")]).await;
}

#[tokio::test]
async fn bytes_and_bits_arrive_as_they_are() {
    let Some(database) = database().await else { return };
    let blob = mysql(My::Blob { size: LobSize::Long, compressed: false });
    round_trip(&database, blob, Pg::Bytea, vec![(bytes(b""), "\\x"), (bytes(b"\0\xff'\\"), "\\x00ff275c")]).await;
    let fixed = mysql(My::Binary { length: 4 });
    round_trip(&database, fixed, Pg::Bytea, vec![(bytes(&[1, 0, 0, 0]), "\\x01000000")]).await;
    let bit = |length| mysql(My::Bit { length });
    round_trip(&database, bit(1), Pg::Bit { length: 1 }, vec![(bytes(&[0]), "0"), (bytes(&[1]), "1")]).await;
    round_trip(&database, bit(10), Pg::Bit { length: 10 }, vec![(bytes(&[2, 1]), "1000000001"), (bytes(&[0, 3]), "0000000011")]).await;
    let all = bytes(&[0xff; 8]);
    let sixty_four = "1".repeat(64);
    round_trip(&database, bit(64), Pg::Bit { length: 64 }, vec![(all, sixty_four.as_str())]).await;
    round_trip(&database, bit(10), Pg::VarBit { length: Some(12) }, vec![(bytes(&[2, 1]), "1000000001")]).await;
    let (_, text) = refused(&database, bit(10), Pg::Bit { length: 10 }, bytes(&[4, 0])).await;
    assert!(text.contains("not a bit string of 10 bits"), "{text}");
}

#[tokio::test]
async fn dates_and_times_arrive_to_the_microsecond() {
    let Some(database) = database().await else { return };
    let day = |n: i64| long(n);
    let dates = vec![(day(0), "1970-01-01"), (day(-719_162), "0001-01-01"), (day(2_932_896), "9999-12-31"), (day(11_016), "2000-02-29")];
    round_trip(&database, mysql(My::Date), Pg::Date, dates).await;
    let ancient = vec![(day(-719_163), "0001-12-31 BC"), (day(-2_440_588), "4714-11-24 BC")];
    round_trip(&database, Native::Postgres(Pg::Date), Pg::Date, ancient).await;
    let spans = vec![
        (long(3_020_399_000_000), "838:59:59"),
        (long(-3_020_399_000_000), "-838:59:59"),
        (long(-1), "-00:00:00.000001"),
        (long(0), "00:00:00"),
        (long(86_400_000_000), "24:00:00"),
    ];
    round_trip(&database, mysql(My::Time { precision: 6 }), Pg::Interval { precision: 6 }, spans).await;
    let clock = vec![(long(0), "00:00:00"), (long(86_399_999_999), "23:59:59.999999"), (long(86_400_000_000), "24:00:00")];
    round_trip(&database, mysql(My::Time { precision: 6 }), Pg::Time { precision: 6 }, clock).await;
    let second = 1_000_000;
    let walls = vec![
        (long(0), "1970-01-01 00:00:00"),
        (long(-1), "1969-12-31 23:59:59.999999"),
        (long(-62_135_596_800 * second), "0001-01-01 00:00:00"),
        (long(253_402_300_800 * second - 1), "9999-12-31 23:59:59.999999"),
    ];
    round_trip(&database, mysql(My::DateTime { precision: 6 }), Pg::Timestamp { precision: 6 }, walls).await;
    let whole = vec![(long(1_700_000_000 * second), "2023-11-14 22:13:20")];
    round_trip(&database, mysql(My::DateTime { precision: 6 }), Pg::Timestamp { precision: 0 }, whole).await;
    let instants = vec![(long(second), "1970-01-01 00:00:01+00"), (long(2_147_483_647 * second), "2038-01-19 03:14:07+00")];
    round_trip(&database, mysql(My::Timestamp { precision: 0 }), Pg::TimestampTz { precision: 0 }, instants).await;
}

#[tokio::test]
async fn identifiers_and_addresses_arrive_as_values() {
    let Some(database) = database().await else { return };
    let uuid = "123e4567-e89b-12d3-a456-426614174000";
    round_trip(&database, mysql(My::Uuid), Pg::Uuid, vec![(string(uuid), uuid)]).await;
    round_trip(&database, mysql(My::Uuid), Pg::Text, vec![(string(uuid), uuid)]).await;
    let addresses = vec![(string("::"), "::/128"), (string("2001:db8::ff00:42:8329"), "2001:db8::ff00:42:8329/128")];
    round_trip(&database, mysql(My::Inet6), Pg::Inet, addresses).await;
    round_trip(&database, mysql(My::Inet4), Pg::Inet, vec![(string("192.168.0.1"), "192.168.0.1/32")]).await;
    round_trip(&database, Native::Postgres(Pg::Cidr), Pg::Cidr, vec![(string("10.0.0.0/8"), "10.0.0.0/8")]).await;
    let (_, text) = refused(&database, mysql(My::Uuid), Pg::Uuid, string("12")).await;
    assert!(text.contains("not a valid UUID"), "{text}");
}

#[tokio::test]
async fn values_mapped_to_text_are_printed_exactly() {
    let Some(database) = database().await else { return };
    let to_text = || Pg::VarChar { length: Some(40) };
    round_trip(&database, integer(64, false), to_text(), vec![(long(i64::MIN), "-9223372036854775808"), (long(0), "0")]).await;
    let price = mysql(My::Decimal { precision: 10, scale: 2, unsigned: false });
    round_trip(&database, price, to_text(), vec![(decimal(-5), "-0.05"), (decimal(12_345), "123.45"), (decimal(0), "0.00")]).await;
    round_trip(&database, mysql(My::Date), to_text(), vec![(long(19_000), "2022-01-08")]).await;
    round_trip(&database, Native::Postgres(Pg::Time { precision: 6 }), to_text(), vec![(long(5), "00:00:00.000005")]).await;
    let wall = vec![(long(1_500_000), "1970-01-01 00:00:01.5")];
    round_trip(&database, mysql(My::DateTime { precision: 6 }), to_text(), wall).await;
    let instant = vec![(long(1_500_000), "1970-01-01 00:00:01.5+00")];
    round_trip(&database, mysql(My::Timestamp { precision: 6 }), to_text(), instant).await;
}

#[tokio::test]
async fn what_the_target_would_bend_or_refuse_stops_before_it_leaves() {
    let Some(database) = database().await else { return };
    let price = || mysql(My::Decimal { precision: 20, scale: 6, unsigned: false });
    let size = |p, s| Pg::Numeric { size: Some((p, s)) };
    let stamp = || mysql(My::DateTime { precision: 6 });
    let cases: Vec<(Native, Pg, Put, &str)> = vec![
        (varchar(20), Pg::Text, string("a\0b"), "NUL byte"),
        (varchar(20), Pg::VarChar { length: Some(3) }, string("four"), "longer than the target's 3 characters"),
        // PostgreSQL would cut the blank without a word.
        (varchar(20), Pg::VarChar { length: Some(3) }, string("abc "), "longer than the target's 3 characters"),
        (varchar(20), Pg::Char { length: 2 }, string("漢字漢"), "longer than the target's 2 characters"),
        (integer(32, false), Pg::SmallInt, long(32_768), "out of range for the target's 2-byte integer"),
        (integer(64, false), Pg::Integer, long(-2_147_483_649), "out of range for the target's 4-byte integer"),
        (integer(64, true), Pg::BigInt, decimal(1 << 63), "out of range for the target's 8-byte integer"),
        (integer(8, false), Pg::Boolean, long(2), "neither 0 nor 1"),
        (integer(64, false), size(3, 0), long(1_000), "more than the 3 digits before the point"),
        // PostgreSQL would round these.
        (price(), size(9, 2), decimal(1_005_000), "more than the 2 digits behind the point"),
        (price(), size(9, 2), decimal(12_345_678_000_000), "more than the 7 digits before the point"),
        (price(), size(3, -2), decimal(150_000_000), "more than the -2 digits behind the point"),
        (mysql(My::Time { precision: 6 }), Pg::Time { precision: 0 }, long(86_399_600_000), "fraction finer"),
        (mysql(My::Time { precision: 6 }), Pg::Interval { precision: 3 }, long(1_001), "fraction finer"),
        (mysql(My::Time { precision: 0 }), Pg::Time { precision: 0 }, long(-1_000_000), "outside 00:00:00 to 24:00:00"),
        (stamp(), Pg::Timestamp { precision: 3 }, long(1_500_001), "fraction finer"),
        (stamp(), Pg::Timestamp { precision: 6 }, long(-62_135_596_800_000_001), "before the year 1"),
        (mysql(My::Date), Pg::Date, long(-719_163), "before the year 1"),
        (Native::Postgres(Pg::Date), Pg::Date, long(2_145_042_906), "outside PostgreSQL's range"),
        (varchar(20), Pg::Json, string("{\"a\":"), "not a valid JSON text"),
        (Native::Postgres(Pg::Numeric { size: None }), size(5, 2), string("1.005"), "more than the 2 digits behind the point"),
        (Native::Postgres(Pg::Numeric { size: None }), size(5, 2), string("Infinity"), "not a number in plain notation"),
        (varchar(20), Pg::Text, bytes(b"\xff"), "not what its schema version says"),
    ];
    for (source, target, put, problem) in cases {
        let what = format!("{source:?} into {target}");
        let (kind, text) = refused(&database, source, target, put).await;
        assert!(text.contains(problem), "{what}: {text}");
        assert!(text.contains("table shop.v, key id=7, column v:"), "{what}: {text}");
        assert_eq!(kind, if problem.contains("schema version") { "stop" } else { "bad value" }, "{what}");
    }
}

#[tokio::test]
async fn null_into_a_not_null_column_stops() {
    let Some(database) = database().await else { return };
    let mut narrow = version("v", &[("id", int(), Pg::Integer, false), ("v", int(), Pg::Integer, true)], &["id"]);
    std::sync::Arc::get_mut(&mut narrow).unwrap().target.columns[1].nullable = false;
    create(&database, &narrow).await;
    let mut writer = database.target.writer().await.unwrap();
    let record = row(7, None);
    let error = write(&mut writer, &narrow, 0, vec![upsert(&record[..1], &record)]).await.unwrap_err();
    assert!(error.to_string().contains("table shop.v, key id=7, column v: NULL, but the target column is NOT NULL"), "{error}");
}

#[tokio::test]
async fn text_is_cut_only_where_the_configuration_allows_it() {
    let Some(mut database) = database().await else { return };
    let version = version("v", &[("id", int(), Pg::Integer, false), ("v", varchar(20), Pg::VarChar { length: Some(3) }, true)], &["id"]);
    create(&database, &version).await;
    database.config.defaults.allow_truncation = true;
    let target = sink::postgres::PostgresTarget::new("shop", &database.config).unwrap();
    let mut writer = target.writer().await.unwrap();
    let record = row(1, Some(&string("漢字漢字")));
    write(&mut writer, &version, 0, vec![upsert(&record[..1], &record)]).await.unwrap();
    assert_eq!(database.one("SELECT v FROM shop.v").await, "漢字漢");
}

#[tokio::test]
async fn a_type_without_an_exact_way_is_refused_by_name() {
    let Some(database) = database().await else { return };
    for (source, target) in [
        (mysql(My::Double { unsigned: false, digits: None }), Pg::Text),
        (varchar(5), Pg::Integer),
        (mysql(My::Bit { length: 3 }), Pg::Bit { length: 4 }),
        (varchar(5), Pg::Array { element: Box::new(Pg::Text), dimensions: 1 }),
        (varchar(5), Pg::Other { name: "point".into() }),
    ] {
        let (kind, text) = refused(&database, source, target.clone(), long(1)).await;
        assert_eq!(kind, "stop");
        assert!(text.contains("table shop.v: column v:") && text.contains("cannot be written to"), "{target}: {text}");
    }
}
