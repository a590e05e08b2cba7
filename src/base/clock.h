/* The machine's clocks behind pawl_clock, and one that only moves when told. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pawl/store.h>

pawl_clock clock_system(void); /* CLOCK_REALTIME, CLOCK_BOOTTIME, the kernel's boot id */

typedef struct virtual_clock {
    int64_t now_us; /* wall */
    int64_t boot_us;
} virtual_clock;

pawl_clock clock_virtual(virtual_clock *v);

#endif
