/* Broker: answers each request with a prepared frame under the request's correlation id.
 *
 *     broker PORT ANSWERS
 *
 * ANSWERS is a file of: api key and version (int16 each), and the frame with its size field. A
 * connection that sends anything else is closed. Each connection has one request at a time.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { HEAD = 12, EVENTS = 256, BUFFER = 256 * 1024, ANSWERS = 64 };

struct answer {
    int16_t key, version;
    size_t length;
    const char *frame;
};

struct connection {
    int fd;
    int writes; /* whether an answer is unfinished, and EPOLLOUT is registered */
    size_t got, size;
    unsigned char head[HEAD];
    const struct answer *answer;
    size_t sent;
};

static struct answer answers[ANSWERS];
static int answer_count, poll_fd;
static char buffer[BUFFER];

static void fail(const char *what) {
    fprintf(stderr, "broker: %s\n", what);
    exit(1);
}

static uint32_t int32_at(const void *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return ntohl(value);
}

static int16_t int16_at(const void *bytes) {
    uint16_t value;
    memcpy(&value, bytes, sizeof value);
    return (int16_t)ntohs(value);
}

static void read_answers(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail("cannot read the answers");
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc(size);
    if (!bytes || fread(bytes, 1, size, file) != (size_t)size) fail("cannot read the answers");
    fclose(file);
    for (char *next = bytes; next < bytes + size && answer_count < ANSWERS; answer_count++) {
        struct answer *each = &answers[answer_count];
        *each = (struct answer){int16_at(next), int16_at(next + 2), int32_at(next + 4) + 4, next + 4};
        next += 4 + each->length;
    }
}

static const struct answer *answer_to(const unsigned char *head) {
    for (int i = 0; i < answer_count; i++)
        if (answers[i].key == int16_at(head + 4) && answers[i].version == int16_at(head + 6))
            return &answers[i];
    fprintf(stderr, "broker: no answer to api %d version %d\n", int16_at(head + 4), int16_at(head + 6));
    return NULL;
}

static void watch(struct connection *each, int writes) {
    if (each->writes == writes) return;
    struct epoll_event event = {.events = writes ? EPOLLOUT : EPOLLIN, .data.ptr = each};
    if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, each->fd, &event)) fail("epoll_ctl");
    each->writes = writes;
}

/* 0 if the connection is over. */
static int push(struct connection *each) {
    while (each->sent < each->answer->length) {
        const char *frame = each->answer->frame;
        struct iovec parts[3] = {{(char *)frame, 4}, {each->head + 8, 4},
                                 {(char *)frame + 8, each->answer->length - 8}};
        size_t skip = each->sent;
        int first = 0;
        while (skip >= parts[first].iov_len) skip -= parts[first++].iov_len;
        parts[first].iov_base = (char *)parts[first].iov_base + skip;
        parts[first].iov_len -= skip;
        struct msghdr message = {.msg_iov = parts + first, .msg_iovlen = 3 - first};
        ssize_t size = sendmsg(each->fd, &message, MSG_NOSIGNAL);
        if (size < 0 && errno == EAGAIN) break;
        if (size < 0) return 0;
        each->sent += size;
    }
    int is_unfinished = each->sent < each->answer->length;
    if (!is_unfinished) each->got = each->size = 0;
    watch(each, is_unfinished);
    return 1;
}

static int pull(struct connection *each) {
    ssize_t size;
    if (each->got < HEAD) {
        size = recv(each->fd, each->head + each->got, HEAD - each->got, 0);
    } else {
        size_t room = each->size - each->got;
        size = recv(each->fd, buffer, room < BUFFER ? room : BUFFER, 0);
    }
    if (size < 0 && errno == EAGAIN) return 1;
    if (size <= 0) return 0;
    each->got += size;
    if (each->got == HEAD) {
        each->size = int32_at(each->head) + 4;
        if (!(each->answer = answer_to(each->head))) return 0;
    }
    if (each->got < HEAD) return 1;
    if (each->got < each->size) return pull(each);
    each->sent = 0;
    return push(each);
}

static void take(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0) return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct connection *each = calloc(1, sizeof *each);
    if (!each) fail("no memory");
    each->fd = fd;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = each};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

int main(int argc, char **argv) {
    if (argc != 3) fail("PORT ANSWERS");
    read_answers(argv[2]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096))
        fail("cannot listen");
    poll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &event)) fail("epoll_ctl");
    for (;;) {
        int ready = epoll_wait(poll_fd, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *each = events[i].data.ptr;
            if (!each) {
                take(listener);
            } else if (!(each->writes ? push(each) : pull(each))) {
                close(each->fd);
                free(each);
            }
        }
    }
}
