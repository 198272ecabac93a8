//! What a client asks for: read once, done here or handed to its topic's home.

use serde_json::value::RawValue;
use thalweg_wire::{
    ErrorCode, Excerpt, Position, StartAt, Topic,
    answer::{done, echo, refusal},
    command::{self, Asked, Command},
    event,
};

use super::{Shard, home_of, placed::Placed, room::Maker};
use crate::{
    access::{Identity, Right},
    fanout::{Subscribe, Terms},
    refusal::Refusal,
    seats::Address,
    stream::Payloads,
    transport::parameters,
};

/// A command, checked.
pub(crate) struct Wish {
    /// Comes back with the answer.
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) what: What,
}

pub(crate) enum What {
    Publish {
        topic: Topic,
        payloads: Payloads,
    },
    Subscribe {
        topic: Topic,
        start: StartAt,
        terms: Terms,
    },
    Unsubscribe {
        topic: Topic,
    },
    Echo {
        data: Box<RawValue>,
    },
    Ack {
        topic: Topic,
        position: Position,
    },
    /// It was none.
    Refused(Refusal),
}

/// What a topic's home, another shard, is asked for first.
pub(super) struct Elsewhere {
    pub(super) wish: Wish,
    pub(super) topic: Topic,
    pub(super) errand: Errand,
}

pub(super) enum Errand {
    /// To append events.
    Append(Payloads),
    /// To say that there is the topic: only then it is subscribed to.
    Find { address: Option<Address>, start: StartAt, terms: Terms },
}

impl Wish {
    /// Reads a command of a client whose events may have so many bytes, if it may publish. If
    /// not, its events are not looked at: they may be many.
    pub(crate) fn read(text: &str, event_bytes_max: Option<usize>) -> Self {
        let Asked { id, command } = Asked::parse(text);
        let what = match command {
            Ok(command) => What::check(command, event_bytes_max).unwrap_or_else(What::Refused),
            Err(message) => What::Refused(Refusal::new(ErrorCode::BadCommand, message)),
        };
        Self { id: id.map(ToOwned::to_owned), what }
    }

    pub(crate) fn refuse(&self, refused: &Refusal) -> Vec<u8> {
        refusal(refused.code, &refused.message, self.id.as_deref(), None)
    }

    pub(crate) fn done(&self, topic: &Topic, position: Option<Position>) -> Vec<u8> {
        done(self.id.as_deref(), topic, position)
    }

    pub(crate) fn echo(&self, data: &RawValue) -> Vec<u8> {
        echo(self.id.as_deref(), data)
    }
}

impl What {
    fn check(command: Command<'_>, event_bytes_max: Option<usize>) -> Result<Self, Refusal> {
        Ok(match command {
            Command::Publish { topic, events } => {
                let mut payloads = Payloads::default();
                if let Some(bytes_max) = event_bytes_max {
                    for raw in events {
                        payloads
                            .push(|out| event::push_json(raw.get().as_bytes(), bytes_max, out))?;
                    }
                }
                Self::Publish { topic: topic.parse()?, payloads }
            }
            Command::Subscribe(command::Subscribe { topic, cursor, policy, interval, window }) => {
                let read_time = |text: &str| parameters::time_us("interval", text);
                Self::Subscribe {
                    topic: topic.parse()?,
                    start: cursor
                        .as_deref()
                        .map(parameters::start)
                        .transpose()?
                        .unwrap_or_default(),
                    terms: Terms {
                        policy: policy
                            .as_deref()
                            .map(parameters::policy)
                            .transpose()?
                            .unwrap_or_default(),
                        interval_us: interval
                            .as_deref()
                            .map(read_time)
                            .transpose()?
                            .unwrap_or_default(),
                        window_bytes: window.as_deref().map(parameters::window).transpose()?,
                    },
                }
            }
            Command::Unsubscribe { topic } => Self::Unsubscribe { topic: topic.parse()? },
            Command::Echo { data } => {
                event::check_depth(data)?;
                Self::Echo { data: data.to_owned() }
            }
            Command::Ack { topic, position } => {
                Self::Ack { topic: topic.parse()?, position: position.parse()? }
            }
        })
    }
}

impl Shard {
    /// Does what a subscriber's connection asks for; what is another shard's to do
    /// is given back.
    pub(super) fn grant(&mut self, key: u32, mut wish: Wish) -> Option<Elsewhere> {
        let client = self.connections.get(key as usize)?.client;
        let (identity, address) = (client.identity, client.counted());
        match std::mem::replace(&mut wish.what, What::Refused(Refusal::draining())) {
            What::Echo { data } => self.answer(key, &wish.echo(&data)),
            What::Publish { topic, payloads } => {
                return self.grant_publish(key, identity, wish, topic, payloads);
            }
            What::Subscribe { topic, start, terms }
                if self.authorise(identity, Right::Subscribe(&topic)).is_ok()
                    && self.is_to_be_found(&topic, address) =>
            {
                return Some(Elsewhere {
                    wish,
                    topic,
                    errand: Errand::Find { address, start, terms },
                });
            }
            What::Subscribe { topic, start, terms } => {
                let subscribed = self.grant_subscribe(key, identity, &topic, start, terms);
                self.answer_done(key, &wish, &topic, subscribed);
            }
            What::Unsubscribe { topic } => {
                let unsubscribed = self.grant_unsubscribe(key, &topic);
                self.answer_done(key, &wish, &topic, unsubscribed);
            }
            What::Ack { topic, position } => {
                let acked = self.authorise(identity, Right::Subscribe(&topic));
                match acked {
                    Ok(()) => self.grant_ack(key, &topic, position),
                    Err(refused) => {
                        self.refuse(key, &wish, &refused);
                        return None;
                    }
                }
                if wish.id.is_some() {
                    self.answer(key, &wish.done(&topic, Some(position)));
                }
            }
            What::Refused(refused) => self.refuse(key, &wish, &refused),
        }
        None
    }

