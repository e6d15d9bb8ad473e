/* Both ends of many connections at once, so that a proxy between them is what limits: one thread each, by epoll.
 *
 *   crowd_ends echo                          prints its port, sends everything back but the first byte of a connection
 *   crowd_ends drive SIZE TRIPS PORT...      one connection to each port; each sends SIZE bytes as soon as the answer to
 *                                            its last ones is there; prints the seconds that TRIPS of each took
 *
 * Any failure ends it with a line on stderr and exit code 1. It ends by itself after DRIVE_LIFE_S or ECHO_LIFE_S. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, FDS = 65536, DRIVE_LIFE_S = 120, ECHO_LIFE_S = 3600 };

static char buffer[1 << 20];
static char is_known[FDS]; /* by descriptor: its first byte was read */
static int left[FDS], done[FDS];

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    int yes = 1;
    if (fd >= FDS) {
        errno = EMFILE;
        fail("descriptor");
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
        fail("epoll_ctl");
}

static void send_all(int fd, const char *data, ssize_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0)
            fail("send");
        data += sent;
        size -= sent;
    }
}

static void echo(int epoll, struct sockaddr_in address)
{
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct epoll_event events[EVENTS];
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096) ||
        getsockname(listener, (struct sockaddr *)&address, &size))
        fail("listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    watch(epoll, listener);
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd, skipped;
            ssize_t received;
            if (fd == listener) {
                int accepted;
                while ((accepted = accept4(listener, NULL, NULL, 0)) >= 0) {
                    watch(epoll, accepted);
                    is_known[accepted] = 0;
                }
                continue;
            }
            received = recv(fd, buffer, sizeof buffer, 0);
            if (received <= 0) {
                close(fd);
                continue;
            }
            skipped = !is_known[fd];
            is_known[fd] = 1;
            for (ssize_t sent = skipped; sent < received;) {
                ssize_t more = send(fd, buffer + sent, received - sent, MSG_NOSIGNAL);
                if (more < 0)
                    break; /* the other end is gone; the next read says so */
                sent += more;
            }
        }
    }
}

static int drive(int epoll, struct sockaddr_in address, int size, int trips, int ports, char **port)
{
    struct epoll_event events[EVENTS];
    int running = ports, *fds = calloc(ports, sizeof *fds);
    double began_s;
    for (int i = 0; i < ports; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        address.sin_port = htons(atoi(port[i]));
        if (fds[i] < 0 || connect(fds[i], (struct sockaddr *)&address, sizeof address))
            fail("connect");
        watch(epoll, fds[i]);
        send_all(fds[i], "Exx", 3); /* the first byte, and two that come back: the way is open to the far end */
        for (int got = 0; got < 2;) {
            ssize_t received = recv(fds[i], buffer, 2 - got, 0);
            if (received <= 0)
                fail("first bytes");
            got += received;
        }
    }
    began_s = now_s();
    for (int i = 0; i < ports; i++) {
        left[fds[i]] = size;
        send_all(fds[i], buffer, size);
    }
    while (running) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            ssize_t received = recv(fd, buffer, left[fd], 0);
            if (received <= 0)
                fail("closed");
            if ((left[fd] -= received) > 0)
                continue;
            if (++done[fd] == trips) {
                running--;
                continue;
            }
            left[fd] = size;
            send_all(fd, buffer, size);
        }
    }
    printf("%.6f\n", now_s() - began_s);
    return 0;
}

int main(int count, char **argument)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rlimit limit;
    int epoll = epoll_create1(0), size;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (epoll < 0)
        fail("epoll");
    if (count == 2 && !strcmp(argument[1], "echo")) {
        alarm(ECHO_LIFE_S);
        echo(epoll, address);
    }
    if (count > 4 && !strcmp(argument[1], "drive") && (size = atoi(argument[2])) > 0 && size < (int)sizeof buffer) {
        alarm(DRIVE_LIFE_S);
        return drive(epoll, address, size, atoi(argument[3]), count - 4, argument + 4);
    }
    fprintf(stderr, "usage: crowd_ends echo | drive SIZE TRIPS PORT...\n");
    return 1;
}
