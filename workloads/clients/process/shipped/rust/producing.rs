//! One producer of rdkafka: its records and their outcomes, and its transactions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::prelude::{Engine, BASE64_STANDARD};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use serde_json::json;

use crate::reading::{list, within, Reading};
use crate::{code_of, library, now_us, refused, say, Command, Place, Refused};

/// What is under way: when each record was given to the library, by its seq. Who takes it out tells its outcome.
type Open = Arc<Mutex<HashMap<usize, i64>>>;

pub struct Producing {
    producer: ThreadedProducer<Outcomes>,
    open: Open,
}

struct Outcomes {
    open: Open,
    is_acked: bool,
    is_transactional: bool,
    failed_codes: Vec<i32>,
}

impl ClientContext for Outcomes {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, text: &str) {
        eprintln!("{facility}: {text}");
    }

    /// After a fatal error nothing is sent any more. In transactions the call that fails says what is next.
    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) && !self.is_transactional {
            say("fatal", json!({"reason": reason, "code": -1}));
            std::process::exit(1);
        }
        eprintln!("{error}: {reason}");
    }
}

impl ProducerContext for Outcomes {
    type DeliveryOpaque = usize; // a seq

    fn delivery(&self, result: &DeliveryResult<'_>, seq: usize) {
        let Some(sent_us) = self.open.lock().unwrap().remove(&seq) else {
            return;
        };
        let mut told = json!({"seq": seq, "sent_us": sent_us});
        match result {
            Ok(message) if self.is_acked => {
                told["partition"] = json!(message.partition());
                told["offset"] = json!(message.offset().max(-1)); // unknown of a batch that was there already
                told["timestamp_ms"] = json!(message.timestamp().to_millis().unwrap_or(-1));
                say("acknowledged", json!({"records": [told]}));
            }
            Ok(_) => say("unknown", json!({"records": [told], "code": 0})),
            Err((error, _)) => {
                let code = code_of(error);
                let event = if self.failed_codes.contains(&code) { "failed" } else { "unknown" };
                say(event, json!({"records": [told], "code": code, "reason": error.to_string()}));
            }
        }
    }
}

pub fn decoded(text: &Option<String>) -> Option<Vec<u8>> {
    text.as_ref().map(|text| BASE64_STANDARD.decode(text).expect("base64"))
}

impl Producing {
    pub fn new(config: &ClientConfig, command: &Command, time: Duration) -> Result<Self, Refused> {
        let open = Open::default();
        let is_acked = config.get("acks") != Some("0");
        let failed_codes = command.failed_codes.clone();
        let is_transactional = config.get("transactional.id").is_some();
        let outcomes = Outcomes { open: open.clone(), is_acked, is_transactional, failed_codes };
        let mut config = config.clone();
        config.set_log_level(RDKafkaLogLevel::Warning);
        let producer: ThreadedProducer<Outcomes> = config.create_with_context(outcomes)?;
        if is_transactional {
            producer.init_transactions(time)?;
        }
        Ok(Producing { producer, open })
    }

    /// While the library's queue is full, nothing is read.
    pub fn produce(&self, command: &Command) {
        for each in &command.records {
            let (key, value) = (decoded(&each.key), decoded(&each.value));
            let mut record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(&command.topic, each.seq);
            record.key = key.as_deref();
            record.payload = value.as_deref();
            record.partition = each.partition;
            record.headers = library::headers(&each.headers);
            let sent_us = now_us();
            self.open.lock().unwrap().insert(each.seq, sent_us);
            while let Err((error, back)) = self.producer.send(record) {
                if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                    self.open.lock().unwrap().remove(&each.seq);
                    let told = json!([{"seq": each.seq, "sent_us": sent_us}]);
                    say("failed", json!({"records": told, "code": -1, "reason": error.to_string()}));
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
                record = back;
            }
        }
    }

    pub fn act(&self, todo: &str, time: Duration) -> Result<(), Refused> {
        match todo {
            "flush" => {
                let _ = self.producer.flush(time); // what is open says it in every version
                match self.open.lock().unwrap().len() {
                    0 => return Ok(()),
                    left => return refused(&format!("{left} records have no outcome yet")),
                }
            }
            "begin" => self.producer.begin_transaction()?,
            "commit-transaction" => self.producer.commit_transaction(time)?,
            _ => self.producer.abort_transaction(time)?,
        }
        Ok(())
    }

    pub fn send_offsets(&self, places: &[Place], reader: &Reading, time: Duration) -> Result<(), Refused> {
        let Some(group) = reader.group() else {
            return refused("the consumer is in no group");
        };
        Ok(self.producer.send_offsets_to_transaction(&list(places)?, &group, time)?)
    }

    pub fn close(self, end: Instant) -> Result<(), Refused> {
        let _ = self.producer.flush(end.saturating_duration_since(Instant::now()));
        for (seq, sent_us) in self.open.lock().unwrap().drain() {
            let told = json!([{"seq": seq, "sent_us": sent_us}]);
            say("unknown", json!({"records": told, "code": -1, "reason": "closed while it was under way"}));
        }
        within(end.saturating_duration_since(Instant::now()).max(Duration::from_secs(1)), move || drop(self.producer))
    }
}
