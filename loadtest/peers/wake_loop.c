// Devices that wake, in an open loop: connect, say what the file has for this device, wait for the answer's end, close.
// wake_loop tls: succeeds where it was built with TLS
// wake_loop PROTOCOL HOST PORT HELLOS RATE SECONDS SOURCES [CA CERTIFICATE KEY RESUME]
//   PROTOCOL  frames (ColdNotify), nats or mqtt: by it the end of an answer is known
//   HELLOS    for each device the length (32 bits, little-endian) and the bytes that it says; they take turns
//   RATE      wakes a second, at random times (Poisson); 0: each device once, all now, and connections are held
//   SOURCES   connections come from 127.1.0.1 and so many addresses after it: each has its own 28,000 ports
// Prints one line of JSON: wakes that were due, complete, failed, and in a TLS session that was resumed; quantiles of due to complete in us; CPU seconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/ssl.h>
#else
typedef void SSL;
typedef void SSL_SESSION;
#endif

enum { EVENTS_MAX = 512, RECEIVED_MAX = 8192, LATE_S = 20 };
enum state { FREE, CONNECTING, HANDSHAKE, WAITING, DONE };

struct device {
    uint32_t size;
    char *hello;
    SSL_SESSION *session;
    int busy;
};
struct connection {
    enum state state;
    uint32_t device;
    int64_t due_ns;
    SSL *ssl;
    int size;
    char *received;
};

static struct device *devices;
static uint32_t device_count;
static struct connection *connections;
static int epoll, holds;
static char protocol;
static uint32_t *taken_us;
static long due, done, failed, skipped, resumed, done_max;
static int64_t last_ns;

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

#ifdef WITH_TLS
static SSL_CTX *context;
static int resume;
#endif

static void end(int fd, int complete) {
    struct connection *one = &connections[fd];
#ifdef WITH_TLS
    if (one->ssl) {
        if (complete) resumed += SSL_session_reused(one->ssl);
        if (complete && resume) {
            SSL_SESSION *session = SSL_get1_session(one->ssl);
            if (session && SSL_SESSION_is_resumable(session)) {
                if (devices[one->device].session) SSL_SESSION_free(devices[one->device].session);
                devices[one->device].session = session;
            } else if (session)
                SSL_SESSION_free(session);
        }
        SSL_set_quiet_shutdown(one->ssl, 1);
        SSL_shutdown(one->ssl);
        SSL_free(one->ssl);
        one->ssl = NULL;
    }
#endif
    (void)complete;
    one->state = FREE;
    devices[one->device].busy = 0;
    close(fd);
}

static void fail(int fd) {
    failed++;
    end(fd, 0);
}

static int say(struct connection *one, int fd, const char *data, int size) {
#ifdef WITH_TLS
    if (one->ssl) return SSL_write(one->ssl, data, size) == size;
#endif
    (void)one;
    return send(fd, data, size, MSG_NOSIGNAL) == size;
}

// Whether the answer is whole: 1; not yet: 0; it is no good one: -1.
static int judge(struct connection *one) {
    const unsigned char *data = (unsigned char *)one->received;
    if (protocol == 'n') return memmem(data, one->size, "PONG\r\n", 6) ? 1 : memmem(data, one->size, "-ERR", 4) ? -1 : 0;
    if (protocol == 'm') return one->size < 4 ? 0 : data[0] == 0x20 && data[2] == 1 && data[3] == 0 ? 1 : -1;
    int at = 0;
    for (;;) {
        int size = 0, shift = 0, i = at;
        do {
            if (i >= one->size) return 0;
            size |= (data[i] & 0x7f) << shift;
            shift += 7;
        } while (data[i++] & 0x80);
        if (i + size > one->size) return 0;
        if (size > 0 && data[i] == 0x1a) return 1;                                // CaughtUp
        if (size > 0 && data[i] == 0x4a) return -1;                               // Close
        if (size > 3 && data[i] == 0x0a && data[i + 2] != 0x08) return -1;        // a Welcome that is not in sync
        at = i + size;
    }
}

