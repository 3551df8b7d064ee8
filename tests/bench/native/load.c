/* Load: N connections that each send a prepared request, check its answer, and send the next.
 *
 *     load PORT CONNECTIONS ANSWER_BYTES ERROR_AT FRAMES
 *
 * FRAMES is a file of request frames; connection i sends frame i modulo their number, with a new
 * correlation id each time. An answer must have ANSWER_BYTES bytes with its size field, the
 * request's correlation id, and an error code of 0 at byte ERROR_AT (-1: none).
 *
 * Prints "ready" once every connection has had one answer. Then, for each line "COUNT" on stdin,
 * sends COUNT requests and prints "WALL MEDIAN P99 WORST" in nanoseconds: WORST is the highest p99
 * of one connection.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 128, EVENTS = 256, BUFFER = 256 * 1024 };

struct connection {
    int fd;
    int writes; /* whether EPOLLOUT is registered */
    char *frame;
    size_t length, sent, got;
    uint32_t correlation;
    int64_t began;
    unsigned char head[HEAD];
};

struct latency {
    uint32_t connection, ns;
};

static char buffer[BUFFER];
static struct connection *connections;
static struct latency *latencies;
static long connection_count, done, begun, wanted;
static size_t answer_bytes;
static long error_at;
static int poll_fd;

static void fail(const char *what) {
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static uint32_t int32_at(const void *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return ntohl(value);
}

static void watch(struct connection *each, int writes) {
    if (each->writes == writes) return;
    struct epoll_event event = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = each};
    if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, each->fd, &event)) fail("epoll_ctl");
    each->writes = writes;
}

static void push(struct connection *each) {
    while (each->sent < each->length) {
        ssize_t size = send(each->fd, each->frame + each->sent, each->length - each->sent, MSG_NOSIGNAL);
        if (size < 0 && errno == EAGAIN) break;
        if (size < 0) fail("a connection was lost while sending");
        each->sent += size;
    }
    watch(each, each->sent < each->length);
}

static void begin(struct connection *each) {
    uint32_t correlation = htonl(++each->correlation);
    memcpy(each->frame + 8, &correlation, sizeof correlation);
    each->sent = each->got = 0;
    each->began = now_ns();
    begun++;
    push(each);
}

static void check(struct connection *each) {
    const unsigned char *head = each->head;
    if (int32_at(head) + 4 != answer_bytes) {
        fprintf(stderr, "load: an answer of %u bytes instead of %zu\n", int32_at(head) + 4, answer_bytes);
        exit(1);
    }
    if (int32_at(head + 4) != each->correlation) fail("an answer to another request");
    if (error_at >= 0 && (head[error_at] || head[error_at + 1])) {
        fprintf(stderr, "load: error code %d\n", (int16_t)(head[error_at] << 8 | head[error_at + 1]));
        exit(1);
    }
}

static void pull(struct connection *each) {
    size_t room = answer_bytes - each->got;
    ssize_t size = recv(each->fd, buffer, room < BUFFER ? room : BUFFER, 0);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) fail("a connection was lost");
    if (each->got < HEAD) {
        size_t part = HEAD - each->got;
        memcpy(each->head + each->got, buffer, part < (size_t)size ? part : (size_t)size);
    }
    size_t before = each->got;
    each->got += size;
    /* A shorter answer, such as one with an error, would leave us waiting for the rest. */
    if (before < 8 && each->got >= 8 && int32_at(each->head) + 4 != answer_bytes) check(each);
    if (each->got < answer_bytes) return;
    check(each);
    if (done < wanted)
        latencies[done] = (struct latency){each - connections, now_ns() - each->began};
    done++;
    if (begun < wanted) begin(each);
}

static void run(long count) {
    done = begun = 0;
    wanted = count;
    for (long i = 0; i < connection_count && begun < wanted; i++) begin(&connections[i]);
    struct epoll_event events[EVENTS];
    while (done < wanted) {
        int ready = epoll_wait(poll_fd, events, EVENTS, 30000);
        if (ready == 0) fail("no answer in 30 s");
        for (int i = 0; i < ready; i++) {
            struct connection *each = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) push(each);
            if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) pull(each);
        }
    }
}

static int by_ns(const void *a, const void *b) {
    uint32_t left = ((const struct latency *)a)->ns, right = ((const struct latency *)b)->ns;
    return (left > right) - (left < right);
}

static int by_connection(const void *a, const void *b) {
    uint32_t left = ((const struct latency *)a)->connection;
    uint32_t right = ((const struct latency *)b)->connection;
    return left == right ? by_ns(a, b) : (left > right) - (left < right);
}

static uint32_t worst_p99(long count) {
    uint32_t worst = 0;
    qsort(latencies, count, sizeof *latencies, by_connection);
    for (long start = 0, end; start < count; start = end) {
        for (end = start; end < count && latencies[end].connection == latencies[start].connection;) end++;
        uint32_t p99 = latencies[start + (end - start) * 99 / 100].ns;
        if (p99 > worst) worst = p99;
    }
    return worst;
}

static void measure(long count) {
    latencies = calloc(count, sizeof *latencies);
    if (!latencies) fail("no memory");
    int64_t began = now_ns();
    run(count);
    int64_t wall = now_ns() - began;
    qsort(latencies, count, sizeof *latencies, by_ns);
    uint32_t median = latencies[count / 2].ns, p99 = latencies[count * 99 / 100].ns;
    printf("%lld %u %u %u\n", (long long)wall, median, p99, worst_p99(count));
    fflush(stdout);
    free(latencies);
}

static char *read_frames(const char *path, long *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail("cannot read the frames");
    *size = ftell(file);
    rewind(file);
    char *bytes = malloc(*size);
    if (!bytes || fread(bytes, 1, *size, file) != (size_t)*size) fail("cannot read the frames");
    fclose(file);
    return bytes;
}

static void open_connection(struct connection *each, int port, const char *frame) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    each->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (each->fd < 0 || connect(each->fd, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect");
    setsockopt(each->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    each->length = int32_at(frame) + 4;
    each->frame = malloc(each->length);
    if (!each->frame) fail("no memory");
    memcpy(each->frame, frame, each->length);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = each};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, each->fd, &event)) fail("epoll_ctl");
}

int main(int argc, char **argv) {
    if (argc != 6) fail("PORT CONNECTIONS ANSWER_BYTES ERROR_AT FRAMES");
    int port = atoi(argv[1]);
    connection_count = atol(argv[2]);
    answer_bytes = atol(argv[3]);
    error_at = atol(argv[4]);
    if (answer_bytes < 8 || error_at + 2 > HEAD || error_at + 2 > (long)answer_bytes)
        fail("the error code lies outside of the answer's first bytes");
    long size;
    char *frames = read_frames(argv[5], &size), *next = frames;
    connections = calloc(connection_count, sizeof *connections);
    poll_fd = epoll_create1(0);
    for (long i = 0; i < connection_count; i++) {
        open_connection(&connections[i], port, next);
        next += int32_at(next) + 4;
        if (next >= frames + size) next = frames;
    }
    /* Connections become non-blocking once they are open. Each gets one answer. */
    for (long i = 0; i < connection_count; i++) {
        struct timeval limit = {.tv_sec = 30};
        setsockopt(connections[i].fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        begin(&connections[i]);
        wanted = 0;
        while (connections[i].got < answer_bytes) {
            size_t before = connections[i].got;
            pull(&connections[i]);
            if (connections[i].got == before) fail("no first answer in 30 s");
        }
        if (fcntl(connections[i].fd, F_SETFL, O_NONBLOCK)) fail("fcntl");
    }
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) measure(atol(line));
    return 0;
}
