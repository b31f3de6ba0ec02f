// SPDX-License-Identifier: BSD-2-Clause
// Processes that died while a group counted their calls.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "group/crashes.h"
#include "group/records.h"
#include "group/types.h"

_Static_assert(CRASHES_MAX == FSN_CRASHES, "the same");

/* --- reading ---------------------------------------------------------------------------------- */

DEFINE_ORDER(compare_calls, struct slot_call, RISING(tid) ?: RISING(start_ns))

static void read_call(const struct group *g, uint32_t place, const struct fsn_crash_call *from,
	const struct crash *c, struct slot_call *to)
{
	*to = (struct slot_call) { .fn = from->fn,
		.pid = c->pid,
		.tid = (pid_t)from->tid,
		.start_ns = from->start,
		.age_ns = from->age_ns,
		.where = from->where,
		.has_args = from->has_args,
		.args = from->args };
	to->has_more = from->has_args &&
		!bpf_map_lookup_elem(group_fd(g, MAPID_CRASH_MORE), &place, &to->more);
}

/* A stack grows: a call that a later one is above, on the thread's own stack, was left by longjmp. */
static void drop_left(struct crash *c)
{
	const struct fsn_crash_map *stack = &c->record->map[0];
	uint64_t above = 0;
	size_t kept = c->cnt;

	for (size_t i = c->cnt; i--;) {
		const struct slot_call *call = &c->calls[i];
		bool is_here = c->record->stack_start && call->tid == c->tid &&
			call->where >= stack->start && call->where < stack->end;

		if (is_here && call->where < above)
			continue;
		if (is_here)
			above = call->where;
		c->calls[--kept] = c->calls[i];
	}
	c->call_cnt -= kept;
	c->cnt -= kept;
	memmove(c->calls, c->calls + kept, c->cnt * sizeof(*c->calls));
}

static void read_calls(const struct group *g, uint32_t i, struct crash *c)
{
	const struct fsn_crash *r = c->record;

	c->calls = xcalloc(FSN_CRASH_CALLS, sizeof(*c->calls));
	for (uint32_t n = 0; n < r->call_cnt && n < FSN_CRASH_CALLS; n++)
		if (r->call[n].fn >= g->meta.fn_cnt)
			c->call_cnt--;
		else
			read_call(g, i * FSN_CRASH_CALLS + n, &r->call[n], c, &c->calls[c->cnt++]);
	qsort(c->calls, c->cnt, sizeof(*c->calls), compare_calls);
	drop_left(c);
}

uint64_t crashes_ever(const struct group *g)
{
	struct fsn_ctl ctl;

	return group_ctl(g, &ctl, NULL) ? 0 : ctl.crashes;
}

int crash_read(const struct group *g, uint64_t number, struct crash *ret_crash, struct err *err)
{
	uint32_t i = number % FSN_CRASHES;
	int fd = group_map_fd(g, MAPID_CRASHES, "processes that died", err), code;
	struct fsn_crash *r = xcalloc(1, sizeof(*r));

	*ret_crash = (struct crash) { .record = r };
	if (fd < 0)
		return fd;
	code = map_get(fd, &i, r);
	if (code)
		return err_sys(err, code, "cannot read group '%s'", group_name(g));
	if (r->seq > number + 1)
		return -ENOENT;
	if (r->seq != number + 1 || r->flags & FSN_CRASH_PENDING)
		return -EAGAIN;
	ret_crash->time_ns = r->time_ns;
	ret_crash->start_ns = r->start;
	ret_crash->pid = (pid_t)r->at.pid;
	ret_crash->tid = (pid_t)r->at.tid;
	/* Somebody else may have written the record. */
	if (r->word_cnt > FSN_CRASH_WORDS)
		r->word_cnt = FSN_CRASH_WORDS;
	memcpy(ret_crash->comm, r->comm, sizeof(r->comm) - 1);
	ret_crash->signal = r->signal;
	ret_crash->status = r->status;
	ret_crash->addr = r->addr;
	ret_crash->has_addr = r->flags & FSN_CRASH_HAS_ADDR;
	ret_crash->out_of_memory = r->flags & FSN_CRASH_OOM;
	ret_crash->call_cnt = r->call_cnt;
	read_calls(g, i, ret_crash);
	/* It may have been overwritten meanwhile. */
	return crashes_ever(g) > number + FSN_CRASHES ? -ENOENT : 0;
}

void crash_done(struct crash *c)
{
	free(c->calls);
	free(c->record);
	*c = (struct crash) {};
}

/* --- how it died ------------------------------------------------------------------------------ */

const char *crash_signal(const struct crash *c, char buf[CRASH_TEXT])
{
	return c->signal ? signal_text(c->signal, buf) : NULL;
}

const char *crash_text(const struct crash *c, char buf[CRASH_TEXT])
{
	size_t len;

	if (!crash_signal(c, buf)) {
		snprintf(buf, CRASH_TEXT, "exit status %u", c->status);
		return buf;
	}
	len = strlen(buf);
	if (c->has_addr)
		snprintf(buf + len, CRASH_TEXT - len, " at 0x%llx", (unsigned long long)c->addr);
	else if (c->out_of_memory)
		snprintf(buf + len, CRASH_TEXT - len, ", out of memory");
	return buf;
}