static void hear(int fd) {
    struct connection *one = &connections[fd];
    int size;
    if (one->state == DONE) {
        char nothing[4096];
        size = recv(fd, nothing, sizeof nothing, 0);
        if (size == 0 || (size < 0 && errno != EAGAIN)) fail(fd);
        return;
    }
    for (;;) {
        if (one->size >= RECEIVED_MAX) {
            fail(fd);
            return;
        }
#ifdef WITH_TLS
        if (one->ssl) {
            size = SSL_read(one->ssl, one->received + one->size, RECEIVED_MAX - one->size);
            if (size <= 0) {
                if (SSL_get_error(one->ssl, size) == SSL_ERROR_WANT_READ) return;
                fail(fd);
                return;
            }
        } else
#endif
        {
            size = recv(fd, one->received + one->size, RECEIVED_MAX - one->size, 0);
            if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
            if (size <= 0) {
                fail(fd);
                return;
            }
        }
        one->size += size;
        int judged = judge(one);
        if (judged < 0) {
            fail(fd);
            return;
        }
        if (judged > 0) break;
#ifdef WITH_TLS
        if (one->ssl) continue;
#endif
        return;
    }
    last_ns = now_ns();
    if (done < done_max) taken_us[done] = (last_ns - one->due_ns) / 1000;
    done++;
    if (holds) {
        one->state = DONE;
        return;
    }
    if (protocol == 'f') say(one, fd, "\x02\x42\x00", 3);  // Bye
    if (protocol == 'm') say(one, fd, "\xe0\x00", 2);      // DISCONNECT
    end(fd, 1);
}

static void greet(int fd) {
    struct connection *one = &connections[fd];
    struct device *device = &devices[one->device];
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
#ifdef WITH_TLS
    if (one->ssl) {
        int result = SSL_connect(one->ssl);
        if (result <= 0) {
            int error = SSL_get_error(one->ssl, result);
            if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
                fail(fd);
                return;
            }
            one->state = HANDSHAKE;
            epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
            return;
        }
    }
#endif
    one->state = WAITING;
    epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
    if (!say(one, fd, device->hello, device->size)) fail(fd);
}

static void wake(uint32_t number, int64_t due_ns, const struct sockaddr_in *server, uint32_t source) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0) die("socket");
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f010001 + source)};
    setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&from, sizeof from)) die("bind");
    struct connection *connection = &connections[fd];
    connection->state = CONNECTING;
    connection->device = number;
    connection->due_ns = due_ns;
    connection->size = 0;
    if (!connection->received) connection->received = malloc(RECEIVED_MAX);
#ifdef WITH_TLS
    if (context) {
        connection->ssl = SSL_new(context);
        SSL_set_fd(connection->ssl, fd);
        if (devices[number].session) SSL_set_session(connection->ssl, devices[number].session);
    }
