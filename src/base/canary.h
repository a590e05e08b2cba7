/* Seeded bugs: each breaks one rule on purpose, to show that a test would notice. They exist only in a build with PAWL_CANARIES
 * (`make canaries`), where the environment variable PAWL_CANARY names the one that is alive; in every other build CANARY(x) is the
 * constant 0. What each of them breaks, and the test that must find it, stands in tests/canaries/canaries.txt.
 */
#ifndef BASE_CANARY_H
#define BASE_CANARY_H

#ifdef PAWL_CANARIES
int canary_alive(const char *name);
#define CANARY(name) canary_alive(#name)
#else
#define CANARY(name) 0
#endif

#endif
