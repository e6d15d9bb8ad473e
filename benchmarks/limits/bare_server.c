/* A server that does the least that a broker must do with a Produce request. It receives the request, writes it to one
 * file with one pwrite, and answers. It looks at nothing but lengths and API keys: no header, no CRC, no record, no
 * producer, no topic. So no broker that writes each batch once can be faster in as many threads.
 *
 * bare_server THREADS FILE METADATA ANSWER OFFSET_POSITION RECORDS
 *   FILE: what is written to; "" writes nothing
 *   METADATA, ANSWER: files with the frames that answer Metadata (any other request) and Produce
 *   OFFSET_POSITION, RECORDS: where an answer has its base offset, and how many records a request has
 *
 * The port is given by the environment, because METADATA names it. Connections go to the threads in turns. It ends when
 * its standard input does. Built by benchmarks/limits/servers.py.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES (4 << 20) /* more than the largest request; several small ones come with one call */
#define THREADS_MAX 8
#define EVENTS_MAX 64
#define PRODUCE 0

struct connection {
    int descriptor;
    size_t start, end;
    uint8_t *buffer, *answers;
};

static int threads, polls[THREADS_MAX], file = -1;
static uint8_t *metadata, *answer;
static size_t metadata_bytes, answer_bytes, offset_position;
static uint64_t records;
static _Atomic uint64_t written, base_offset;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint8_t *read_whole(const char *path, size_t *size) {
    FILE *source = fopen(path, "rb");
    uint8_t *data = malloc(1 << 16);
    if (!source || !data) fail(path);
    *size = fread(data, 1, 1 << 16, source);
    fclose(source);
    return data;
}

static uint32_t number_at(const uint8_t *place) {
    uint32_t value;
    memcpy(&value, place, 4);
    return ntohl(value);
}

static void send_whole(int descriptor, const uint8_t *data, size_t size) {
    while (size) {
        ssize_t sent = send(descriptor, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) continue; /* answers are small: the peer's window is never full */
        if (sent < 0) return;
        data += sent, size -= (size_t)sent;
    }
}

/* Takes all whole requests, and sends their answers with one call. */
static void handle(struct connection *each) {
    size_t answered = 0;
    while (each->end - each->start >= 8) {
        uint8_t *frame = each->buffer + each->start;
        size_t size = 4 + (size_t)number_at(frame);
        if (size > BUFFER_BYTES) exit(2);
        if (each->end - each->start < size) break;
        int is_produce = frame[4] == 0 && frame[5] == PRODUCE;
        size_t count = is_produce ? answer_bytes : metadata_bytes;
        uint8_t *out = each->answers + answered;
        memcpy(out, is_produce ? answer : metadata, count);
        memcpy(out + 4, frame + 8, 4); /* the correlation id */
        if (is_produce) {
            if (file >= 0 && pwrite(file, frame, size, (off_t)atomic_fetch_add(&written, size)) != (ssize_t)size)
                fail("pwrite");
            uint64_t base = htobe64(atomic_fetch_add(&base_offset, records));
            memcpy(out + offset_position, &base, 8);
        }
        answered += count;
        each->start += size;
        if (answered > BUFFER_BYTES / 2) send_whole(each->descriptor, each->answers, answered), answered = 0;
    }
    if (answered) send_whole(each->descriptor, each->answers, answered);
    if (each->start == each->end) {
        each->start = each->end = 0;
    } else if (each->start && BUFFER_BYTES - each->end < BUFFER_BYTES / 2) {
        memmove(each->buffer, each->buffer + each->start, each->end - each->start);
        each->end -= each->start, each->start = 0;
    }
}

static void *serve(void *poll) {
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int ready = epoll_wait(*(int *)poll, events, EVENTS_MAX, -1);
        for (int index = 0; index < ready; index++) {
            struct connection *each = events[index].data.ptr;
            ssize_t count = recv(each->descriptor, each->buffer + each->end, BUFFER_BYTES - each->end, 0);
            if (count < 0 && errno == EAGAIN) continue;
            if (count <= 0) {
                close(each->descriptor);
                free(each->buffer), free(each->answers), free(each);
                continue;
            }
            each->end += (size_t)count;
            handle(each);
        }
    }
    return NULL;
}

static void *accept_all(void *argument) {
    int listener = *(int *)argument;
    for (int turn = 0;; turn++) {
        struct connection *each = calloc(1, sizeof *each);
        each->descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (each->descriptor < 0) fail("accept");
        int yes = 1;
        setsockopt(each->descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        each->buffer = malloc(BUFFER_BYTES), each->answers = malloc(BUFFER_BYTES);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = each};
        if (epoll_ctl(polls[turn % threads], EPOLL_CTL_ADD, each->descriptor, &event)) fail("epoll_ctl");
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 7) return 2;
    threads = atoi(arguments[1]);
    if (threads < 1 || threads > THREADS_MAX) return 2;
    if (*arguments[2] && (file = open(arguments[2], O_RDWR | O_CREAT | O_TRUNC, 0600)) < 0) fail(arguments[2]);
    metadata = read_whole(arguments[3], &metadata_bytes);
    answer = read_whole(arguments[4], &answer_bytes);
    offset_position = (size_t)atoi(arguments[5]);
    records = (uint64_t)atoll(arguments[6]);
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)atoi(getenv("PORT") ? getenv("PORT") : "0"))};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64)) fail("listen");
    pthread_t thread;
    for (int index = 0; index < threads; index++) {
        polls[index] = epoll_create1(0);
        if (pthread_create(&thread, NULL, serve, &polls[index])) fail("pthread_create");
    }
    if (pthread_create(&thread, NULL, accept_all, &listener)) fail("pthread_create");
    puts("ready"), fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}
