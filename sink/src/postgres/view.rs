//! Names and types of a source table on this target, as the configuration says.

use runtime::config::Sink;
use schemas::{
    native::{Native, postgres},
    table::TableId,
    view::View,
};

use crate::error::SinkError;

/// Column lists are the source's: what it publishes is carried whole.
///
/// # Errors
///
/// A type of `type_map` that PostgreSQL does not have.
pub fn view(sink: &Sink, table: &TableId) -> Result<View, SinkError> {
    let config = sink.table(table);
    let namespace = sink.schema.as_ref().unwrap_or(&table.namespace);
    let name = config.rename.as_ref().unwrap_or(&table.name);
    let mut view = View::plain(TableId::new(namespace, name));
    view.columns.clone_from(&config.columns);
    for (of, declaration) in &config.type_map {
        let native = postgres::Native::parse(declaration).map_err(|error| {
            SinkError::Refused(format!("sinks.{}: type_map of table {table}, `{of}: {declaration}`: {error}", sink.name))
        })?;
        // A source type is looked up in lower case, a column as it is written.
        view.types.insert(of.to_lowercase(), Native::Postgres(native.clone()));
        view.types.insert(of.clone(), Native::Postgres(native));
    }
    Ok(view)
}
