//! A client of the harness over rdkafka (librdkafka). It speaks docs/reference/client-protocol.md.
//!
//! One loop reads a command, carries it out and answers. Outcomes of records come from rdkafka's own thread.

mod library;
mod producing;
mod reading;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use producing::Producing;
use reading::Reading;

#[derive(Clone, Deserialize, Serialize)]
pub struct Place {
    pub topic: String,
    pub partition: i32,
    #[serde(default)]
    pub offset: i64,
}

#[derive(Deserialize)]
pub struct Header {
    pub key: String,
    pub value: Option<String>,
}

#[derive(Deserialize)]
pub struct Record {
    pub seq: usize,
    pub key: Option<String>,
    pub value: Option<String>,
    pub partition: Option<i32>,
    #[serde(default)]
    pub headers: Vec<Header>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Command {
    #[serde(rename = "do")]
    pub todo: String,
    pub id: i64,
    pub timeout_ms: u64,
    pub role: String,
    pub properties: HashMap<String, String>,
    pub failed_codes: Vec<i32>,
    pub topic: String,
    pub topics: Vec<String>,
    pub partitions: Vec<Place>,
    pub records: Vec<Record>,
    pub max_records: usize,
}

/// Why a command failed, as `error` tells it.
pub struct Refused(pub Value);

impl From<KafkaError> for Refused {
    fn from(error: KafkaError) -> Self {
        let mut told = json!({"reason": error.to_string(), "code": code_of(&error)});
        match &error {
            KafkaError::Transaction(found) if found.is_retriable() => told["next"] = json!("retry"),
            KafkaError::Transaction(found) if found.txn_requires_abort() => told["next"] = json!("abort"),
            KafkaError::Transaction(found) if found.is_fatal() => told["next"] = json!("close"),
            KafkaError::ClientConfig(_, _, name, _) => told["property"] = json!(name),
            _ => {}
        }
        Refused(told)
    }
}

pub fn refused<T>(reason: &str) -> Result<T, Refused> {
    Err(Refused(json!({"reason": reason})))
}

/// The code of a broker; -1 if the library failed by itself.
pub fn code_of(error: &KafkaError) -> i32 {
    error.rdkafka_error_code().map_or(-1, |code| code as i32).max(-1)
}

pub fn now_us() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

pub fn say(event: &str, mut more: Value) {
    more["event"] = json!(event);
    more["at_us"] = json!(now_us());
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{more}").and_then(|()| out.flush());
    if written.is_err() {
        std::process::exit(1); // nobody listens any more
    }
}

#[derive(Default)]
struct Client {
    producer: Option<Producing>, // of a producer and of a copier
    reader: Option<Reading>,     // of a consumer and of a copier
}

impl Client {
    fn carry_out(&mut self, command: Command) -> Result<(), Refused> {
        let time = Duration::from_millis(command.timeout_ms);
        let id = command.id;
        match (command.todo.as_str(), &mut self.producer, &mut self.reader) {
            ("connect", _, _) => self.connect(command, time)?,
            ("produce", Some(producer), _) => {
                producer.produce(&command);
                return Ok(());
            }
            ("flush" | "begin" | "commit-transaction" | "abort-transaction", Some(producer), _) => {
                producer.act(&command.todo, time)?
            }
            ("send-offsets", Some(producer), Some(reader)) => {
                producer.send_offsets(&command.partitions, reader, time)?
            }
            ("poll", _, Some(reader)) => {
                let records = reader.poll(time, command.max_records)?;
                say("polled", json!({"id": id, "records": records}));
                return Ok(());
            }
            ("commit", _, Some(reader)) => {
                reader.commit(&command.partitions, time)?;
                say("committed", json!({"id": id, "partitions": command.partitions}));
                return Ok(());
            }
            ("subscribe" | "assign" | "seek" | "pause" | "resume", _, Some(reader)) => reader.act(&command, time)?,
            ("close", _, _) => {
                let (reader, producer) = (self.reader.take(), self.producer.take());
                let end = Instant::now() + time; // of both sides together
                let left = reader.map_or(Ok(()), |reader| reader.close(time));
                producer.map_or(Ok(()), |producer| producer.close(end))?;
                left?
            }
            _ => return refused(&format!("no such command now: {}", command.todo)),
        }
        say("done", json!({"id": id}));
        Ok(())
    }

    fn connect(&mut self, command: Command, time: Duration) -> Result<(), Refused> {
        let sides: &[&str] = match command.role.as_str() {
            "producer" => &["producer"],
            "consumer" => &["consumer"],
            "copier" => &["consumer", "producer"],
            other => return refused(&format!("this program is no {other}")),
        };
        let known: Vec<_> = sides.iter().map(|side| library::names(side)).collect();
        if let Some(name) = command.properties.keys().find(|name| !known.iter().any(|own| own.contains(*name))) {
            let reason = format!("librdkafka has no such property for a {}", command.role);
            return Err(Refused(json!({"reason": reason, "property": name})));
        }
        for (side, own) in sides.iter().zip(&known) {
            let mut config = ClientConfig::new();
            for (name, value) in command.properties.iter().filter(|(name, _)| own.contains(*name)) {
                config.set(name, value);
                if name == "metadata.max.age.ms" {
                    // By that name librdkafka keeps a topic in its cache; how soon it sees a change is this one.
                    config.set("topic.metadata.refresh.interval.ms", value);
                }
            }
            if *side == "producer" {
                self.producer = Some(Producing::new(&config, &command, time)?);
            } else {
                self.reader = Some(Reading::new(config, command.properties.contains_key("group.id"))?);
            }
        }
        Ok(())
    }
}

fn main() {
    let (_, version) = rdkafka::util::get_rdkafka_version();
    say("ready", json!({"protocol": 1, "client": "librdkafka", "version": version,
        "can": ["produce", "partition", "headers", "assign", "subscribe", "seek", "pause", "commit", "transactions",
            "send-offsets"],
        "lacks": {"share": "rdkafka has no members of share groups", "overlap": "it does one thing at a time"},
        "properties": {"producer": library::names("producer"), "consumer": library::names("consumer")}}));
    let mut client = Client::default();
    for line in io::stdin().lock().lines() {
        let line = line.expect("standard input");
        let command: Command = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let id = command.id;
        if let Err(Refused(mut told)) = client.carry_out(command) {
            told["id"] = json!(id);
            say("error", told);
        }
    }
    std::process::exit(0); // also if a thread of the library still waits
}
