// The program under test: sends records until its standard input ends, and prints each value that was acknowledged.
const { Kafka } = require("kafkajs");

const kafka = new Kafka({
  brokers: process.env.KAFKA_BOOTSTRAP_SERVERS.split(","),
  retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 200 }, // longer than a leader is away
});
const topic = process.env.KAFKA_TOPIC;
let stopped = false;
process.stdin.resume().on("end", () => { stopped = true; });

async function main() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (let number = 0; !stopped; number++) {
    const value = String(number);
    try {
      await producer.send({ topic, acks: -1, messages: [{ value }] });
      console.log(value);
    } catch (error) {
      console.error(error); // nobody was told that it is safe
    }
  }
  await producer.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
