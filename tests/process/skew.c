/* Loaded before the C library: the wall clock is wrong by PAWL_TEST_SKEW_US. The monotonic clock is not. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    static long long skew_us;
    if (!real) {
        const char *text = getenv("PAWL_TEST_SKEW_US");
        skew_us = text ? atoll(text) : 0;
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int failed = real(clock, now);
    if (failed || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
    long long ns = now->tv_nsec + skew_us * 1000;
    now->tv_sec += (ns - (ns < 0 ? 999999999 : 0)) / 1000000000;
    now->tv_nsec = (ns % 1000000000 + 1000000000) % 1000000000;
    return 0;
}
