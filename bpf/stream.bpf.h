/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Streams: passes calls to readers, and saves slow calls. Readers poll the ring buffer,
 * because a wake-up costs thirty times as much as a record. Records dropped because the
 * buffer is full are counted.
 */
#pragma once

#include "filter.bpf.h"
#include "rows.bpf.h"
#include "slots.bpf.h"

#define NO_SLOT (~0U)

struct event_more {
	struct fsn_event event;
	struct fsn_more more;
};

/* Copies as much as the group's map has; the verifier knows that size. */
static __always_inline void more_copy(struct fsn_more *to, const struct fsn_more *from)
{
	if (fsn_wide)
		__builtin_memcpy(to, from, sizeof(*to));
	else
		__builtin_memcpy(to, from, sizeof(*to) - FSN_STR_SPARED);
}

static __always_inline struct event_more *event_more_reserve(void *ring)
{
	if (fsn_wide)
		return bpf_ringbuf_reserve(ring, sizeof(struct event_more), 0);
	return bpf_ringbuf_reserve(ring, sizeof(struct event_more) - FSN_STR_SPARED, 0);
}

/* Mask of the running streams that receive records of the function. */
static __always_inline __u32 streams_of(__u32 fn)
{
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);

	return conf ? READ(ctl.streams) & READ(conf->streams) : 0;
}

static __always_inline bool has_more(__u32 fn)
{
	struct fsn_conf *conf;

	if (!fsn_has_more)
		return false;
	conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	return conf && (conf->stack_cnt || conf->str[0]);
}

/* Address of the text of argument @where: 1 + register, or a word of the stack. */
static __always_inline __u64 text_address(
	const struct fsn_args *args, const struct fsn_more *more, __u32 where)
{
	if (where >= FSN_STR_STACK) {
		where -= FSN_STR_STACK;
		return where < FSN_STACK_WORDS ? more->stack[where] : 0;
	}
	where = (where & ~FSN_STR_KERNEL) - 1;
	return where < FSN_ARGS ? args->arg[where] : 0;
}

/*
 * Saves text @nth of a call. BPF cannot wait for text that is not in memory (never
 * touched, swapped out): it is marked by 0, -1. Not inlined, because its callers have
 * little stack left.
 */
static __noinline int text_keep(const struct fsn_conf *conf, const struct fsn_args *args,
	struct fsn_more *more, int nth)
{
	__u32 where = conf->str[nth & 1];
	__u32 size = fsn_wide ? FSN_STR_WIDE + 1 : FSN_STR_BYTES / FSN_STRINGS;
	char *to = more->str + (nth & 1) * FSN_STR_NEXT(size);
	__u64 text = text_address(args, more, where);
	long len;

	if (where >= FSN_STR_STACK)
		where = 0;
	if (!fsn_wide && !nth && !conf->str[1])
		size = FSN_STR_BYTES;
	more->room = size;
	len = text_read(to, size, where, text);
	/* Some kernels (6.12) return a length without the zero byte for an empty text. */
	if (len <= 1) {
		to[0] = 0;
		to[1] = len < 0 ? -1 : 0;
	}
	return 0;
}

/* Reads the arguments that are not in registers. */
static __noinline int more_read(const struct fsn_conf *conf, const struct fsn_args *args,
	struct fsn_more *more, __u64 sp)
{
	__u64 size = conf->stack_cnt * sizeof(*more->stack);

	/*
	 * Tests the used value twice: verifiers before 6.13 do not track a test of size -
	 * 1.
	 */
	asm volatile("" : "+r"(size));
	if (size > sizeof(more->stack))
		return 0;
	asm volatile("" : "+r"(size));
	if (size)
		bpf_probe_read_user(more->stack, size, (void *)STACK_ARGS(sp));
	if (conf->str[0])
		text_keep(conf, args, more, 0);
	if (conf->str[0] && conf->str[1])
		text_keep(conf, args, more, 1);
	return 0;
}

/* The same, saved for the call in @slot. */
__noinline int keep_more(__u32 fn, __u32 slot, __u64 sp)
{
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	struct fsn_args *args = bpf_map_lookup_elem(&fsn_args, &slot);
	struct fsn_more *more = bpf_map_lookup_elem(&fsn_more, &slot);

	return conf && args && more ? more_read(conf, args, more, sp) : 0;
}

