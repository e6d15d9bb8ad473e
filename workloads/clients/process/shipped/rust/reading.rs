//! One consumer of rdkafka, with partitions of its own or in a group.

use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use base64::prelude::{Engine, BASE64_STANDARD};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerGroupMetadata};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{json, Value};

use crate::library::{self, Rebalances};
use crate::{code_of, refused, say, Command, Place, Refused};

pub struct Reading {
    consumer: Arc<BaseConsumer<Rebalances>>,
}

impl ClientContext for Rebalances {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, text: &str) {
        eprintln!("{facility}: {text}");
    }
}

fn at(place: &Place) -> Offset {
    match place.offset {
        -2 => Offset::Beginning,
        -1 => Offset::End,
        offset => Offset::Offset(offset),
    }
}

pub fn list(places: &[Place]) -> Result<TopicPartitionList, Refused> {
    let mut found = TopicPartitionList::new();
    for each in places {
        found.add_partition_offset(&each.topic, each.partition, at(each))?;
    }
    Ok(found)
}

/// Calls of the library without a time of their own run in a thread. One that is late goes on there.
pub fn within<T: Send + 'static>(time: Duration, call: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
    let (told, answer) = mpsc::channel();
    std::thread::spawn(move || told.send(call()));
    answer.recv_timeout(time).or_else(|_| refused("the library has not returned in time"))
}

impl Reading {
    pub fn new(mut config: ClientConfig, is_member: bool) -> Result<Self, Refused> {
        if !is_member {
            config.set("group.id", "none"); // librdkafka wants a name
        }
        config.set_log_level(RDKafkaLogLevel::Warning);
        let consumer = config.create_with_context(Rebalances::default())?;
        Ok(Reading { consumer: Arc::new(consumer) })
    }

    pub fn group(&self) -> Option<ConsumerGroupMetadata> {
        self.consumer.group_metadata()
    }

    pub fn poll(&self, time: Duration, max_records: usize) -> Result<Vec<Value>, Refused> {
        let end = Instant::now() + time;
        let mut records = vec![];
        while records.len() < max_records {
            let left = end.saturating_duration_since(Instant::now());
            // After the first record only what is there already.
            match self.consumer.poll(if records.is_empty() { left } else { Duration::ZERO }) {
                Some(Ok(message)) => records.push(told(&message)),
                Some(Err(KafkaError::PartitionEOF(_))) => {}
                Some(Err(error)) => say("error", json!({"reason": error.to_string(), "code": code_of(&error)})),
                None if !records.is_empty() || left.is_zero() => break,
                None => {}
            }
        }
        Ok(records)
    }

    pub fn act(&self, command: &Command, time: Duration) -> Result<(), Refused> {
        let places = list(&command.partitions)?;
        match command.todo.as_str() {
            "subscribe" => self.consumer.subscribe(&command.topics.iter().map(String::as_str).collect::<Vec<_>>())?,
            "assign" => self.consumer.assign(&places)?,
            "pause" => self.consumer.pause(&places)?,
            "resume" => self.consumer.resume(&places)?,
            _ => {
                for each in &command.partitions {
                    self.consumer.seek(&each.topic, each.partition, at(each), time)?;
                }
            }
        }
        Ok(())
    }

    pub fn commit(&self, places: &[Place], time: Duration) -> Result<(), Refused> {
        let (consumer, positions) = (self.consumer.clone(), list(places)?);
        Ok(within(time, move || consumer.commit(&positions, CommitMode::Sync))??)
    }

    /// The end of the consumer leaves the group.
    pub fn close(self, time: Duration) -> Result<(), Refused> {
        within(time, move || drop(self.consumer))
    }
}

fn encoded(content: Option<&[u8]>) -> Option<String> {
    content.map(|content| BASE64_STANDARD.encode(content))
}

fn told(message: &BorrowedMessage<'_>) -> Value {
    let headers: Vec<_> = library::headers_of(message)
        .into_iter()
        .map(|(key, value)| json!({"key": key, "value": encoded(value)}))
        .collect();
    json!({"topic": message.topic(), "partition": message.partition(), "offset": message.offset(),
        "key": encoded(message.key()), "value": encoded(message.payload()),
        "timestamp_ms": message.timestamp().to_millis().unwrap_or(-1), "headers": headers})
}
