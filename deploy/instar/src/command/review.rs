//! `instar review`: cards of held tables, and their decisions.

use super::{load, named_sink, table};
use crate::{
    cli::{Review, ReviewTable},
    exit::{Exit, Failure},
};

pub async fn run(args: Review) -> Result<Exit, Failure> {
    match args {
        Review::List(list) => {
            load(&list.file)?;
        }
        Review::Show(review) | Review::Keep(review) => check(&review)?,
        Review::Approve(approve) => check(&approve.review)?,
    }
    Err(Failure::not_built("instar review"))
}

fn check(review: &ReviewTable) -> Result<(), Failure> {
    let pipeline = load(&review.file)?;
    table(&pipeline, &review.table)?;
    review.sink.as_deref().map(|name| named_sink(&pipeline, name)).transpose()?;
    Ok(())
}
