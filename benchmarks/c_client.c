/* One produce or consume load by librdkafka from C: what a user's program costs, and no Python beside it.
 *
 *   c_client produce|consume BOOTSTRAP TOPIC BYTES BATCH_BYTES ACKS
 *
 * Records of 1 KiB to partition 0, one by one, five requests in flight, linger 5 ms. Reading asks for 50 MiB a fetch
 * and 10 MiB a partition, and does not check CRCs. Prints what load.py prints. Any failure ends it with a line on
 * stderr and exit code 1.
 *
 * The declarations are those of rdkafka.h that are used here. They are part of librdkafka's stable interface (1.0 to
 * 2.x); the wheel of confluent-kafka brings the library without its header. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_;
} rd_kafka_message_t;

enum { RD_KAFKA_PRODUCER = 0, RD_KAFKA_CONSUMER = 1, RD_KAFKA_CONF_OK = 0 };
enum { RD_KAFKA_RESP_ERR__QUEUE_FULL = -184, RD_KAFKA_OFFSET_BEGINNING = -2 };

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_flush(rd_kafka_t *, int);
int rd_kafka_last_error(void);
const char *rd_kafka_err2str(int);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int);
void *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *, const char *, int32_t);
int rd_kafka_topic_partition_list_set_offset(rd_kafka_topic_partition_list_t *, const char *, int32_t, int64_t);
int rd_kafka_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
void rd_kafka_message_destroy(rd_kafka_message_t *);
int rd_kafka_consumer_close(rd_kafka_t *);
void rd_kafka_queue_destroy(rd_kafka_queue_t *);
void rd_kafka_destroy(rd_kafka_t *);

enum { RECORD_BYTES = 1024, DEADLINE_S = 120, AT_ONCE = 1000 };
enum { COPY = 0x2 }; /* RD_KAFKA_MSG_F_COPY: the library keeps its own copy, as for a program that reuses its buffer */

static long acked, refused;
static int first_error;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static rd_kafka_t *client(int type, const char *const *settings)
{
    char why[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (; settings[0] != NULL; settings += 2)
        if (rd_kafka_conf_set(conf, settings[0], settings[1], why, sizeof why) != RD_KAFKA_CONF_OK)
            fail(settings[0], why);
    if (type == RD_KAFKA_PRODUCER) {
        void on_delivery(rd_kafka_t *, const rd_kafka_message_t *, void *);
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    }
    rd_kafka_t *made = rd_kafka_new(type, conf, why, sizeof why);
    if (made == NULL)
        fail("rd_kafka_new", why);
    return made;
}

void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    (void)rk, (void)opaque;
    if (message->err == 0)
        acked++;
    else if (refused++ == 0)
        first_error = message->err;
}

static double produce(const char *bootstrap, const char *topic, long records, const char *batch_bytes, const char *acks)
{
    const char *settings[] = {
        "bootstrap.servers", bootstrap, "acks", acks, "linger.ms", "5", "batch.size", batch_bytes,
        "batch.num.messages", "1000000", "max.in.flight", "5", "message.timeout.ms", "120000",
        /* As in load.py: a larger queue measures how fast this machine backs memory. */
        "queue.buffering.max.kbytes", "65536", NULL};
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, settings);
    rd_kafka_topic_t *to = rd_kafka_topic_new(producer, topic, NULL);
    if (to == NULL)
        fail("rd_kafka_topic_new", rd_kafka_err2str(rd_kafka_last_error()));
    char value[RECORD_BYTES];
    srandom(1);
    for (int i = 0; i < RECORD_BYTES; i++)
        value[i] = (char)random();
    double began_s = now_s();
    for (long i = 0; i < records; i++) {
        while (rd_kafka_produce(to, 0, COPY, value, sizeof value, NULL, 0, NULL) != 0) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                fail("rd_kafka_produce", rd_kafka_err2str(rd_kafka_last_error()));
            if (now_s() - began_s > DEADLINE_S)
                fail("produce", "the queue stayed full for the whole time");
            rd_kafka_poll(producer, 10);
        }
        if ((i & 1023) == 0)
            rd_kafka_poll(producer, 0);
    }
    rd_kafka_flush(producer, DEADLINE_S * 1000);
    double seconds = now_s() - began_s;
    if (acked != records) {
        char why[256];
        snprintf(why, sizeof why, "expected %ld acknowledged, got %ld and %ld refused (%s)", records, acked, refused,
                 rd_kafka_err2str(first_error));
        fail("produce", why);
    }
    return seconds;
}

/* Counts from after the first records to the last, as load.py does; `records` becomes what was counted. */
static double consume(const char *bootstrap, const char *topic, long *records)
{
    const char *settings[] = {
        "bootstrap.servers", bootstrap, "group.id", "bench-c", "enable.auto.commit", "false",
        "fetch.max.bytes", "52428800", "max.partition.fetch.bytes", "10485760", "check.crcs", "false", NULL};
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, settings);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0);
    rd_kafka_topic_partition_list_set_offset(list, topic, 0, RD_KAFKA_OFFSET_BEGINNING);
    int error = rd_kafka_assign(consumer, list);
    if (error != 0)
        fail("rd_kafka_assign", rd_kafka_err2str(error));
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumer);
    static rd_kafka_message_t *messages[AT_ONCE];
    long expected = *records, got = 0, at_first = 0;
    double deadline_s = now_s() + DEADLINE_S, first_s = 0;
    while (got < expected) {
        if (now_s() > deadline_s)
            fail("consume", "not all records were read within the time");
        /* Never more than are left: the call waits for the full number until its timeout. */
        long most = expected - got < AT_ONCE ? expected - got : AT_ONCE;
        ssize_t count = rd_kafka_consume_batch_queue(queue, 1000, messages, (size_t)most);
        if (count < 0)
            fail("consume", rd_kafka_err2str(rd_kafka_last_error()));
        for (ssize_t i = 0; i < count; i++) {
            if (messages[i]->err != 0 || messages[i]->offset != got || messages[i]->len != RECORD_BYTES)
                fail("consume", messages[i]->err ? rd_kafka_err2str(messages[i]->err) : "an offset that does not follow");
            got++;
            rd_kafka_message_destroy(messages[i]);
        }
        if (got > 0 && at_first == 0)
            first_s = now_s(), at_first = got;
    }
    double seconds = now_s() - first_s;
    *records = got - at_first;
    rd_kafka_queue_destroy(queue);
    rd_kafka_consumer_close(consumer);
    return seconds;
}

int main(int count, char **words)
{
    if (count != 7)
        fail("usage", "c_client produce|consume BOOTSTRAP TOPIC BYTES BATCH_BYTES ACKS");
    long records = atol(words[4]) / RECORD_BYTES;
    double seconds = strcmp(words[1], "produce") == 0 ? produce(words[2], words[3], records, words[5], words[6])
                                                      : consume(words[2], words[3], &records);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu_s = used.ru_utime.tv_sec + used.ru_utime.tv_usec / 1e6 + used.ru_stime.tv_sec + used.ru_stime.tv_usec / 1e6;
    printf("{\"mb_per_s\": %.1f, \"seconds\": %.3f, \"records\": %ld, \"cpu_s\": %.2f}\n",
           records * (double)RECORD_BYTES / 1e6 / seconds, seconds, records, cpu_s);
    return 0;
}
