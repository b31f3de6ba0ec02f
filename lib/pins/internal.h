/* SPDX-License-Identifier: BSD-2-Clause */
/* What is written down of breakpoints; only breaks.c and breaks_heal.c include this. */
#ifndef FUNCSNOOP_PINS_INTERNAL_H
#define FUNCSNOOP_PINS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"
#include "pins/breaks.h"

struct breaks {
	char *blob; /* what the others point into */
	struct breaks_file *files;
	size_t cnt;
};

/* Reads what breaks_write() has pinned. -ENOENT when it has not, -EPROTO, -ENOMEM, ... */
_must_check_ int breaks_read(int dir_fd, struct breaks *ret_breaks);
void breaks_done(struct breaks *b);

#endif
