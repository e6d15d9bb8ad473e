/* Stands between a program and its C library (LD_PRELOAD): shifts the wall clock, and slows, refuses or swallows calls on
 * segment files, as the mapped page says whose layout is in fault_page.py. Without an entry in the page every call goes
 * straight on. Only partitions' segment files are meant: *.log below the directory in the page, but not
 * __cluster_metadata, as in broker/log/disk_faults.py. What a program writes through a mapping (Kafka's indexes) goes
 * past it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, TRUNCATE = 4, READ = 8 };
#define RULES_MAX 8
#define DIRECTORY_BYTES 3072
#define PATH_BYTES 3072
#define FILE_PATH_BYTES 4096

struct rule {
    int64_t calls; /* any of the above */
    int64_t error; /* an errno, or 0 */
    int64_t delay_ns;
    int64_t is_lost; /* a sync that is not done */
    int64_t skip;
    int64_t matched;
    char path[PATH_BYTES]; /* a part of the file's path; empty: any */
};

struct page {
    int64_t clock_offset_ns;
    int64_t rules; /* how many of them hold */
    int64_t done[4]; /* calls slowed, refused or swallowed: write, sync, truncate, read */
    struct rule rule[RULES_MAX];
    char directory[DIRECTORY_BYTES];
};

static struct page *page;

__attribute__((constructor)) static void map_page(void) {
    const char *path = getenv("KAFKA_HARNESS_FAULT_PAGE");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (found != MAP_FAILED) page = found;
}

/* The C library's own function, looked up once. */
#define NEXT(result, name, ...) \
    static result (*next)(__VA_ARGS__); \
    if (next == NULL) next = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* `path` gets the path of the file. */
static int is_segment(int fd, char path[FILE_PATH_BYTES]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, FILE_PATH_BYTES - 1);
    if (size < 4) return 0;
    path[size] = 0;
    size_t prefix = strnlen(page->directory, DIRECTORY_BYTES);
    return strncmp(path, page->directory, prefix) == 0 && strcmp(path + size - 4, ".log") == 0 &&
           strstr(path, "__cluster_metadata") == NULL;
}

/* 0: go on. 1: it shall only look done. -1: errno is set. */
static int apply(int call, int fd) {
    int64_t rules = page == NULL ? 0 : __atomic_load_n(&page->rules, __ATOMIC_ACQUIRE);
    if (rules == 0) return 0;
    int before = errno, is_lost = 0;
    char path[FILE_PATH_BYTES];
    if (!is_segment(fd, path)) {
        errno = before;
        return 0;
    }
    for (int64_t i = 0; i < rules && i < RULES_MAX; i++) {
        struct rule *rule = &page->rule[i];
        if (!(rule->calls & call) || strstr(path, rule->path) == NULL) continue;
        if (__atomic_add_fetch(&rule->matched, 1, __ATOMIC_RELAXED) <= rule->skip) continue;
        __atomic_add_fetch(&page->done[__builtin_ctz((unsigned)call)], 1, __ATOMIC_RELAXED);
        if (rule->delay_ns > 0) {
            struct timespec left = {rule->delay_ns / 1000000000, rule->delay_ns % 1000000000};
            while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
        }
        if (rule->error != 0) {
            errno = (int)rule->error;
            return -1;
        }
        is_lost |= rule->is_lost != 0;
    }
    errno = before;
    return is_lost;
}

#define GUARDED(result, name, call, parameters, arguments, fd) \
    result name parameters { \
        NEXT(result, #name, TYPES_##name); \
        return apply(call, fd) < 0 ? (result)-1 : next arguments; \
    }

#define TYPES_write int, const void *, size_t
#define TYPES_pwrite int, const void *, size_t, off_t
#define TYPES_pwrite64 int, const void *, size_t, off64_t
#define TYPES_writev int, const struct iovec *, int
#define TYPES_pread int, void *, size_t, off_t
#define TYPES_pread64 int, void *, size_t, off64_t
#define TYPES_sendfile64 int, int, off64_t *, size_t
#define TYPES_ftruncate int, off_t
#define TYPES_ftruncate64 int, off64_t

GUARDED(ssize_t, write, WRITE, (int fd, const void *data, size_t size), (fd, data, size), fd)
GUARDED(ssize_t, pwrite, WRITE, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), fd)
GUARDED(ssize_t, pwrite64, WRITE, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), fd)
GUARDED(ssize_t, writev, WRITE, (int fd, const struct iovec *parts, int count), (fd, parts, count), fd)
GUARDED(ssize_t, pread, READ, (int fd, void *data, size_t size, off_t at), (fd, data, size, at), fd)
GUARDED(ssize_t, pread64, READ, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at), fd)
GUARDED(ssize_t, sendfile64, READ, (int to, int from, off64_t *at, size_t size), (to, from, at, size), from)
GUARDED(int, ftruncate, TRUNCATE, (int fd, off_t size), (fd, size), fd)
GUARDED(int, ftruncate64, TRUNCATE, (int fd, off64_t size), (fd, size), fd)

int fsync(int fd) {
    NEXT(int, "fsync", int);
    int found = apply(SYNC, fd);
    return found == 0 ? next(fd) : found > 0 ? 0 : -1;
}

int fdatasync(int fd) {
    NEXT(int, "fdatasync", int);
    int found = apply(SYNC, fd);
    return found == 0 ? next(fd) : found > 0 ? 0 : -1;
}

static int64_t offset_ns(void) {
    return page == NULL ? 0 : __atomic_load_n(&page->clock_offset_ns, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    NEXT(int, "clock_gettime", clockid_t, struct timespec *);
    int result = next == NULL ? (int)syscall(SYS_clock_gettime, clock, now) : next(clock, now);
    int64_t offset = result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) ? offset_ns() : 0;
    if (offset != 0) {
        int64_t shifted = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + offset;
        now->tv_sec = shifted / 1000000000;
        now->tv_nsec = shifted % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found) != 0) return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found) != 0) return (time_t)-1;
    if (now != NULL) *now = found.tv_sec;
    return found.tv_sec;
}
