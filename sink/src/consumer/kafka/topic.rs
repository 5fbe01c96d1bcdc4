//! One topic: its identity, whose its lanes are, and the reading of those that are ours.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use runtime::kafka::{KafkaError, Lane, Taken};
use schemas::event::Offset;

use super::{KafkaBlock, topics::Topics};
use crate::error::SinkError;

/// How long a topic may not be there before it is gone: a broker that has just started may not know of it yet.
const GONE: Duration = Duration::from_secs(5);

/// How long one who looks waits for a row.
const MOMENT: Duration = Duration::from_millis(400);

/// What is asked of a lane.
pub(super) struct Asked<'a> {
    /// The identity that the schema versions have, if they tell.
    pub topic_id: Option<&'a str>,
    pub lane: u32,
    pub from: Offset,
    pub max_bytes: usize,
}

pub(super) struct Topic {
    name: String,
    state: Mutex<State>,
    slots: Mutex<Vec<Arc<Mutex<Slot>>>>,
}

#[derive(Default)]
struct State {
    identity: Identity,
    /// Of each lane that is ours, which turn of ours it is.
    turns: Vec<Option<u64>>,
    /// The group has said whose the lanes are.
    told: bool,
}

/// Which topic there is under the name.
#[derive(Default, Clone)]
enum Identity {
    /// To be looked up.
    #[default]
    Unknown,
    Is(Arc<str>),
    /// There is none, since then.
    Absent(Instant),
}

/// The reading of one lane.
#[derive(Default)]
struct Slot {
    open: Option<Open>,
    /// What was given last, until something behind it is asked for: a batch may have ended within it, or is to be done again.
    kept: Option<Kept>,
    /// Where the topic does not have what was asked for, and what to tell.
    lost: Option<(Offset, String)>,
}

struct Open {
    lane: Lane,
    /// The topic's.
    id: Arc<str>,
    /// Where the next record is, as far as is known.
    at: Offset,
    /// `at` is the end of what is committed, as far as is known.
    ended: bool,
}

struct Kept {
    taken: Arc<Taken>,
    from: Offset,
    next: Offset,
}