    fn authorise(&self, identity: Identity, right: Right<'_>) -> Result<(), Refusal> {
        self.common.gate.authorise(identity, right)
    }

    fn grant_publish(
        &mut self,
        key: u32,
        identity: Identity,
        wish: Wish,
        topic: Topic,
        mut payloads: Payloads,
    ) -> Option<Elsewhere> {
        let placed = match self.authorise(identity, Right::Publish(&topic)) {
            Ok(()) if !self.is_home_of(&topic) => {
                return Some(Elsewhere { wish, topic, errand: Errand::Append(payloads) });
            }
            Ok(()) => self.append(&topic, &mut payloads, None),
            Err(refused) => Err(refused),
        };
        self.answer_publish(key, &wish, &topic, placed);
        None
    }

    pub(super) fn answer_publish(
        &mut self,
        key: u32,
        wish: &Wish,
        topic: &Topic,
        placed: Result<Placed, Refusal>,
    ) {
        match placed {
            Ok(placed) => {
                let json = placed.published(topic).to_answer(wish.id.as_deref());
                self.answer(key, &json);
            }
            Err(refused) => self.refuse(key, wish, &refused),
        }
    }

    /// Subscribes to a topic that was looked for.
    pub(super) fn answer_found(
        &mut self,
        key: u32,
        wish: &Wish,
        topic: &Topic,
        found: Result<(), Refusal>,
        start: StartAt,
        terms: Terms,
    ) {
        let Some(connection) = self.connections.get(key as usize) else { return };
        let identity = connection.client.identity;
        let grant = |()| self.grant_subscribe(key, identity, topic, start, terms);
        let subscribed = found.and_then(grant);
        self.answer_done(key, wish, topic, subscribed);
    }

    fn grant_subscribe(
        &mut self,
        key: u32,
        identity: Identity,
        topic: &Topic,
        start: StartAt,
        terms: Terms,
    ) -> Result<(), Refusal> {
        self.authorise(identity, Right::Subscribe(topic))?;
        let known = self.feeds.find(topic);
        let Some(connection) = self.connections.get_mut(key as usize) else { return Ok(()) };
        let subscriber = &mut connection.subscriber;
        if known.is_some_and(|feed| subscriber.reads(feed)) {
            let topic = Excerpt(topic.as_str());
            let message = format!("this connection has {topic} already: unsubscribe first");
            return Err(Refusal::new(ErrorCode::AlreadySubscribed, message));
        }
        let subscriptions_max = self.common.config.limits.subscriptions;
        if subscriber.feeds().count() >= subscriptions_max {
            return Err(Refusal::too_many_subscriptions(subscriptions_max));
        }
        // Only now: one that is refused leaves no topic behind.
        let is_home = home_of(topic, self.common.peers.len()) == self.id;
        let maker = Maker::Subscriber(connection.client.counted());
        let feed = self.feeds.open(topic, is_home, maker)?;
        subscriber.subscribe(Subscribe { feed, start, terms });
        let format = subscriber.format();
        self.join(key, feed, format);
        Ok(())
    }

    fn grant_unsubscribe(&mut self, key: u32, topic: &Topic) -> Result<(), Refusal> {
        let feed = self.feeds.find(topic);
        let Some(connection) = self.connections.get_mut(key as usize) else { return Ok(()) };
        let Some(feed) = feed.filter(|feed| connection.subscriber.reads(*feed)) else {
            let topic = Excerpt(topic.as_str());
            let message = format!("this connection does not have {topic}: nothing is to be done");
            return Err(Refusal::new(ErrorCode::NotSubscribed, message));
        };
        connection.subscriber.unsubscribe(feed);
        self.take_left(key);
        Ok(())
    }

    fn grant_ack(&mut self, key: u32, topic: &Topic, position: Position) {
        if let Some(feed) = self.feeds.find(topic)
            && let Some(connection) = self.connections.get_mut(key as usize)
        {
            connection.subscriber.ack(&self.feeds, feed, position);
            self.mark_dirty(key);
        }
        self.hear_ack(topic, position);
    }

    /// A subscription that has left is not told of its feed any more.
    pub(super) fn take_left(&mut self, key: u32) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let Some((feed, place)) = connection.subscriber.take_left() else { return };
        let format = connection.subscriber.format();
        self.leave(feed, place, format);
    }

    fn answer_done(&mut self, key: u32, wish: &Wish, topic: &Topic, done: Result<(), Refusal>) {
        match done {
            Ok(()) => self.answer(key, &wish.done(topic, None)),
            Err(refused) => self.refuse(key, wish, &refused),
        }
    }

    fn refuse(&mut self, key: u32, wish: &Wish, refused: &Refusal) {
        self.counts.count_refused(refused.code);
        self.answer(key, &wish.refuse(refused));
    }

    fn answer(&mut self, key: u32, json: &[u8]) {
        if let Some(connection) = self.connections.get_mut(key as usize) {
            connection.answer(json);
            self.mark_dirty(key);
            self.count_own(key, 0);
        }
    }
}
