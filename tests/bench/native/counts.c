/* Counts what a Python process does, for `counted.py`, which loads it as a library.
 *
 * `count_steps` counts, for the thread that calls it, lines, calls of Python functions, calls of C
 * functions, and those that are system calls by their name. `count_memory` counts, for the process,
 * the bytes and blocks that Python allocates. Counting steps allocates, so they are not counted at
 * the same time. What CPython 3.11 and later declare is declared here again, because not every machine has
 * its headers.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CALL = 0, LINE = 2, C_CALL = 4 };

typedef struct {
    void *context;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
} allocator;
typedef struct {
    ptrdiff_t references;
    void *type;
    struct { const char *name; } *method;
} c_function;
typedef int tracer(void *, void *, int, void *);

extern void PyEval_SetProfile(tracer *, void *);
extern void PyEval_SetTrace(tracer *, void *);
extern void PyMem_GetAllocator(int, allocator *);
extern void PyMem_SetAllocator(int, allocator *);

struct {
    uint64_t lines, calls, c_calls, system_calls, bytes, blocks;
} counts;

static const char *const SYSTEM_CALLS[] = {
    "accept", "close", "connect", "fcntl", "fdatasync", "fsync", "ioctl", "modify", "open", "poll",
    "read", "recv", "recv_into", "recvmsg", "register", "send", "sendall", "sendmsg", "setsockopt",
    "shutdown", "splice", "unregister", "write", "writev",
};

static int is_system_call(const c_function *function)
{
    for (size_t i = 0; i < sizeof SYSTEM_CALLS / sizeof *SYSTEM_CALLS; i++)
        if (strcmp(function->method->name, SYSTEM_CALLS[i]) == 0)
            return 1;
    return 0;
}

static int trace(void *context, void *frame, int event, void *argument)
{
    (void)context, (void)frame, (void)argument;
    counts.lines += event == LINE;
    return 0;
}

static int profile(void *context, void *frame, int event, void *argument)
{
    (void)context, (void)frame;
    counts.calls += event == CALL;
    if (event == C_CALL) {
        counts.c_calls++;
        counts.system_calls += is_system_call(argument);
    }
    return 0;
}

void count_steps(void)
{
    PyEval_SetProfile(profile, NULL);
    PyEval_SetTrace(trace, NULL);
}

static allocator before[3];

static void note(size_t bytes)
{
    __atomic_fetch_add(&counts.bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts.blocks, 1, __ATOMIC_RELAXED);
}

static void *counted_malloc(void *context, size_t size)
{
    allocator *own = context;
    note(size);
    return own->malloc(own->context, size);
}

static void *counted_calloc(void *context, size_t count, size_t size)
{
    allocator *own = context;
    note(count * size);
    return own->calloc(own->context, count, size);
}

static void *counted_realloc(void *context, void *block, size_t size)
{
    allocator *own = context;
    note(size);
    return own->realloc(own->context, block, size);
}

static void counted_free(void *context, void *block)
{
    allocator *own = context;
    own->free(own->context, block);
}

/* Of the domains "mem" and "object", which hold Python's objects. */
void count_memory(void)
{
    for (int domain = 1; domain <= 2; domain++) {
        allocator counted = {&before[domain], counted_malloc, counted_calloc, counted_realloc,
                             counted_free};
        PyMem_GetAllocator(domain, &before[domain]);
        PyMem_SetAllocator(domain, &counted);
    }
}

void stop(void)
{
    PyEval_SetProfile(NULL, NULL);
    PyEval_SetTrace(NULL, NULL);
    for (int domain = 1; domain <= 2; domain++)
        if (before[domain].malloc != NULL)
            PyMem_SetAllocator(domain, &before[domain]);
}
