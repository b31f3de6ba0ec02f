/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares the content of a buffer. */
#ifndef FUNCSNOOP_WRITTEN_H
#define FUNCSNOOP_WRITTEN_H

#include "base/buffer.h"
#include "tap.h"

/* Whether @o holds @want, and no more; it is empty then. */
static bool same(struct out *o, const char *want)
{
	bool good;

	out_char(o, '\0');
	good = !strcmp(o->buf, want);
	if (!good)
		printf("# got:  %s\n# want: %s\n", o->buf, want);
	o->len = 0;
	return good;
}

#endif