/* Stops a stream whose reader is gone. */
static __always_inline int stream_lapse(__u32 i)
{
	(void)__sync_fetch_and_and(&ctl.streams, ~(1U << (i & 31)));
	(void)__sync_fetch_and_and(&ctl.save_args, ~(FSN_SAVE_STREAM(i & 7)));
	return 0;
}

/*
 * The process of the call in @slot. At the end of a wait, the current process is another
 * one.
 */
static __always_inline __u32 slot_pid(__u32 slot)
{
	struct wait *wait = fsn_waits ? bpf_map_lookup_elem(&fsn_wait, &slot) : NULL;

	return wait ? wait->tgid : bpf_get_current_pid_tgid() >> 32;
}

/*
 * True if stream @i selects a call of process @pid with these flags. @ns is ignored for
 * untimed calls.
 */
__noinline int stream_wants(__u32 i, __u32 flags, __u64 now, __u64 ns, __u32 pid)
{
	struct fsn_stream *s = bpf_map_lookup_elem(&fsn_streams, &i);
	__u32 n = 0;

	if (!s)
		return 0;
	if (READ(s->lease_ns) < now)
		return stream_lapse(i);
	if (flags & FSN_CALL_ENTRY)
		n = s->flags & FSN_STREAM_ENTRIES;
	else
		n = s->flags & FSN_STREAM_ENDS;
	if (!n || s->min_ns > (flags & FSN_CALL_UNTIMED ? 0 : ns))
		return 0;
	if (s->flags & FSN_STREAM_SLOW && !(flags & FSN_CALL_SLOW))
		return 0;
	if (s->flags & FSN_STREAM_FAILED && !(flags & FSN_CALL_FAILED))
		return 0;
	if (s->pid_cnt) {
		for (n = 0; n < FSN_STREAM_PIDS; n++)
			if (n < s->pid_cnt && s->pid[n] == pid)
				break;
		if (n == FSN_STREAM_PIDS)
			return 0;
	}
	return !s->sample || is_sampled(__sync_fetch_and_add(&s->passed, 1), s->sample, 0);
}

static __noinline int stream_lost(__u32 i)
{
	struct fsn_stream *s = bpf_map_lookup_elem(&fsn_streams, &i);

	if (s)
		add(&s->lost, 1);
	return 0;
}

__noinline int stream_unseen(__u64 key)
{
	__u32 streams = streams_of((key & FSN_KEY_FN_MASK) - 1);
	__u32 pid = (key & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT;

	for (__u32 i = 0; i < FSN_STREAMS_MAX; i++)
		if (streams & 1U << i &&
			stream_wants(i, FSN_CALL_UNTIMED, bpf_ktime_get_ns(), 0, pid))
			stream_lost(i);
	return 0;
}

/* Fills the members that all records of calls have. */
static __noinline int call_fill(struct call *call, __u32 fn, __u32 flags)
{
	__u64 id = bpf_get_current_pid_tgid();

	call->fn = fn;
	call->pid = id >> 32;
	call->tid = id;
	call->flags = flags;
	bpf_get_current_comm(call->comm, sizeof(call->comm));
	return 0;
}

/* Fills in the entry of a call without a slot. */
static __always_inline void entry_fill(
	struct call *call, __u32 fn, __u32 flags, __u64 now, const struct fsn_args *args)
{
	call->start = now;
	call->duration = call->queued = call->blocked = call->result = 0;
	__builtin_memcpy(&call->args, args, sizeof(*args));
	call_fill(call, fn, flags);
}

static __always_inline void call_fill_wait(struct call *call, __u32 slot)
{
	struct wait *wait = bpf_map_lookup_elem(&fsn_wait, &slot);

	if (!wait)
		return;
	call->pid = wait->tgid;
	call->tid = wait->tid;
	__builtin_memcpy(call->comm, wait->comm, sizeof(call->comm));
}

/*
 * Fills in the return of the call in the locked @slot. To be called after call_fill(),
 * which fills in the current thread.
 */
static __noinline int call_fill_end(struct call *call, __u32 slot, __u64 ns, __u64 result)
{
	struct fsn_args *args = bpf_map_lookup_elem(&fsn_args, &slot);
	__u32 index = slot / FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &index);
	struct fsn_split *split;

	call->start = set ? set->call[slot % FSN_WAYS].start : 0;
	call->duration = ns;
	call->result = result;
	call->queued = call->blocked = 0;
	split = fsn_split ? bpf_map_lookup_elem(&fsn_splits, &slot) : NULL;
	if (split && split->known) {
		call->queued = split->queued;
		call->blocked = split->blocked;
	}
	if (args)
		__builtin_memcpy(&call->args, args, sizeof(*args));
	if (fsn_waits)
		call_fill_wait(call, slot);
	return 0;
}

