//! A consumer of Confluent's Rust client, which speaks only the new protocol. It reports in the
//! words of gateway/demo/reports.py: one JSON object per line, times in seconds of CLOCK_MONOTONIC.

use std::collections::HashMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use confluent_kafka::common::serialization::StringDeserializer;
use confluent_kafka::common::{Error, TopicPartition};
use confluent_kafka::consumer::{
    Consumer, ConsumerConfig, ConsumerHandle, ConsumerRebalanceListener, KafkaConsumer,
    OffsetAndMetadata,
};

const POLL: Duration = Duration::from_millis(100);
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
const CLOSE_LIMIT: Duration = Duration::from_secs(15);

static IS_ASKED: AtomicBool = AtomicBool::new(false);

fn say(kind: &str, fields: &str) {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    let more = if fields.is_empty() {
        String::new()
    } else {
        format!(",{fields}")
    };
    println!(
        "{{\"kind\":\"{kind}\",\"at_s\":{}.{:09}{more}}}",
        now.tv_sec, now.tv_nsec
    );
}

fn report(kind: &str, partitions: &[TopicPartition]) {
    let numbers: Vec<String> = partitions
        .iter()
        .map(|each| each.partition().to_string())
        .collect();
    say(kind, &format!("\"partitions\":[{}]", numbers.join(",")));
}

fn trouble(doing: &str, error: &Error) {
    let text = error.to_string().replace(['"', '\\', '\n'], " ");
    say(
        "troubled",
        &format!("\"doing\":\"{doing}\",\"error\":\"{text}\""),
    );
}

/// Commits before partitions go, and reports what the client owns.
struct Owned {
    handle: ConsumerHandle,
    uncommitted: Mutex<HashMap<TopicPartition, i64>>,
}

impl Owned {
    async fn commit(&self, is_wanted: impl Fn(&TopicPartition) -> bool) {
        let offsets: HashMap<TopicPartition, i64> = {
            let uncommitted = self.uncommitted.lock().unwrap();
            uncommitted
                .iter()
                .filter(|each| is_wanted(each.0))
                .map(|(k, v)| (k.clone(), *v))
                .collect()
        };
        if offsets.is_empty() {
            return;
        }
        let committed = offsets
            .iter()
            .map(|(partition, next)| (partition.clone(), OffsetAndMetadata::new(*next).unwrap()))
            .collect();
        if let Err(error) = self.handle.commit_sync_with_offsets(committed).await {
            return trouble("commit", &error);
        }
        let mut uncommitted = self.uncommitted.lock().unwrap();
        uncommitted.retain(|partition, next| offsets.get(partition) != Some(next));
        let pairs: Vec<String> = offsets
            .iter()
            .map(|(each, next)| format!("[{},{next}]", each.partition()))
            .collect();
        say("committed", &format!("\"offsets\":[{}]", pairs.join(",")));
    }

    fn forget(&self, partitions: &[TopicPartition]) {
        self.uncommitted
            .lock()
            .unwrap()
            .retain(|partition, _| !partitions.contains(partition));
    }
}

#[async_trait::async_trait]
impl ConsumerRebalanceListener for Owned {
    async fn on_partitions_assigned(&self, added: &[TopicPartition]) -> Result<(), Error> {
        report("assigned", added);
        Ok(())
    }

    async fn on_partitions_revoked(&self, removed: &[TopicPartition]) -> Result<(), Error> {
        self.commit(|each| removed.contains(each)).await;
        self.forget(removed);
        report("revoked", removed);
        Ok(())
    }

    async fn on_partitions_lost(&self, removed: &[TopicPartition]) -> Result<(), Error> {
        self.forget(removed);
        report("lost", removed);
        Ok(())
    }
}

/// The end of stdin is also how it learns that its parent died; then it may not hang.
fn wait_for_end_of_stdin() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    IS_ASKED.store(true, Ordering::Relaxed);
    std::thread::sleep(CLOSE_LIMIT);
    std::process::exit(1);
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let wanted: HashMap<String, String> = std::env::args()
        .skip(1)
        .filter_map(|each| {
            each.split_once('=')
                .map(|(name, value)| (name.into(), value.into()))
        })
        .collect();
    std::thread::spawn(wait_for_end_of_stdin);
    let settings = [
        ("bootstrap.servers", wanted["--bootstrap"].as_str()),
        ("group.id", &wanted["--group"]),
        ("client.id", &wanted["--client-id"]),
        ("group.protocol", &wanted["--protocol"]),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
        ("fetch.max.wait.ms", "250"),
    ];
    let settings = settings
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .into();
    let text = StringDeserializer::default;
    let mut consumer: KafkaConsumer<String, String> =
        KafkaConsumer::new(ConsumerConfig::new(&settings)?, text(), text())?;
    let owned = Arc::new(Owned {
        handle: consumer.handle(),
        uncommitted: Mutex::default(),
    });
    consumer
        .subscribe_with_topics_listener(vec![wanted["--topic"].clone()], owned.clone())
        .await?;
    let mut committed = Instant::now();
    while !IS_ASKED.load(Ordering::Relaxed) {
        for record in &consumer.poll(POLL).await? {
            let (partition, number) = (record.partition(), record.value().unwrap());
            let number: i64 = number.parse().unwrap();
            say(
                "consumed",
                &format!(
                    "\"partition\":{partition},\"runs\":[[{number},{},1]]",
                    number + 1
                ),
            );
            let partition = TopicPartition::new(record.topic(), partition);
            owned
                .uncommitted
                .lock()
                .unwrap()
                .insert(partition, record.offset() + 1);
        }
        if committed.elapsed() >= COMMIT_INTERVAL {
            committed = Instant::now();
            owned.commit(|_| true).await;
        }
    }
    owned.commit(|_| true).await;
    consumer.close().await?;
    say("closed", "");
    Ok(())
}
