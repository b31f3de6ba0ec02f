// SPDX-License-Identifier: BSD-2-Clause
// A stream for people: a line for each call; and as JSON lines.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "show/stream_format.h"
#include "show/text.h"

#define RED    "31"
#define YELLOW "33"
#define GREY   "2"

static void begin_color(struct stream_page *p, const char *sgr)
{
	if (!p->color || !sgr)
		return;
	out_str(p->out, "\033[");
	out_str(p->out, sgr);
	out_char(p->out, 'm');
}

static void end_color(struct stream_page *p, const char *sgr)
{
	if (p->color && sgr)
		out_str(p->out, "\033[0m");
}

/* Local time of day, to the microsecond. */
static void put_time(struct stream_page *p, uint64_t realtime_ns)
{
	uint64_t second = realtime_ns / 1000000000, us = realtime_ns / 1000 % 1000000;
	time_t t = second;
	struct tm tm;
	char *to;

	if (second != p->second || !p->clock[0]) {
		p->second = second;
		localtime_r(&t, &tm);
		strftime(p->clock, sizeof(p->clock), "%H:%M:%S.", &tm);
	}
	out_str(p->out, p->clock);
	to = out_room(p->out, 6);
	if (!to)
		return;
	for (int i = 5; i >= 0; i--, us /= 10)
		to[i] = '0' + us % 10;
	p->out->len += 6;
}

/* A column as wide as the widest until now. */
static void put_padded(struct stream_page *p, size_t from, unsigned int *width)
{
	size_t len = p->out->len - from;

	if (len > *width)
		*width = len;
	out_pad(p->out, from, *width);
	out_char(p->out, ' ');
}

static void put_who(struct stream_page *p, const struct shown_call *c)
{
	size_t from = p->out->len;

	out_escaped(p->out, c->call->comm, strlen(c->call->comm));
	put_padded(p, from, &p->comm_width);
	from = p->out->len;
	out_u64(p->out, c->call->pid);
	out_char(p->out, '/');
	out_u64(p->out, c->call->tid);
	put_padded(p, from, &p->id_width);
}

static const char *color_of(const struct shown_call *c)
{
	if (c->call->flags & FSN_CALL_FAILED)
		return RED;
	return c->call->flags & FSN_CALL_SLOW ? YELLOW : NULL;
}

void stream_line(struct out *o, const struct shown_call *c, enum call_form form)
{
	char duration[TEXT_NUM_LEN];

	out_str(o, form == CALL_ENTRY ? "-> " : form == CALL_EXIT ? "<- " : "");
	out_escaped(o, c->function, strlen(c->function));
	if (form != CALL_EXIT) {
		out_char(o, '(');
		call_args_text(o, c);
		out_char(o, ')');
	}
	if (form == CALL_ENTRY)
		return;
	if (!c->types->has_ret || c->types->ret.kind != TYPE_VOID) {
		out_str(o, " = ");
		call_result_text(o, c);
	}
	if (call_is_timed(c->call)) {
		out_str(o, " <");
		out_str(o, text_duration(c->call->duration, duration));
		out_char(o, '>');
	}
	if (c->call->flags & FSN_CALL_SLOW)
		out_str(o, " SLOW");
	if (c->call->flags & FSN_CALL_FAILED)
		out_str(o, " FAILED");
}

static void text_begin(struct stream_page *p)
{
	p->comm_width = sizeof("COMMAND") - 1;
	p->id_width = sizeof("PID/TID") - 1;
	out_str(p->out, "TIME            COMMAND PID/TID CALL\n");
}

static void text_call(struct stream_page *p, const struct shown_call *c, enum call_form form)
{
	const char *color = color_of(c);

	put_time(p,
		c->call->start + c->ahead_ns + (form == CALL_EXIT ? c->call->duration : 0));
	out_char(p->out, ' ');
	put_who(p, c);
	begin_color(p, color);
	stream_line(p->out, c, form);
	end_color(p, color);
	out_char(p->out, '\n');
}

static void text_lost(struct stream_page *p, const char *group, uint64_t cnt)
{
	begin_color(p, RED);
	out_str(p->out, "-- ");
	out_u64(p->out, cnt);
	out_str(p->out, cnt == 1 ? " call of " : " calls of ");
	out_str(p->out, group);
	out_str(p->out, " lost --");
	end_color(p, RED);
	out_char(p->out, '\n');
}

static void text_gap(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns)
{
	char duration[TEXT_NUM_LEN];

	begin_color(p, RED);
	out_str(p->out, "-- stopped: nothing of ");
	out_str(p->out, group);
	out_str(p->out, " was recorded for ");
	out_str(p->out, text_duration(ns, duration));
	out_str(p->out, " --");
	end_color(p, RED);
	out_char(p->out, '\n');
}

const struct stream_format stream_text = {
	.name = "text",
	.begin = text_begin,
	.call = text_call,
	.lost = text_lost,
	.gap = text_gap,
};

/* --- JSON lines ------------------------------------------------------------------------------- */

static void json_call(struct stream_page *p, const struct shown_call *c, enum call_form form)
{
	struct json j = { .out = p->out };

	call_json(&j, c, form);
	out_char(p->out, '\n');
}

static void json_missing(struct stream_page *p, const char *type, const char *group,
	const char *key, uint64_t value)
{
	struct json j = { .out = p->out };

	json_open(&j, '{');
	json_set_str(&j, "type", type);
	json_set_str(&j, "group", group);
	json_set_u64(&j, key, value);
	json_close(&j, '}');
	out_char(p->out, '\n');
}

static void json_lost(struct stream_page *p, const char *group, uint64_t cnt)
{
	json_missing(p, "lost", group, "count", cnt);
}

static void json_gap(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns)
{
	json_missing(p, "gap", group, "duration_ns", ns);
}

const struct stream_format stream_json = {
	.name = "json",
	.call = json_call,
	.lost = json_lost,
	.gap = json_gap,
};

const struct stream_format *stream_format_find(const char *name)
{
	static const struct stream_format *const all[] = { &stream_text, &stream_json,
		&stream_chrome };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (!strcmp(all[i]->name, name))
			return all[i];
	return NULL;
}
