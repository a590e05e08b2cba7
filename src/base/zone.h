/* Time zones, read from the system's files of the IANA database.
 *
 * A zone cuts time into spans of one offset each. A span also says how far the local clock had come before it: less than its own first
 * local second is a gap, more is an overlap. Everything else follows from that.
 *
 * Seconds are counted from 1970-01-01, in UTC or, where it says so, by the local clock as if that were UTC. They lie in the years
 * 1600..9999; what is outside is taken for the nearest second inside.
 */
#ifndef BASE_ZONE_H
#define BASE_ZONE_H

#include <pawl.h>

#define ZONE_FIRST_S INT64_C(-11676096000) /* 1600-01-01 */
#define ZONE_LAST_S INT64_C(253402300800)  /* 10000-01-01 */
#define ZONE_OFFSET_LEAST_S (-25 * 3600 + 1)
#define ZONE_OFFSET_MOST_S (26 * 3600 - 1)

typedef struct zone zone;

typedef struct zone_span {
    int64_t from_s, until_s;  /* UTC: [from, until). The spans beside it may have the same offset */
    int64_t reached_s;        /* local: what the clock had passed before `from`; all less than this */
    int offset_s;             /* local = UTC + offset */
    bool summer;              /* daylight saving, by the word of the file */
    const char *abbreviation; /* "CET"; belongs to the zone */
} zone_span;

/* The zone that the bytes of a file describe (TZif, versions 1 to 4). `name` is for messages and zone_name. INVALID: what is wrong. */
pawl_status zone_read(const pawl_allocator *a, const char *name, pawl_bytes file, zone **out, pawl_error *err);

/* The zone with this name: NULL is "UTC", which needs no file. INVALID: there is none, or its file is no good. UNAVAILABLE: could not be
 * read. `folder` NULL: zone_folder(). */
pawl_status zone_load(const pawl_allocator *a, const char *folder, const char *name, zone **out, pawl_error *err);
const char *zone_folder(void); /* $TZDIR, or where this system has its files */
void zone_free(zone *z);
const char *zone_name(const zone *z);

/* Tells the names of all zones in the folder, in no order; UNAVAILABLE: there is no such folder. `tell` returns false to stop. */
typedef bool (*zone_tell)(void *ctx, const char *name);
pawl_status zone_list(const char *folder, zone_tell tell, void *ctx, pawl_error *err);

zone_span zone_at(const zone *z, int64_t utc_s);

typedef enum zone_fit {
    ZONE_ONCE,
    ZONE_GAP,  /* the local clock jumps over it */
    ZONE_TWICE /* the local clock shows it again */
} zone_fit;

/* When the local clock shows a time. A gap: both are the first second after it. Once: both are the same. */
zone_fit zone_local(const zone *z, int64_t local_s, int64_t *first_s, int64_t *last_s);

#endif
