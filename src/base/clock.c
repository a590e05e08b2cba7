/* The machine's clocks behind pawl_clock, and one that only moves when told.
 *
 * The boot id is read once. Where the kernel does not tell it, it is "unknown" for every process: boot times stored before a
 * restart of the machine then look valid, which can delay a rescue but never rescues the living.
 */
#include "base/clock.h"
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_once_t boot_id_once = PTHREAD_ONCE_INIT;
static char boot_id[40] = "unknown";

static void read_boot_id(void)
{
    char text[sizeof boot_id];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (text[0]) memcpy(boot_id, text, strlen(text) + 1);
}

static int64_t read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * PAWL_SECOND + t.tv_nsec / 1000;
}

static int64_t system_wall(void *ctx)
{
    (void)ctx;
    return read_clock(CLOCK_REALTIME);
}

static int64_t system_boot(void *ctx)
{
    (void)ctx;
    return read_clock(CLOCK_BOOTTIME);
}

pawl_clock clock_system(void)
{
    pthread_once(&boot_id_once, read_boot_id);
    return (pawl_clock){.wall_us = system_wall, .boot_us = system_boot, .boot_id = boot_id};
}

static int64_t virtual_wall(void *ctx) { return ((virtual_clock *)ctx)->now_us; }

static int64_t virtual_boot(void *ctx) { return ((virtual_clock *)ctx)->boot_us; }

pawl_clock clock_virtual(virtual_clock *v)
{
    return (pawl_clock){.wall_us = virtual_wall, .boot_us = virtual_boot, .boot_id = "virtual", .ctx = v};
}
