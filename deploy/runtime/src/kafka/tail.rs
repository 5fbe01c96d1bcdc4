//! Reads a topic of one partition to its end, again and again.

use std::time::{Duration, Instant};

use super::{
    Cluster, KafkaError,
    lane::{Lane, Reader},
};

/// Bytes taken at a time.
const PART: usize = 1 << 20;
/// How long the broker may take to give what it said it has.
const PATIENCE: Duration = Duration::from_secs(30);
/// How far before the end the newest record is looked for first.
const NEAR: u64 = 64;

/// One topic, with the reading of it where it was left.
pub struct Tail {
    reader: Reader,
    cluster: Option<Cluster>,
    topic: String,
    lane: Option<Lane>,
    /// Where the lane's next record is.
    next: u64,
    /// The record before `next`, once it was looked for.
    newest: Option<Vec<u8>>,
    news: std::sync::Arc<dyn Fn() + Send + Sync>,
}

impl Tail {
    /// `news` is called when there may be something new behind what was read.
    pub fn new(reader: Reader, topic: impl Into<String>, news: impl Fn() + Send + Sync + 'static) -> Self {
        Self { reader, cluster: None, topic: topic.into(), lane: None, next: 0, newest: None, news: std::sync::Arc::new(news) }
    }

    /// Asks for the end over a connection where no answer to a fetch is waited for: a broker answers one after the other.
    #[must_use]
    pub fn asking(mut self, cluster: Cluster) -> Self {
        self.cluster = Some(cluster);
        self
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Calls `each` with every committed record from `from` to the end as it is when the call begins, or further; returns the offset
    /// to read from next.
    ///
    /// # Errors
    ///
    /// `Absent` where the topic begins behind `from`, or ends before it: records are gone.
    pub fn read<E: From<KafkaError>>(&mut self, from: u64, each: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<u64, E> {
        self.read_to(from, 0, each)
    }

    /// The same to `goal` at least, which is known to be written: what this process has just committed can be read a moment later only,
    /// when its marker is there.
    pub fn read_to<E: From<KafkaError>>(
        &mut self,
        from: u64,
        goal: u64,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let (low, end) = self.bounds(from)?;
        let end = end.max(goal);
        if from < low || from > end {
            return Err(self.absent(from, low, end).into());
        }
        // Not in the middle where the call before ended with an error.
        let begun = std::mem::replace(&mut self.next, u64::MAX);
        if self.lane.is_none() || begun != from {
            self.lane = None;
            let news = self.news.clone();
            self.lane = Some(self.reader.lane(&self.topic, 0, from, move || news())?);
        }
        let deadline = Instant::now() + PATIENCE;
        let mut at = from;
        while let Some(lane) = &self.lane {
            // Also where nothing new is known of: only a queue that was empty tells of what comes next.
            let wait = if at < end { Duration::from_millis(100) } else { Duration::ZERO };
            let taken = lane.take(PART, wait)?;
            for message in taken.messages() {
                if let Some(value) = message.value() {
                    each(message.offset(), value)?;
                }
            }
            at = at.max(taken.behind().unwrap_or(0));
            if wait.is_zero() && taken.messages().is_empty() {
                break;
            }
            if taken.messages().is_empty() && Instant::now() >= deadline {
                let text = format!("topic {}: the broker does not give what lies from {at} to {end}", self.topic);
                return Err(KafkaError::Transient(text).into());
            }
        }
        self.next = at;
        Ok(at)
    }

    /// First and end offset as they are now; a lane that is read from there says by itself where its first records are gone.
    fn bounds(&self, from: u64) -> Result<(u64, u64), KafkaError> {
        match &self.cluster {
            Some(cluster) if self.lane.is_some() && self.next == from => {
                let ends = cluster.committed(&self.topic, 1)?;
                Ok((0, ends.first().copied().unwrap_or(0)))
            }
            Some(_) | None => self.reader.bounds(&self.topic, 0),
        }
    }

    /// The newest committed record: found from the end backwards, then by reading on.
    pub fn newest(&mut self) -> Result<Option<Vec<u8>>, KafkaError> {
        let (low, end) = self.reader.bounds(&self.topic, 0)?;
        let mut newest = self.newest.take();
        let mut back = NEAR;
        // Where nothing was read yet, or the topic was emptied behind us.
        let mut from = if newest.is_some() && (low..=end).contains(&self.next) { self.next } else { end.saturating_sub(back).max(low) };
        loop {
            self.read(from, |_, value| {
                newest = Some(value.to_vec());
                Ok::<(), KafkaError>(())
            })?;
            if newest.is_some() || from == low {
                self.newest.clone_from(&newest);
                return Ok(newest);
            }
            back = back.saturating_mul(16);
            from = end.saturating_sub(back).max(low);
        }
    }

    fn absent(&self, offset: u64, low: u64, high: u64) -> KafkaError {
        KafkaError::Absent { topic: self.topic.clone(), partition: 0, offset, low, high }
    }
}
