//! What each target can do to a table, as data. [`crate::rules`] is the only reader that judges.
//!
//! "Exact" means the same change with the same effect: all or nothing, rounding as the source rounds, no default left behind.

use crate::{
    native::{Native, Unsupported, postgres},
    table::Column,
    view::Declare,
};

/// Whether a target makes one sort of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Can {
    /// The same change with the same effect.
    Exact,
    /// The target has nothing that would change.
    Nothing(&'static str),
    /// It cannot: the table is held.
    Held(&'static str),
    /// It cannot, and nothing behind it may go on.
    Stopped(&'static str),
}

/// Which changes of precision and scale a target makes exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecimalRule {
    /// Any; values are rounded half away from zero, and one that does not fit fails the whole change.
    Any,
    /// Only without loss of digits on either side of the point.
    Grow(&'static str),
    /// Only more digits before the point, the scale staying.
    PrecisionOnly(&'static str),
    /// Only more digits before the point, up to the same upper bound of storage.
    SameStorage {
        bounds: &'static [u16],
        why: &'static str,
    },
    Never(&'static str),
    /// The target has no sizes.
    Nothing(&'static str),
}

impl DecimalRule {
    /// Precision and scale before and after.
    pub fn judge(self, before: (u16, i16), after: (u16, i16)) -> Can {
        let whole = |size: (u16, i16)| i32::from(size.0) - i32::from(size.1);
        let grows = whole(after) >= whole(before) && after.1 >= before.1;
        let exact_if = |exact: bool, why| if exact { Can::Exact } else { Can::Held(why) };
        match self {
            DecimalRule::Any => Can::Exact,
            DecimalRule::Grow(why) => exact_if(grows, why),
            DecimalRule::PrecisionOnly(why) => exact_if(grows && after.1 == before.1, why),
            DecimalRule::SameStorage { bounds, why } => {
                let storage = |size: (u16, i16)| bounds.iter().position(|bound| size.0 <= *bound);
                exact_if(grows && after.1 == before.1 && storage(before) == storage(after), why)
            }
            DecimalRule::Never(why) => Can::Held(why),
            DecimalRule::Nothing(why) => Can::Nothing(why),
        }
    }
}

/// What a length of a name is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Characters,
}

/// Which column names a target takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameRule {
    pub limit: usize,
    pub unit: Unit,
    /// Names that differ in case alone are one name.
    pub folds_case: bool,
    /// Names that the target or its sink keeps for itself.
    pub taken: &'static [&'static str],
    /// A name may end in a blank.
    pub trailing_blank: bool,
}

impl NameRule {
    /// Why the target cannot have anything of this name: it is too long.
    pub fn too_long(&self, name: &str) -> Option<String> {
        let length = match self.unit {
            Unit::Bytes => name.len(),
            Unit::Characters => name.chars().count(),
        };
        let unit = match self.unit {
            Unit::Bytes => "bytes",
            Unit::Characters => "characters",
        };
        (length > self.limit).then(|| format!("the name `{name}` has {length} {unit} and the target allows {} {unit}", self.limit))
    }

    /// Why the target cannot have a column of this name.
    pub fn refuse(&self, name: &str) -> Option<String> {
        if let Some(why) = self.too_long(name) {
            return Some(why);
        }
        if self.taken.iter().any(|taken| self.same(taken, name)) {
            return Some(format!("the name `{name}` collides with one that the target keeps for itself"));
        }
        if !self.trailing_blank && name.ends_with(' ') {
            return Some(format!("the name `{name}` ends in a blank, which the target refuses"));
        }
        None
    }

    /// Whether two names are one on the target.
    pub fn same(&self, a: &str, b: &str) -> bool {
        if self.folds_case { a.to_lowercase() == b.to_lowercase() } else { a == b }
    }
}

/// One target's part of the rules.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// As the matrix prints it.
    pub target: &'static str,
    pub names: NameRule,
    /// The type table; None: the target is not built yet, and no type is judged.
    pub declare: Option<Declare>,
    /// Statements of a plan are one transaction.
    pub transactional_ddl: bool,
    /// Nullable, existing rows NULL.
    pub add_column: Can,
    /// Existing rows get a constant; no default remains.
    pub add_constant: Can,
    pub drop_column: Can,
    pub rename_column: Can,
    /// Two columns exchange names in one step.
    pub swap_names: Can,
    pub lengthen: Can,
    pub shorten: Can,
    pub widen_integer: Can,
    pub widen_key_integer: Can,
    pub decimal: DecimalRule,
    pub append_labels: Can,
    pub set_not_null: Can,
    pub drop_not_null: Can,
    pub truncate: Can,
    /// Drop the key and make another; only asked where the policy says so.
    pub change_key: Can,
}

impl Capabilities {
    /// Every target of the mission. ODBC has a row per dialect, and `odbc` for a driver without an entry.
    pub const ALL: [&'static Capabilities; 14] = [
        &POSTGRES,
        &MYSQL,
        &SQLSERVER,
        &ODBC,
        &ORACLE,
        &DB2,
        &SYBASE,
        &TERADATA,
        &TIMESTEN,
        &SNOWFLAKE,
        &SQLITE,
        &CLICKHOUSE,
        &FABRIC,
        &TOPIC,
    ];

    pub fn of(target: &str) -> Option<&'static Capabilities> {
        Capabilities::ALL.into_iter().find(|capabilities| capabilities.target == target)
    }
}

