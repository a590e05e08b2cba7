/* Calls that fail by a countdown, and a disk whose calls do: the default VFS of a test program. */
#ifndef TESTS_FAULTS_DISK_H
#define TESTS_FAULTS_DISK_H

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- countdowns ----------------------------------------------------------------------------------------------------------------- */

/* A countdown over the calls of one kind. Calls may come from any thread. */
typedef struct countdown {
    atomic_long calls;    /* since fault_arm */
    atomic_long at;       /* this one fails; 0: none */
    atomic_bool for_good; /* and all after it */
    atomic_long one_in;   /* or: one in so many fails, at random; 0: none */
    atomic_long fired;    /* how many have failed */
} countdown;

void fault_arm(countdown *f, long at, bool for_good);
void fault_scatter(countdown *f, long one_in);
void fault_disarm(countdown *f);
bool fault_now(countdown *f); /* counts a call; true: it fails */

/* ---- the disk ------------------------------------------------------------------------------------------------------------------- */

/* The default VFS of the test program. Never waits for the real disk. */
enum {
    DISK_OPEN = 1,
    DISK_READ = 2,
    DISK_WRITE = 4,
    DISK_SYNC = 8,
    DISK_TRUNCATE = 16,
    DISK_SHM_MAP = 32,
    DISK_SHM_LOCK = 64,
    DISK_DELETE = 128,
    DISK_SIZE = 256
};

extern countdown disk_fault;
extern int disk_kinds; /* the calls that disk_fault counts */
extern int disk_rc;    /* what a failing one answers; 0: the I/O error of its kind */

extern bool
    disk_tears; /* it does not promise to leave sectors whole, and is written to in another way; for files opened from then on */

bool disk_install(void);

/* Loss of power. From disk_record on every file is remembered as synced bytes and later writes. */
typedef enum disk_loss {
    LOSS_DROPPED, /* nothing that was not synced is there */
    LOSS_WRITTEN, /* everything is */
    LOSS_TORN,    /* each sector: old or new, by the seed */
    LOSS_GARBLED, /* each sector: old, new or garbage */
    LOSS_COUNT
} disk_loss;

extern void (*disk_in_sync)(void); /* called in the middle of every sync: a moment at which power may fail */
extern bool disk_lies;             /* a sync does nothing and says it did: for the test of the test */
void disk_record(bool on);
void disk_crash_copy(const char *path, const char *to, disk_loss how, uint64_t seed);

#endif
