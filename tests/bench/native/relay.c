/* Relay: copies bytes between each client and a connection of its own to a server.
 *
 *     relay PORT SERVER_PORT
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, BUFFER = 256 * 1024 };

/* One side of a pair. What it has received and its other side has not taken yet waits in `rest`. */
struct side {
    int fd;
    unsigned events;
    struct side *other;
    char *rest;
    size_t start, end;
};

static char buffer[BUFFER];
static int poll_fd;
static struct side *over[EVENTS * 2];
static int over_count;

static void fail(const char *what) {
    fprintf(stderr, "relay: %s\n", what);
    exit(1);
}

static void watch(struct side *side) {
    unsigned events = (side->rest ? 0 : EPOLLIN) | (side->other->rest ? EPOLLOUT : 0);
    if (events == side->events) return;
    struct epoll_event event = {.events = events, .data.ptr = side};
    if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, side->fd, &event)) fail("epoll_ctl");
    side->events = events;
}

static void end(struct side *side) {
    if (side->fd < 0) return;
    close(side->fd);
    close(side->other->fd);
    side->fd = side->other->fd = -1;
    over[over_count++] = side;
}

static void keep(struct side *side, const char *bytes, size_t size) {
    side->rest = malloc(size);
    if (!side->rest) fail("no memory");
    memcpy(side->rest, bytes, size);
    side->start = 0;
    side->end = size;
}

static void pull(struct side *side) {
    ssize_t size = recv(side->fd, buffer, BUFFER, 0);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {
        end(side);
        return;
    }
    ssize_t sent = send(side->other->fd, buffer, size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        end(side);
        return;
    }
    if (sent < size) {
        keep(side, buffer + (sent > 0 ? sent : 0), size - (sent > 0 ? sent : 0));
        watch(side);
        watch(side->other);
    }
}

/* Send what waits for this side. */
static void push(struct side *side) {
    struct side *from = side->other;
    if (!from->rest) return;
    ssize_t sent = send(side->fd, from->rest + from->start, from->end - from->start, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) {
        end(side);
        return;
    }
    from->start += sent;
    if (from->start == from->end) {
        free(from->rest);
        from->rest = NULL;
        watch(side);
        watch(from);
    }
}

static void add(struct side *side, int fd, struct side *other) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *side = (struct side){.fd = fd, .events = EPOLLIN, .other = other};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = side};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

static struct sockaddr_in at(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void take(int listener, int server_port) {
    int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (client < 0) return;
    struct sockaddr_in address = at(server_port);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct side *pair = calloc(2, sizeof *pair);
    if (server < 0 || !pair) fail("no memory");
    if (connect(server, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS)
        fail("cannot connect");
    add(&pair[0], client, &pair[1]);
    add(&pair[1], server, &pair[0]);
}

static void free_pairs(void) {
    for (; over_count; over_count--) {
        struct side *side = over[over_count - 1], *other = side->other;
        free(side->rest);
        free(other->rest);
        free(side < other ? side : other);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) fail("PORT SERVER_PORT");
    struct sockaddr_in address = at(atoi(argv[1]));
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
            struct side *side = events[i].data.ptr;
            if (!side) {
                take(listener, atoi(argv[2]));
                continue;
            }
            if (side->fd >= 0 && events[i].events & EPOLLOUT) push(side);
            if (side->fd >= 0 && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) pull(side);
        }
        free_pairs();
    }
}
