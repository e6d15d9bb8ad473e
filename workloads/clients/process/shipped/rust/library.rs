//! What differs between the versions of rdkafka (0.27 to 0.39) and of librdkafka (1.6 to 2.12).

use std::collections::BTreeSet;

use rdkafka::consumer::{ConsumerContext, Rebalance};
use rdkafka::message::{BorrowedMessage, Headers, Message, OwnedHeaders};
use rdkafka::topic_partition_list::TopicPartitionList;
use serde_json::{json, Value};

use crate::producing::decoded;
use crate::{say, Header};

/// The names of the properties that librdkafka takes for this side, aliases too, as its own table says.
pub fn names(side: &str) -> BTreeSet<String> {
    let (mut text, mut size) = (std::ptr::null_mut(), 0);
    let table = unsafe {
        let file = libc::open_memstream(&mut text, &mut size);
        rdkafka_sys::rd_kafka_conf_properties_show(file.cast());
        libc::fclose(file);
        let table = String::from_utf8_lossy(std::slice::from_raw_parts(text.cast(), size)).into_owned();
        libc::free(text.cast());
        table
    };
    let other = if side == "producer" { "C" } else { "P" }; // the second column is P, C or *
    let columns = table.lines().map(|line| line.split('|').map(str::trim));
    columns
        .filter_map(|mut each| Some((each.next()?, each.next()?)))
        .filter(|(name, of)| ["P", "C", "*"].contains(of) && *of != other && !name.is_empty())
        .map(|(name, _)| name.to_string())
        .collect()
}

pub fn headers(own: &[Header]) -> Option<OwnedHeaders> {
    if own.is_empty() {
        return None;
    }
    let mut all = OwnedHeaders::new();
    for each in own {
        all = with(all, &each.key, decoded(&each.value));
    }
    Some(all)
}

#[cfg(not(feature = "before-29"))]
fn with(all: OwnedHeaders, key: &str, value: Option<Vec<u8>>) -> OwnedHeaders {
    all.insert(rdkafka::message::Header { key, value: value.as_ref() })
}

#[cfg(feature = "before-29")]
fn with(all: OwnedHeaders, key: &str, value: Option<Vec<u8>>) -> OwnedHeaders {
    all.add(key, &value.unwrap_or_default())
}

pub fn headers_of<'a>(message: &'a BorrowedMessage<'_>) -> Vec<(&'a str, Option<&'a [u8]>)> {
    let Some(found) = message.headers() else {
        return vec![];
    };
    #[cfg(not(feature = "before-29"))]
    return (0..found.count()).map(|index| found.get(index)).map(|each| (each.key, each.value)).collect();
    #[cfg(feature = "before-29")]
    return (0..found.count()).filter_map(|index| found.get(index)).map(|(key, value)| (key, Some(value))).collect();
}

/// Tells of rebalances.
#[derive(Default)]
pub struct Rebalances {
    #[cfg(feature = "before-28")]
    given: std::sync::Mutex<Vec<Value>>, // what a revocation takes: it does not say so itself
}

impl ConsumerContext for Rebalances {
    #[cfg(not(feature = "before-37"))]
    fn pre_rebalance(&self, _: &rdkafka::consumer::BaseConsumer<Self>, what: &Rebalance<'_>) {
        self.tell(what);
    }

    #[cfg(feature = "before-37")]
    fn pre_rebalance<'a>(&self, what: &Rebalance<'a>) {
        self.tell(what);
    }
}

impl Rebalances {
    #[cfg(not(feature = "before-28"))]
    fn tell(&self, what: &Rebalance<'_>) {
        match what {
            Rebalance::Assign(partitions) => say("assigned", json!({"partitions": places(partitions)})),
            Rebalance::Revoke(partitions) => say("revoked", json!({"partitions": places(partitions)})),
            Rebalance::Error(error) => say("error", json!({"reason": error.to_string()})),
        }
    }

    #[cfg(feature = "before-28")]
    fn tell(&self, what: &Rebalance<'_>) {
        match what {
            Rebalance::Assign(partitions) => {
                *self.given.lock().unwrap() = places(partitions);
                say("assigned", json!({"partitions": places(partitions)}));
            }
            Rebalance::Revoke => {
                let taken = std::mem::take(&mut *self.given.lock().unwrap());
                say("revoked", json!({"partitions": taken}));
            }
            Rebalance::Error(error) => say("error", json!({"reason": error.to_string()})),
        }
    }
}

fn places(partitions: &TopicPartitionList) -> Vec<Value> {
    let elements = partitions.elements();
    elements.iter().map(|each| json!({"topic": each.topic(), "partition": each.partition()})).collect()
}