fn declare_postgres(column: &Column) -> Result<Native, Unsupported> {
    postgres::declare(column).map(Native::Postgres)
}

const TEXT_LABELS: Can = Can::Nothing("labels are text on the target");
const NO_KEY_CHANGE: Can = Can::Held("the target's key is changed by hand");

/// A name rule without own names.
const fn names(limit: usize, unit: Unit, folds_case: bool) -> NameRule {
    NameRule { limit, unit, folds_case, taken: &[], trailing_blank: true }
}

/// A relational target that makes every change of the rules exactly.
const RELATIONAL: Capabilities = Capabilities {
    target: "",
    names: names(128, Unit::Characters, true),
    declare: None,
    transactional_ddl: false,
    add_column: Can::Exact,
    add_constant: Can::Exact,
    drop_column: Can::Exact,
    rename_column: Can::Exact,
    swap_names: Can::Exact,
    lengthen: Can::Exact,
    shorten: Can::Exact,
    widen_integer: Can::Exact,
    widen_key_integer: Can::Exact,
    decimal: DecimalRule::Any,
    append_labels: TEXT_LABELS,
    set_not_null: Can::Exact,
    drop_not_null: Can::Exact,
    truncate: Can::Exact,
    change_key: NO_KEY_CHANGE,
};

pub static POSTGRES: Capabilities = Capabilities {
    target: "postgres",
    names: NameRule {
        // The system columns of every table.
        taken: &["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"],
        ..names(63, Unit::Bytes, false)
    },
    declare: Some(declare_postgres),
    transactional_ddl: true,
    change_key: Can::Exact,
    ..RELATIONAL
};

pub static MYSQL: Capabilities = Capabilities {
    target: "mysql",
    names: NameRule { trailing_blank: false, ..names(64, Unit::Characters, true) },
    append_labels: Can::Exact,
    ..RELATIONAL
};

pub static SQLSERVER: Capabilities = Capabilities {
    target: "sqlserver",
    names: names(128, Unit::Characters, true),
    transactional_ddl: true,
    widen_key_integer: Can::Held("SQL Server does not alter the type of a primary key column"),
    ..RELATIONAL
};

pub static ORACLE: Capabilities = Capabilities {
    target: "odbc-oracle",
    names: names(30, Unit::Bytes, false),
    decimal: DecimalRule::Grow("Oracle changes the scale or takes digits away in an empty column only"),
    ..RELATIONAL
};