static __always_inline __u32 ns_since(__u64 before)
{
	__u64 now = bpf_ktime_get_ns(), ns = now > before ? now - before : 0;

	return ns > ~0U ? ~0U : ns;
}

/* Fills in the rest of a record for stream @i, of the call in @slot or NO_SLOT. */
static __noinline int event_fill(struct fsn_event *event, __u32 i, __u32 slot)
{
	struct fsn_stream *s = bpf_map_lookup_elem(&fsn_streams, &i);
	__u32 *row = fsn_keyed ? bpf_map_lookup_elem(&fsn_slot_rows, &slot) : NULL;

	event->row = row ? *row : FSN_NO_ROW;
	event->tag = s ? s->tag : 0;
	event->lost = s ? READ(s->lost) : 0;
	event->late = 0;
	if (slot != NO_SLOT && !(event->call.flags & (FSN_CALL_ENTRY | FSN_CALL_UNTIMED)))
		event->late = ns_since(event->call.start + event->call.duration);
	return 0;
}

/*
 * Reserves a record in the ring of stream @i, and copies the arguments in @slot that are
 * not in registers. Inlined, because the verifier tracks the reservation.
 */
static __always_inline struct fsn_event *event_reserve(
	__u32 i, __u32 fn, __u32 slot, __u32 *flags)
{
	void *ring = bpf_map_lookup_elem(&fsn_rings, &i);
	struct event_more *big;
	struct fsn_more *more;

	if (!ring)
		return NULL;
	if (slot == NO_SLOT || !has_more(fn))
		return bpf_ringbuf_reserve(ring, sizeof(struct fsn_event), 0);
	big = event_more_reserve(ring);
	if (!big)
		return NULL;
	more = bpf_map_lookup_elem(&fsn_more, &slot);
	if (more)
		more_copy(&big->more, more);
	*flags |= FSN_CALL_MORE;
	return &big->event;
}

static __noinline __u64 slot_start(__u32 slot)
{
	__u32 index = slot / FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &index);

	return set ? set->call[slot % FSN_WAYS].start : 0;
}

/*
 * Sends the return of the call in the locked @slot to one stream. @how: stream, flags <<
 * 8.
 */
