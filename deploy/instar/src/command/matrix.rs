//! `instar matrix`: the rules as a table.

use schemas::matrix;

use crate::{
    cli::Matrix,
    exit::{Exit, Failure},
    output,
};

pub fn run(args: Matrix) -> Result<Exit, Failure> {
    if args.output.json {
        output::print_json(&matrix::json())?;
    } else {
        output::print(&matrix::text())?;
    }
    Ok(Exit::Fine)
}
