/* The wall clock of a process, shifted by what a file says: loaded before libc, see shifted_clock.py.
 *
 * The file holds one int64, nanoseconds, and is mapped: a change counts at once. The monotonic clocks stay as they are,
 * as where a wall clock is set. Who waits until a time of the wall clock waits by the shifted one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL
/* A deadline above it is of the wall clock, not of one that counts from the machine's start. */
#define WALL_S 300000000LL

static volatile int64_t *shift;

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("COLDNOTIFY_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *at = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) shift = at;
}

static struct timespec moved(struct timespec t, int64_t by_ns) {
    int64_t ns = t.tv_nsec + by_ns % NS;
    t.tv_sec += by_ns / NS + (ns < 0 ? -1 : ns / NS);
    t.tv_nsec = ns < 0 ? ns + NS : ns % NS;
    return t;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, t);
    if (!failed && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *t = moved(*t, *shift);
    return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (t) *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return (time_t)-1;
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *t, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, t) ? base : 0;
}

static struct timespec own(const struct timespec *until) {
    struct timespec t = *until;
    if (shift && t.tv_sec > WALL_S) t = moved(t, -*shift);
    return t.tv_sec < 0 ? (struct timespec){0, 0} : t;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    /* Without its version, the one of before glibc 2.3.2 would be found. */
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec t = own(until);
    return real(cond, mutex, &t);
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict until) {
    static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec t = own(until);
    return real(cond, mutex, &t);
}
