/* SPDX-License-Identifier: BSD-2-Clause */
/* How a stream is written: lines for people, JSON lines, a trace for a viewer. */
#ifndef FUNCSNOOP_SHOW_STREAM_FORMAT_H
#define FUNCSNOOP_SHOW_STREAM_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "show/call.h"

/* What formats keep from line to line. */
struct stream_page {
	struct out *out;
	bool color;
	unsigned int comm_width, id_width; /* as wide as any has been */
	uint64_t second;    /* of the time of day in .clock */
	char clock[16];
	struct seen *seen;  /* threads that the trace has named */
	size_t seen_cnt, seen_size;
	bool any;           /* a trace has its first object */
};

struct stream_format {
	const char *name;
	const char *trailer; /* ends the document; or NULL */
	bool calls_only;     /* entries and exits have no place in it */
	void (*begin)(struct stream_page *p);
	void (*call)(struct stream_page *p, const struct shown_call *c, enum call_form form);
	/* @cnt calls of the group are missing before the next. */
	void (*lost)(struct stream_page *p, const char *group, uint64_t cnt);
	/* For so long nothing was recorded, as this process was stopped; until @now_ns,
	 * CLOCK_REALTIME. */
	void (*gap)(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns);
};

extern const struct stream_format stream_text, stream_json, stream_chrome;

/* NULL when there is none of that name. */
const struct stream_format *stream_format_find(const char *name);

void stream_page_done(struct stream_page *p);

/* "function(arg=value) = result <1.2 ms> SLOW FAILED", as in text, without colours. */
void stream_line(struct out *o, const struct shown_call *c, enum call_form form);

#endif
