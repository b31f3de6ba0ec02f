// SPDX-License-Identifier: BSD-2-Clause
// Records in the order of time.
//
// One ring serves all groups of a stream. Its records lie in the order in which programs
// reserved them, which is nearly that of time: a program can be interrupted between reading
// the clock and reserving. So records are held back for a moment and sorted.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "internal.h"

#define HELD_MAX (64U << 20) /* bytes of records taken out at a time */

static uint64_t event_time(const struct fsn_event *e)
{
	return e->call.start + e->call.duration;
}

static int arena_grow(struct stream *s, size_t size)
{
	size_t room = s->arena_size ? s->arena_size * 2 : 1U << 20;
	char *more;

	while (room < s->arena_len + size)
		room *= 2;
	more = realloc(s->arena, room);
	if (!more)
		return -ENOMEM;
	s->arena = more;
	s->arena_size = room;
	return 0;
}

/* Takes a record out of the ring, which libbpf does also when this returns an error. */
int stream_take(void *ctx, void *data, size_t size)
{
	struct stream *s = ctx;
	struct held *more;

	size = (size + 7) & ~7UL;
	if (s->arena_len + size > s->arena_size && arena_grow(s, size))
		return -ENOMEM;
	more = array_grow(s->held, s->held_cnt, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->held = more;
	memcpy(s->arena + s->arena_len, data, size);
	more[s->held_cnt++] = (struct held) { event_time(data), s->arena_len };
	s->arena_len += size;
	return s->arena_len < HELD_MAX ? 0 : -EAGAIN;
}

/* Almost sorted already: each record moves past the few that are later than it. */
static void sort_held(struct held *held, size_t cnt)
{
	for (size_t i = 1; i < cnt; i++) {
		struct held h = held[i];
		size_t to = i;

		for (; to && held[to - 1].at > h.at; to--)
			held[to] = held[to - 1];
		held[to] = h;
	}
}

static int tell_gap(struct stream *s, stream_fn fn, void *arg)
{
	for (size_t i = 0; i < s->cnt; i++) {
		struct stream_record r = {
			.kind = STREAM_GAP,
			.group = i,
			.duration_ns = __atomic_exchange_n(
				&s->member[i].gap_ns, 0, __ATOMIC_SEQ_CST),
		};
		int code = r.duration_ns ? fn(&r, arg) : 0;

		if (code)
			return code;
	}
	return 0;
}

int stream_tell_lost(struct stream *s, size_t i, uint32_t lost, stream_fn fn, void *arg)
{
	struct member *m = &s->member[i];
	int32_t more = lost - m->told_lost;
	struct stream_record r = { .kind = STREAM_LOST, .group = i, .count = more };

	if (more <= 0)
		return 0;
	m->told_lost = lost;
	return fn(&r, arg);
}

static int tell(struct stream *s, const struct fsn_event *e, stream_fn fn, void *arg)
{
	const struct call *c = &e->call;
	struct stream_record r = {
		.kind = c->flags & FSN_CALL_ENTRY ? STREAM_ENTRY : STREAM_END,
		.group = e->tag,
		.call = c,
		.more = c->flags & FSN_CALL_MORE ? (const void *)(e + 1) : NULL,
	};
	int code;

	if (e->tag >= s->cnt || c->fn >= s->member[e->tag].g->meta.fn_cnt)
		return 0;
	code = stream_tell_lost(s, e->tag, e->lost, fn, arg);
	return code ? code : fn(&r, arg);
}

/* Drops the first @cnt held records: what is left moves to the front. */
static void drop_held(struct stream *s, size_t cnt)
{
	size_t from = s->arena_len;

	memmove(s->held, s->held + cnt, (s->held_cnt - cnt) * sizeof(*s->held));
	s->held_cnt -= cnt;
	for (size_t i = 0; i < s->held_cnt; i++)
		if (s->held[i].offset < from)
			from = s->held[i].offset;
	memmove(s->arena, s->arena + from, s->arena_len - from);
	s->arena_len -= from;
	for (size_t i = 0; i < s->held_cnt; i++)
		s->held[i].offset -= from;
}

int stream_read_until(
	struct stream *s, uint64_t until, stream_fn fn, void *arg, struct err *err)
{
	size_t before = s->arena_len, done = 0;
	int code = ring_buffer__consume(s->ring);

	if (code < 0 && code != -EAGAIN)
		return err_sys(err, code, "cannot read calls");
	for (size_t i = 0; i < s->cnt; i++)
		if (__atomic_load_n(&s->member[i].evicted, __ATOMIC_SEQ_CST))
			return err_set(err, -ESTALE,
				"this process was stopped for so long that its place in "
				"group '%s' was given away",
				s->member[i].g->name);
	s->fill = (s->arena_len - before) * 100 / s->ring_bytes;
	s->more = code == -EAGAIN;
	sort_held(s->held, s->held_cnt);
	code = 0;
	while (!code && done < s->held_cnt && s->held[done].at <= until)
		code = tell(
			s, (const void *)(s->arena + s->held[done++].offset), fn, arg);
	if (done)
		drop_held(s, done);
	return code ? code : tell_gap(s, fn, arg);
}

int stream_read(struct stream *s, stream_fn fn, void *arg, struct err *err)
{
	return stream_read_until(
		s, clock_ns(CLOCK_MONOTONIC) - STREAM_SETTLE_NS, fn, arg, err);
}

unsigned int stream_fill(const struct stream *s)
{
	return s->fill;
}