pub static DB2: Capabilities = Capabilities {
    target: "odbc-db2",
    names: names(128, Unit::Bytes, false),
    transactional_ddl: true,
    shorten: Can::Held("Db2 cuts values without a word when a column gets shorter"),
    decimal: DecimalRule::Grow("Db2 cuts digits without a word when a decimal loses scale"),
    ..RELATIONAL
};

pub static TERADATA: Capabilities = Capabilities {
    target: "odbc-teradata",
    shorten: Can::Held("Teradata does not make a column shorter"),
    widen_integer: Can::Held("Teradata does not change a type where stored values would change"),
    widen_key_integer: Can::Held("Teradata does not change the type of an index column"),
    decimal: DecimalRule::SameStorage { bounds: &[2, 4, 9, 18, 38], why: "Teradata changes a decimal only inside one size of storage" },
    set_not_null: Can::Held("Teradata changes nullability in few cases only"),
    drop_not_null: Can::Held("Teradata changes nullability in few cases only"),
    ..RELATIONAL
};

const TIMESTEN_FIXED: Can = Can::Held("TimesTen changes no name, type or nullability of a column");

pub static TIMESTEN: Capabilities = Capabilities {
    target: "odbc-timesten",
    names: names(30, Unit::Bytes, true),
    add_constant: Can::Held("the default that fills the rows cannot be taken away again on TimesTen"),
    rename_column: TIMESTEN_FIXED,
    swap_names: TIMESTEN_FIXED,
    lengthen: TIMESTEN_FIXED,
    shorten: TIMESTEN_FIXED,
    widen_integer: TIMESTEN_FIXED,
    widen_key_integer: TIMESTEN_FIXED,
    decimal: DecimalRule::Never("TimesTen changes no name, type or nullability of a column"),
    set_not_null: TIMESTEN_FIXED,
    drop_not_null: TIMESTEN_FIXED,
    ..RELATIONAL
};

const ONE_INTEGER: Can = Can::Nothing("the target has one integer type");

pub static SNOWFLAKE: Capabilities = Capabilities {
    target: "odbc-snowflake",
    names: names(255, Unit::Characters, false),
    add_constant: Can::Held("a default that came with ADD COLUMN cannot be taken away again on Snowflake"),
    shorten: Can::Held("Snowflake does not make a column shorter"),
    widen_integer: ONE_INTEGER,
    widen_key_integer: ONE_INTEGER,
    decimal: DecimalRule::PrecisionOnly("Snowflake changes no scale and takes no digits away"),
    ..RELATIONAL
};

const NO_NULLABILITY: Can = Can::Held("SQLite changes no nullability");
const NO_SIZES: Can = Can::Nothing("SQLite's types have no sizes");

pub static SQLITE: Capabilities = Capabilities {
    target: "odbc-sqlite",
    names: names(1000, Unit::Characters, true),
    transactional_ddl: true,
    add_constant: Can::Held("the default that fills the rows cannot be taken away again on SQLite"),
    lengthen: NO_SIZES,
    shorten: Can::Held("SQLite's types have no sizes: values that the source cut would stay whole"),
    widen_integer: NO_SIZES,
    widen_key_integer: NO_SIZES,
    decimal: DecimalRule::Never("SQLite's types have no sizes: values that the source rounded would stay as they are"),
    set_not_null: NO_NULLABILITY,
    drop_not_null: NO_NULLABILITY,
    ..RELATIONAL
};

/// Sybase ASE.
pub static SYBASE: Capabilities = Capabilities {
    target: "odbc-sybase",
    names: names(255, Unit::Bytes, false),
    shorten: Can::Held("it is not known that Sybase ASE refuses to cut values when a column gets shorter"),
    decimal: DecimalRule::Grow("it is not known how Sybase ASE rounds when a decimal loses digits"),
    ..RELATIONAL
};