impl Topic {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), state: Mutex::default(), slots: Mutex::default() }
    }

    /// Which turn of ours at the lane it is.
    pub fn turn(&self, lane: u32) -> Option<u64> {
        lock(&self.state).turns.get(index(lane)).copied().flatten()
    }

    /// The lane has become ours.
    pub fn assign(&self, lane: u32, turn: u64) {
        let turns = &mut lock(&self.state).turns;
        if turns.len() <= index(lane) {
            turns.resize(index(lane) + 1, None);
        }
        turns[index(lane)] = Some(turn);
    }

    /// The lane is another instance's: it is read no further.
    pub fn revoke(&self, lane: u32) {
        if let Some(turn) = lock(&self.state).turns.get_mut(index(lane)) {
            *turn = None;
        }
        lock(&self.slot(lane)).let_go();
    }

    /// The group has said whose the lanes are.
    pub fn told(&self) {
        lock(&self.state).told = true;
    }

    /// Which topic there is now. True: it is another one than was known, or was looked up for the first time.
    pub fn identified(&self, id: Option<&str>) -> bool {
        let identity = &mut lock(&self.state).identity;
        let (next, new) = match (&*identity, id) {
            (Identity::Is(known), Some(id)) if **known == *id => return false,
            (Identity::Absent(_), None) => return false,
            (Identity::Unknown | Identity::Is(_) | Identity::Absent(_), Some(id)) => (Identity::Is(id.into()), true),
            (Identity::Unknown | Identity::Is(_), None) => (Identity::Absent(Instant::now()), false),
        };
        *identity = next;
        new
    }

    /// Whether the newest look found this very topic.
    pub fn is(&self, id: &str) -> bool {
        matches!(&lock(&self.state).identity, Identity::Is(known) if **known == *id)
    }

    fn slot(&self, lane: u32) -> Arc<Mutex<Slot>> {
        let mut slots = lock(&self.slots);
        if slots.len() <= index(lane) {
            slots.resize_with(index(lane) + 1, Arc::default);
        }
        slots[index(lane)].clone()
    }

    /// What has come of a lane. See [`crate::consumer::Consumer::fetch`].
    pub fn fetch(&self, topics: &Topics, asked: &Asked<'_>) -> Result<KafkaBlock, SinkError> {
        let (turn, told, identity) = {
            let state = lock(&self.state);
            (state.turns.get(index(asked.lane)).copied().flatten(), state.told, state.identity.clone())
        };
        let slot = self.slot(asked.lane);
        let mut slot = lock(&slot);
        if turn.is_none() && !topics.alone() {
            slot.let_go();
            return Ok(KafkaBlock::empty(asked.from, told));
        }
        let live = match identity {
            Identity::Is(id) => id,
            Identity::Absent(since) if since.elapsed() >= GONE => return Err(self.stop("is not there any more")),
            Identity::Unknown | Identity::Absent(_) => return Ok(KafkaBlock::empty(asked.from, false)),
        };
        if asked.topic_id.is_some_and(|id| *id != *live) {
            slot.let_go();
            return Err(self.stop("was made anew"));
        }
        if slot.open.as_ref().is_some_and(|open| open.id != live) {
            slot.let_go();
        }
        self.read(topics, &mut slot, live, asked)
    }

    fn stop(&self, what: &str) -> SinkError {
        SinkError::Stop { message: format!("topic {} {what}: rows are lost for this sink. Reload the table.", self.name) }
    }

    fn read(&self, topics: &Topics, slot: &mut Slot, id: Arc<str>, asked: &Asked<'_>) -> Result<KafkaBlock, SinkError> {
        let from = asked.from;
        match &slot.lost {
            Some((at, message)) if *at == from => return Err(SinkError::Stop { message: message.clone() }),
            Some(_) | None => slot.lost = None,
        }
        if let Some(kept) = slot.kept.as_ref().filter(|kept| (kept.from..kept.next).contains(&from)) {
            return Ok(KafkaBlock::rest(&kept.taken, from, kept.next));
        }
        slot.kept = None;
        if slot.open.as_ref().is_none_or(|open| open.at != from) {
            // A lane may be read once at a time.
            slot.open = None;
            let lane = topics.reader().lane(&self.name, asked.lane, from, topics.news()).map_err(|e| topics.failed(e))?;
            slot.open = Some(Open { lane, id, at: from, ended: false });
        }
        let Some(open) = &mut slot.open else { return Ok(KafkaBlock::empty(from, false)) };
        match open.lane.take(asked.max_bytes, Duration::ZERO) {
            Ok(taken) => Ok(slot.took(taken, from)),
            Err(error) => {
                slot.open = None;
                self.failed(topics, slot, from, error)
            }
        }
    }

    /// The next rows of a lane for one who only looks: waits a moment for them.
    pub fn peek(&self, topics: &Topics, lane: u32, from: Offset) -> Result<KafkaBlock, SinkError> {
        let slot = self.slot(lane);
        let mut slot = lock(&slot);
        if let Some(kept) = slot.kept.as_ref().filter(|kept| (kept.from..kept.next).contains(&from)) {
            return Ok(KafkaBlock::rest(&kept.taken, from, kept.next));
        }
        if slot.open.is_some() {
            // It is being read: what will be applied next is not for looking at.
            return Ok(KafkaBlock::empty(from, false));
        }
        let reading = topics.reader().lane(&self.name, lane, from, || {}).map_err(|e| topics.failed(e))?;
        let deadline = Instant::now() + MOMENT;
        loop {
            let taken = reading.take(1, MOMENT / 4).map_err(|e| topics.failed(e))?;
            let end = taken.end;
            if let Some(last) = taken.messages().last() {
                let (next, taken) = (last.offset() + 1, Arc::new(taken));
                let block = KafkaBlock::rest(&taken, from, next);
                slot.kept = Some(Kept { taken, from, next });
                return Ok(block);
            }
            if end.is_some() || Instant::now() >= deadline {
                return Ok(KafkaBlock::empty(end.unwrap_or(from).max(from), end.is_some()));
            }
        }
    }

    /// Whether it is the topic that it was is looked up before anything else is made of an error.
    fn failed(&self, topics: &Topics, slot: &mut Slot, from: Offset, error: KafkaError) -> Result<KafkaBlock, SinkError> {
        lock(&self.state).identity = Identity::Unknown;
        topics.look();
        match error {
            error @ KafkaError::Absent { .. } => {
                slot.lost = Some((from, format!("{error}: rows are lost for this sink. Reload the table.")));
                Ok(KafkaBlock::empty(from, false))
            }
            KafkaError::Topic(reason) => {
                tracing::debug!(topic = self.name, %reason, "the topic is looked up again");
                Ok(KafkaBlock::empty(from, false))
            }
            error @ (KafkaError::Transient(_) | KafkaError::Refused(_) | KafkaError::Fenced(_)) => Err(topics.failed(error)),
        }
    }
}

impl Slot {
    fn let_go(&mut self) {
        *self = Self::default();
    }

    fn took(&mut self, taken: Taken, from: Offset) -> KafkaBlock {
        let Some(open) = &mut self.open else { return KafkaBlock::empty(from, false) };
        let next = taken.behind().unwrap_or(from).max(from);
        open.ended = taken.end.is_some() || open.ended && next == open.at;
        open.at = next;
        if taken.messages().is_empty() {
            return KafkaBlock::empty(next, open.ended);
        }
        let taken = Arc::new(taken);
        let block = KafkaBlock::rest(&taken, from, next);
        self.kept = Some(Kept { taken, from, next });
        block
    }
}

fn index(lane: u32) -> usize {
    usize::try_from(lane).unwrap_or(usize::MAX - 1)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
