use std::path::PathBuf;

use super::*;

/// Compares with a committed file; `INSTAR_UPDATE_SNAPSHOTS=1` writes it anew.
fn compare(file: &str, now: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("contract").join(file);
    if std::env::var_os("INSTAR_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == now, "{} is not what the rules say now; INSTAR_UPDATE_SNAPSHOTS=1 writes it anew", path.display());
}

#[test]
fn the_committed_print_is_what_the_rules_say() {
    compare("matrix.txt", &text());
}

#[test]
fn every_source_kind_and_target_has_one_row() {
    let rows = rows();
    assert_eq!(rows.len(), Source::ALL.len() * Kind::ALL.len() * Capabilities::ALL.len());
    let mut seen: Vec<_> = rows.iter().map(|row| (row.source, row.kind, row.target)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), rows.len());
    for row in &rows {
        assert!(["applied", "nothing_to_apply", "held", "stopped"].contains(&row.outcome), "{row:?}");
    }
}

#[test]
fn a_sample_is_of_the_kind_that_it_stands_for() {
    for source in Source::ALL {
        for kind in Kind::ALL {
            for sample in samples(source, kind) {
                assert_eq!(sample.change.kind(), kind);
            }
        }
    }
}

fn outcome(source: &str, kind: Kind, target: &str) -> String {
    let found: Vec<String> = rows()
        .into_iter()
        .filter(|row| row.source == source && row.kind == kind.name() && row.target == target)
        .map(|row| row.outcome.to_owned())
        .collect();
    assert_eq!(found.len(), 1, "{source} {kind} {target}");
    found[0].clone()
}

#[test]
fn mysql_to_postgres_is_as_the_design_has_it() {
    for kind in Kind::ALL {
        let expected = match kind {
            Kind::AddColumnNullable
            | Kind::AddColumnConstantDefault
            | Kind::AddColumnImplicitDefault
            | Kind::DropColumn
            | Kind::RenameColumn
            | Kind::Lengthen
            | Kind::Shorten
            | Kind::WidenInteger
            | Kind::ChangeDecimal
            | Kind::SetNotNull
            | Kind::DropNotNull
            | Kind::TruncateTable => "applied",
            Kind::AppendEnumLabels
            | Kind::ChangeDefault
            | Kind::ChangeComment
            | Kind::ReorderColumn
            | Kind::ChangeIndex
            | Kind::ChangeConstraint
            | Kind::CreateTable => "nothing_to_apply",
            Kind::DropKeyColumn | Kind::RenameKeyColumn | Kind::ChangeKey => "held",
            Kind::AddColumnVolatileDefault
            | Kind::AddColumnGenerated
            | Kind::ChangeKeyDecimal
            | Kind::ChangeEnumLabels
            | Kind::ChangeSignedness
            | Kind::ChangeType
            | Kind::ChangeCharset
            | Kind::ChangeCollation
            | Kind::ChangeIdentity
            | Kind::ChangeGenerated
            | Kind::ChangeStorage
            | Kind::DropTable
            | Kind::RenameTable
            | Kind::MovePartition
            | Kind::TruncatePartition
            | Kind::ReplaceRows
            | Kind::Unknown => "stopped",
        };
        assert_eq!(outcome("mysql", kind, "postgres"), expected, "{kind}");
    }
}

#[test]
fn targets_differ_where_they_can_do_less() {
    for (kind, target, expected) in [
        (Kind::ChangeDecimal, "clickhouse", "held"),
        (Kind::Lengthen, "clickhouse", "nothing_to_apply"),
        (Kind::SetNotNull, "clickhouse", "held"),
        (Kind::AddColumnConstantDefault, "clickhouse", "applied"),
        (Kind::AddColumnConstantDefault, "fabric", "held"),
        (Kind::DropColumn, "fabric", "held"),
        (Kind::TruncateTable, "fabric", "stopped"),
        (Kind::RenameColumn, "odbc-timesten", "held"),
        (Kind::Shorten, "odbc-db2", "held"),
        (Kind::ChangeDecimal, "mysql", "applied"),
        (Kind::AppendEnumLabels, "mysql", "applied"),
        (Kind::RenameColumn, "topic", "nothing_to_apply"),
        (Kind::ChangeKey, "topic", "held"),
    ] {
        assert_eq!(outcome("mysql", kind, target), expected, "{kind} on {target}");
    }
    assert_eq!(outcome("odbc", Kind::RenameColumn, "postgres"), "held");
}

#[test]
fn json_has_the_five_fields() {
    let json = json();
    let first = &json[0];
    let mut keys: Vec<&String> = first.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["kind", "note", "outcome", "source", "target"]);
}
