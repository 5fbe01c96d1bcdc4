//! Whether rows are of the topics that the schema versions name.
//!
//! The client library looks up a topic by its name again when the broker does not know it any more, and reads on at the same offset
//! of whatever is there by then. An identity never comes back. So where a look that began after rows were fetched still finds it,
//! they were its rows.

use std::sync::Arc;

use tokio::sync::watch;

use super::{topic::Topic, topics::Looked};
use crate::{consumer::Proof, error::SinkError};

pub struct KafkaProof {
    /// With the identity that each must have.
    pub(super) topics: Vec<(Arc<Topic>, Arc<str>)>,
    /// The first look that began later than the rows were fetched.
    pub(super) number: u64,
    pub(super) looked: watch::Receiver<Looked>,
}

impl Proof for KafkaProof {
    async fn holds(&self) -> Result<bool, SinkError> {
        let mut looked = self.looked.clone();
        let answer = looked.wait_for(|looked| looked.number >= self.number).await.map(|looked| looked.failed.clone());
        match answer.unwrap_or_else(|_| Some("the consumer has ended".into())) {
            Some(reason) => Err(SinkError::Transient(reason)),
            None => Ok(self.topics.iter().all(|(topic, id)| topic.is(id))),
        }
    }
}