#endif
    devices[number].busy = 1;
    struct epoll_event event = {.events = EPOLLOUT, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    if (connect(fd, (struct sockaddr *)server, sizeof *server) && errno != EINPROGRESS) fail(fd);
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double quantile(double share) {
    long count = done < done_max ? done : done_max;
    return count ? (double)taken_us[(long)(share * (count - 1))] : -1;
}

int main(int argc, char **argv) {
#ifdef WITH_TLS
    if (argc == 2 && !strcmp(argv[1], "tls")) return 0;
#endif
    if (argc < 8) {
        fprintf(stderr, "wake_loop PROTOCOL HOST PORT HELLOS RATE SECONDS SOURCES [CA CERTIFICATE KEY RESUME]\n");
        return 2;
    }
    protocol = argv[1][0];
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
    if (!inet_pton(AF_INET, argv[2], &server.sin_addr)) die(argv[2]);
    double rate = atof(argv[5]), seconds = atof(argv[6]);
    uint32_t sources = atoi(argv[7]), size;
    holds = rate <= 0;
    FILE *file = fopen(argv[4], "rb");
    if (!file) die(argv[4]);
    while (fread(&size, 4, 1, file) == 1) {
        devices = realloc(devices, (device_count + 1) * sizeof *devices);
        devices[device_count] = (struct device){.size = size, .hello = malloc(size)};
        if (fread(devices[device_count++].hello, 1, size, file) != size) die("the hellos end early");
    }
    fclose(file);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    connections = calloc(files.rlim_max, sizeof *connections);
#ifdef WITH_TLS
    if (argc > 11) {
        context = SSL_CTX_new(TLS_client_method());
        resume = atoi(argv[11]);
        if (!SSL_CTX_load_verify_locations(context, argv[8], NULL) ||
            (*argv[9] && (!SSL_CTX_use_certificate_chain_file(context, argv[9]) ||
                          !SSL_CTX_use_PrivateKey_file(context, argv[10], SSL_FILETYPE_PEM))))
            die("certificates");
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    }
#else
    if (argc > 11) die("built without TLS");
#endif
    done_max = holds ? device_count : (long)(rate * seconds * 1.5) + 10000;
    taken_us = malloc(done_max * sizeof *taken_us);
    epoll = epoll_create1(0);
    srand48(1);
    struct epoll_event events[EVENTS_MAX];
    int64_t begun_ns = now_ns(), next_ns = begun_ns, end_ns = begun_ns + (int64_t)(seconds * 1e9);
    uint32_t number = 0, source = 0;
    for (;;) {
        int64_t at_ns = now_ns();
        int begun = 0;  // who is answered is looked at between them, so that a burst of due ones delays no answer
        while (next_ns <= at_ns && next_ns < end_ns && (!holds || number < device_count) && begun++ < 64) {
            uint32_t tried = 0;
            while (devices[number % device_count].busy && tried++ < device_count) number++;
            due++;
            if (tried > device_count || due - done - failed - skipped > (long)files.rlim_max - 200)
                skipped++;
            else
                wake(number++ % device_count, next_ns, &server, source++ % sources);
            if (!holds) next_ns += (int64_t)(-log(1 - drand48()) / rate * 1e9);
        }
        int ended = holds ? number >= device_count : next_ns >= end_ns;
        if (ended && (done + failed + skipped >= due || at_ns > end_ns + LATE_S * 1000000000LL)) break;
        int64_t until_ns = ended ? at_ns + 50000000 : next_ns;
        int64_t left_ns = until_ns - now_ns();
        struct timespec limit = {.tv_nsec = left_ns < 0 ? 0 : left_ns > 50000000 ? 50000000 : left_ns};
        int found = epoll_pwait2(epoll, events, EVENTS_MAX, &limit, NULL);
        for (int i = 0; i < found; i++) {
            int fd = events[i].data.fd;
            enum state state = connections[fd].state;
            if (state == CONNECTING || state == HANDSHAKE) {
                int error = 0;
                socklen_t length = sizeof error;
                if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) || error)
                    fail(fd);
                else
                    greet(fd);
            } else if (state != FREE)
                hear(fd);
        }
    }
    long late = due - done - failed - skipped;
    qsort(taken_us, done < done_max ? done : done_max, sizeof *taken_us, by_size);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu_s = used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"due\": %ld, \"done\": %ld, \"failed\": %ld, \"skipped\": %ld, \"late\": %ld, \"resumed\": %ld, \"seconds\": %.3f, "
           "\"p50_ms\": %.3f, \"p95_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f, \"cpu_s\": %.3f}\n",
           due, done, failed, skipped, late, resumed, (last_ns - begun_ns) / 1e9, quantile(0.5) / 1e3, quantile(0.95) / 1e3,
           quantile(0.99) / 1e3, quantile(1) / 1e3, cpu_s);
    return 0;
}