__noinline int stream_end(__u32 how, __u32 fn, __u32 slot, __u64 ns, __u64 result)
{
	__u32 flags = how >> 8;
	struct fsn_event *event = event_reserve(how & 0xff, fn, slot, &flags);

	if (!event)
		return stream_lost(how & 0xff);
	call_fill(&event->call, fn, flags);
	call_fill_end(&event->call, slot, ns, result);
	event_fill(event, how & 0xff, slot);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The same for all streams that select it. @flags: FSN_CALL_... */
__noinline int stream_ends(__u32 fn, __u32 slot, __u64 ns, __u32 flags, __u64 result)
{
	__u32 streams = streams_of(fn);

	if (streams)
		flags |= slot_flags(slot);
	for (__u32 i = 0; i < FSN_STREAMS_MAX; i++)
		if (streams & 1U << i &&
			stream_wants(i, flags, slot_start(slot) + ns, ns, slot_pid(slot)))
			stream_end(i | flags << 8, fn, slot, ns, result);
	return 0;
}

/*
 * Sends an entry without a slot, or a call whose entry is its return, to one stream. @how: stream,
 * flags << 8. Not static, like stream_read(), so that it is not verified again for each stream.
 */
__noinline int stream_entry(__u32 how, __u32 fn, __u64 now, const struct fsn_args *args)
{
	__u32 i = how & 0xff;
	void *ring = bpf_map_lookup_elem(&fsn_rings, &i);
	struct fsn_event *event =
		ring && args ? bpf_ringbuf_reserve(ring, sizeof(*event), 0) : NULL;

	if (!event)
		return stream_lost(i);
	entry_fill(&event->call, fn, how >> 8, now, args);
	event_fill(event, i, NO_SLOT);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The same with the arguments that are not in registers, which it reads now. */
__noinline int stream_read(
	__u32 how, __u32 fn, __u64 now, const struct fsn_args *args, __u64 sp)
{
	__u32 i = how & 0xff;
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	void *ring = bpf_map_lookup_elem(&fsn_rings, &i);
	struct event_more *big;

	if (!conf || !ring || !args)
		return 0;
	big = event_more_reserve(ring);
	if (!big)
		return stream_lost(i);
	entry_fill(&big->event.call, fn, how >> 8 | FSN_CALL_MORE, now, args);
	more_read(conf, &big->event.call.args, &big->more, sp);
	event_fill(&big->event, i, NO_SLOT);
	bpf_ringbuf_submit(big, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The same for all streams that select it. */
static __noinline int stream_entries(struct pt_regs *ctx, __u32 fn, __u64 now, __u32 flags)
{
	__u32 streams = streams_of(fn), pid = bpf_get_current_pid_tgid() >> 32;
	struct fsn_args args = {};

	if (!args_read(ctx, fn, args.arg))
		flags |= FSN_CALL_NO_ARGS;
	for (__u32 i = 0; i < FSN_STREAMS_MAX; i++)
		if (streams & 1U << i && stream_wants(i, flags, now, 0, pid)) {
			if (has_more(fn))
				stream_read(i | flags << 8, fn, now, &args, caller_sp(ctx));
			else
				stream_entry(i | flags << 8, fn, now, &args);
		}
	return 0;
}

/* Sends the entry of the call in the locked @slot to one stream. */
__noinline int stream_begin(__u32 i, __u32 fn, __u32 slot, __u64 now)
{
	__u32 flags = FSN_CALL_ENTRY | (slot_flags(slot) & FSN_CALL_NO_ARGS);
	struct fsn_event *event = event_reserve(i, fn, slot, &flags);

	if (!event)
		return stream_lost(i);
	call_fill(&event->call, fn, flags);
	call_fill_end(&event->call, slot, 0, 0);
	event->call.start = now;
	event_fill(event, i, slot);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * The same for all streams that select it; its arguments are saved. Not static, so that
 * it is verified once.
 */
__noinline int stream_begins(__u32 fn, __u32 slot, __u64 now)
{
	__u32 streams = streams_of(fn);

	for (__u32 i = 0; i < FSN_STREAMS_MAX; i++)
		if (streams & 1U << i && stream_wants(i, FSN_CALL_ENTRY, now, 0, slot_pid(slot)))
			stream_begin(i, fn, slot, now);
	return 0;
}

/* Sends a call of a function that is only counted. */
static __noinline int stream_counted(struct pt_regs *ctx, __u32 fn, bool same)
{
	__u64 now = bpf_ktime_get_ns();

	stream_entries(ctx, fn, now, FSN_CALL_ENTRY);
	if (same)
		stream_entries(ctx, fn, now, FSN_CALL_UNTIMED | FSN_CALL_NO_RESULT);
	return 0;
}

/* --- slow calls ----------------------------------------------------------------------------- */

static __noinline int slow_more(struct fsn_slow *slow, __u32 slot)
{
	struct fsn_more *more = bpf_map_lookup_elem(&fsn_more, &slot);

	if (more)
		more_copy(&slow->more, more);
	return 0;
}

/* Saves a slow call. Its slot is still locked, so its arguments are valid. */
__noinline int remember_slow(__u32 fn, __u32 slot, __u32 flags, __u64 ns, __u64 result)
{
	__u64 seq = __sync_fetch_and_add(&ctl.slow_head, 1);
	__u32 i = seq % FSN_SLOW_CNT;
	struct fsn_slow *slow = bpf_map_lookup_elem(&fsn_slow, &i);

	if (!slow)
		return 0;
	(void)__sync_lock_test_and_set(&slow->seq, 0);
	call_fill(&slow->call, fn, flags | FSN_CALL_SLOW);
	call_fill_end(&slow->call, slot, ns, result);
	if (fsn_has_more)
		slow_more(slow, slot);
	if (fsn_keyed)
		slow_key(slow, fn, slot, result);
	(void)__sync_lock_test_and_set(&slow->seq, seq + 1);
	return 0;
}