/// A driver whose dialect is not known: only what every SQL database does alike.
pub static ODBC: Capabilities = Capabilities {
    target: "odbc",
    names: names(30, Unit::Bytes, true),
    add_constant: Can::Held("it is not known that this dialect can take the filling default away again"),
    rename_column: Can::Held("it is not known how this dialect renames a column"),
    swap_names: Can::Held("it is not known how this dialect renames a column"),
    lengthen: Can::Held("it is not known how this dialect changes a type"),
    shorten: Can::Held("it is not known how this dialect changes a type"),
    widen_integer: Can::Held("it is not known how this dialect changes a type"),
    widen_key_integer: Can::Held("it is not known how this dialect changes a type"),
    decimal: DecimalRule::Never("it is not known how this dialect changes a type"),
    set_not_null: Can::Held("it is not known how this dialect changes nullability"),
    drop_not_null: Can::Held("it is not known how this dialect changes nullability"),
    ..RELATIONAL
};

const ONE_STRING: Can = Can::Nothing("the target's string type has no length");

pub static CLICKHOUSE: Capabilities = Capabilities {
    target: "clickhouse",
    names: NameRule { taken: &["_version", "is_deleted", "_seq"], ..names(255, Unit::Bytes, false) },
    swap_names: Can::Held("ClickHouse exchanges no names in one step"),
    lengthen: ONE_STRING,
    shorten: ONE_STRING,
    widen_key_integer: Can::Held("a column of the sorting key cannot change its type"),
    decimal: DecimalRule::Grow("ClickHouse cuts digits where the source rounds"),
    set_not_null: Can::Held("ClickHouse converts replaced versions of a row too, and their NULLs would make it fail for ever"),
    change_key: Can::Held("a sorting key cannot be changed"),
    ..RELATIONAL
};

const FIXED_TYPES: Can = Can::Held("the mirror takes no change of a column's type");
const ALL_NULLABLE: Can = Can::Nothing("every column outside the key is nullable on the target");

pub static FABRIC: Capabilities = Capabilities {
    target: "fabric",
    names: NameRule { taken: &["__rowMarker__"], ..names(255, Unit::Characters, true) },
    add_constant: Can::Held("the mirror gives existing rows NULL in an added column"),
    drop_column: Can::Held("the mirror keeps a dropped column until the table is built anew"),
    rename_column: Can::Held("the mirror sees a rename as a drop and an add"),
    swap_names: Can::Held("the mirror sees a rename as a drop and an add"),
    lengthen: ONE_STRING,
    shorten: ONE_STRING,
    widen_integer: FIXED_TYPES,
    widen_key_integer: FIXED_TYPES,
    decimal: DecimalRule::Never("the mirror takes no change of a column's type"),
    set_not_null: ALL_NULLABLE,
    drop_not_null: ALL_NULLABLE,
    truncate: Can::Stopped("no marker of the mirror empties a table"),
    change_key: Can::Held("the mirror's key columns cannot be changed"),
    ..RELATIONAL
};

const NEXT_VERSION: Can = Can::Nothing("rows carry the next schema version from here on");

/// A reader of the topics themselves.
pub static TOPIC: Capabilities = Capabilities {
    target: "topic",
    names: names(usize::MAX, Unit::Characters, false),
    declare: None,
    transactional_ddl: true,
    add_column: NEXT_VERSION,
    add_constant: NEXT_VERSION,
    drop_column: NEXT_VERSION,
    rename_column: NEXT_VERSION,
    swap_names: NEXT_VERSION,
    lengthen: NEXT_VERSION,
    shorten: NEXT_VERSION,
    widen_integer: NEXT_VERSION,
    widen_key_integer: NEXT_VERSION,
    decimal: DecimalRule::Nothing("rows carry the next schema version from here on"),
    append_labels: NEXT_VERSION,
    set_not_null: NEXT_VERSION,
    drop_not_null: NEXT_VERSION,
    truncate: Can::Exact,
    change_key: NEXT_VERSION,
};
