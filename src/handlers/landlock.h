/* Landlock: a process gives up access to files, for itself and all it will start. Linux 5.13 or newer; older kernels, and those that have it
 * switched off, have none. */
#ifndef HANDLERS_LANDLOCK_H
#define HANDLERS_LANDLOCK_H

#include <stddef.h>

/* The kernel's version of it; 0: it has none. */
int landlock_version(void);

/* From now on this process reads (and executes) what is beneath `read`, and reads and changes what is beneath `write`; nothing else. It also
 * signals nobody outside, if the kernel can prevent it. Devices like /dev/null stay. `read` empty: it may read everything. Needs
 * no_new_privs. 0, or an errno; *path: which one could not be opened, or NULL. */
int landlock_confine(const char *const *read, size_t reads, const char *const *write, size_t writes, const char **path);

#endif
