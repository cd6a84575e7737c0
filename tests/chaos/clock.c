/* A clock of the day that is wrong: LD_PRELOAD of a program whose environment names a file with the error, eight bytes
   of nanoseconds. What measures durations (CLOCK_MONOTONIC) is right, as it is where somebody sets a clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *error_ns;
static int (*right)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("CHAOS_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *place = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        error_ns = place == MAP_FAILED ? NULL : place;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!right)
        right = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = right(clock, now);
    if (!failed && error_ns && clock == CLOCK_REALTIME) {
        int64_t wrong = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + *error_ns;
        now->tv_sec = wrong / 1000000000;
        now->tv_nsec = wrong % 1000000000;
    }
    return failed;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place)
        *place = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
