/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What GPUs did, by the batch: libfuncsnoop-gpu.so hands it to a function that does nothing, in
 * whose probe each record is counted as a call that has ended. One trap does for 64 of them, on a
 * thread of CUPTI's. Records of a batch are one call of a function each that is verified once.
 *
 * Recursion, longjmp and exceptions are none of its business: it looks at memory and keeps
 * nothing. A process that ends takes with it what it has not handed out.
 */
#ifndef FUNCSNOOP_GPU_BPF_H
#define FUNCSNOOP_GPU_BPF_H

#include "call.bpf.h"
#include "event.bpf.h"
#include "shared/gpu.h"

/*
 * Calls that launch kernels on GPUs: by which stack each was made is kept until the kernel's record
 * comes, which says in which thread that was, and from when to when. The last call which that
 * thread has begun by then is it.
 *
 * A thread makes one call after the other: recursion, longjmp and exceptions end none of them
 * here, as no ends are looked for. Of a call in another the inner one is found, and who has made the
 * outer one is on its stack, too. What is kept of a thread or a process that has ended is
 * overwritten: nobody asks for it.
 */

struct gpu_call {
	__u64 time;
	__u32 tgid, thread; /* .tgid: 0 while it is written */
	__u32 stack;
	__u32 taken; /* the number of the call whose kernels it has got; 0: none yet */
};

/* A power of two; no command reads it. */
const volatile __u32 fsn_gpu_call_cnt = 1;
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gpu_call);
} fsn_gpu_calls SEC(".maps");

/* A thread may be kept from running between the probe and the call that CUPTI sees. */
#define LAUNCH_LATE_NS 1000000
/* So many calls, most of them of other threads, are looked at, at either end of one. */
#define LAUNCH_OTHERS  96
/* Of these so many behind it: who was kept from running has its place before it has its time. */
#define LAUNCH_BEHIND  32

/* Not static, so that it is verified once, on its own. */
__noinline int gpu_call_keep(__u32 stack)
{
	__u32 i = __sync_fetch_and_add(&ctl.gpu_calls, 1) & (fsn_gpu_call_cnt - 1);
	struct gpu_call *to = bpf_map_lookup_elem(&fsn_gpu_calls, &i);

	if (!to)
		return 0;
	(void)__sync_lock_test_and_set(&to->tgid, 0);
	to->time = bpf_ktime_get_ns();
	to->taken = 0;
	to->thread = (__u32)thread_pointer(bpf_get_current_task_btf());
	to->stack = stack;
	(void)__sync_lock_test_and_set(&to->tgid, bpf_get_current_pid_tgid() >> 32);
	return 0;
}

/* A call that launches kernels begins. */
static __always_inline int gpu_called(struct pt_regs *ctx, __u32 fn)
{
	struct task_struct *task = bpf_get_current_task_btf();

	count_call(stat_of(fn, bpf_get_smp_processor_id()), fn);
	if (fsn_processes)
		proc_count(task, fn, task->tgid, bpf_get_smp_processor_id());
	if (fsn_walks_stacks)
		gpu_call_keep(
			stack_of_call(caller_sp(ctx), caller_fp(ctx), caller_link(ctx)));
	return 0;
}

/* How many of the @cnt calls from the @first on had begun by @time: they are nearly in that order. */
static __noinline __u32 gpu_calls_until(__u32 first, __u32 cnt, __u64 time)
{
	__u32 low = 0, i;
	const struct gpu_call *l;

	for (int n = 0; n < 17 && cnt; n++) {
		i = (first + low + cnt / 2) & (fsn_gpu_call_cnt - 1);
		l = bpf_map_lookup_elem(&fsn_gpu_calls, &i);
		if (!l)
			break;
		if (READ(l->time) <= time) {
			low += cnt / 2 + 1;
			cnt -= cnt / 2 + 1;
		} else {
			cnt /= 2;
		}
	}
	return low;
}

/*
 * Of the calls before place @at, as far back as @cnt, the last of @launch's thread that may be it: 1 +
 * its place, or 0. With @inside only one that has begun in its time, else also one shortly before.
 */
static __noinline __u32 gpu_call_near(
	const struct fsn_gpu_launch *launch, __u32 at, __u32 cnt, bool inside)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, i, by;
	__u64 since = launch->begin - (inside ? 0 : LAUNCH_LATE_NS), time;
	const struct gpu_call *l;

	for (__u32 n = 1; n <= LAUNCH_OTHERS && n <= cnt; n++) {
		i = (at - n) & (fsn_gpu_call_cnt - 1);
		l = bpf_map_lookup_elem(&fsn_gpu_calls, &i);
		if (!l)
			break;
		by = READ(l->tgid);
		time = READ(l->time);
		if (by && time < since)
			break;
		if (by == tgid && l->thread == launch->thread && time <= launch->end)
			return i + 1;
	}
	return 0;
}

/*
 * The stack of the call that a kernel's record, whose launch lies at @at in the process, is of; 0: it
 * is not known. Not static, so that it is verified once, on its own. A thread that had to wait in the
 * call did so before the probe or behind it: then that is near the end, or near the begin.
 */
__noinline __u32 gpu_call_of(__u64 at)
{
	__u32 head = READ(ctl.gpu_calls), cnt = fsn_gpu_call_cnt, low, end, i;
	struct fsn_gpu_launch launch;
	struct gpu_call *l;

	if (!fsn_walks_stacks || bpf_probe_read_user(&launch, sizeof(launch), (void *)at) ||
		!launch.end)
		return 0;
	if (head < cnt)
		cnt = head;
	end = gpu_calls_until(head - cnt, cnt, launch.end) + LAUNCH_BEHIND;
	if (end > cnt)
		end = cnt;
	i = gpu_call_near(&launch, head - cnt + end, end, false);
	if (!i && end > LAUNCH_OTHERS) {
		low = gpu_calls_until(head - cnt, cnt, launch.begin) + LAUNCH_OTHERS;
		if (low > end)
			low = end;
		i = gpu_call_near(&launch, head - cnt + low, low, true);
	}
	if (!i--)
		return 0;
	l = bpf_map_lookup_elem(&fsn_gpu_calls, &i);
	if (!l)
		return 0;
	/* All kernels of one launch are its, and those of no other. */
	if (!READ(l->taken))
		l->taken = launch.number;
	return l->taken == launch.number ? l->stack : 0;
}

/* In the order that the arguments have (lib/target/gpu.c). */
static __always_inline __u64 gpu_word(const struct fsn_gpu_record *r, __u32 where)
{
	switch (where & ~FSN_STR_KERNEL) {
	case 1:
		return r->name;
	case 2:
		return r->ns > FSN_NS_MASK ? 0 : r->ns;
	case 3:
		return r->bytes;
	case 4:
		return r->device;
	case 5:
		return r->stream;
	case 6:
		return r->kind;
	default:
		return 0;
	}
}

static __always_inline __u64 gpu_part(
	const struct fsn_part *p, const struct fsn_gpu_record *r, __u32 stack)
{
	switch (p->what) {
	case FSN_BY_STACK:
		return stack;
	case FSN_BY_NUMBER:
	case FSN_BY_KERNEL:
		return part_cut(p, gpu_word(r, p->where));
	case FSN_BY_CLASS:
		return key_class(gpu_word(r, p->where));
	case FSN_BY_CGROUP:
		return bpf_get_current_cgroup_id();
	default:
		return 0;
	}
}

/* The text at @word is the name of all that have this word in the process. */
static __noinline int gpu_named(__u64 word)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	struct fsn_handle key = { .word = word, .tgid = bpf_get_current_pid_tgid() >> 32 };
	const struct fsn_handle_of *of = bpf_map_lookup_elem(&fsn_handles, &key);

	if (of && READ(of->start) == leader->start_boottime)
		return 0;
	return handle_keep(&key, word, true);
}

/* Counts the record, of a kernel that @stack has launched, in its row: its number. */
static __noinline __u32 gpu_in_row(__u32 fn, const struct fsn_gpu_record *r, __u32 stack)
{
	struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct fsn_key key = {};
	__u32 i;

	if (!keyed || !keyed->on)
		return FSN_NO_ROW;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		if (n < fsn_key_cnt)
			key.word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)] = gpu_part(&keyed->key[n], r, stack);
	i = row_of(&key, fn);
	if (i != FSN_NO_ROW && i & ROW_NEW && keyed->launches)
		gpu_named(r->name);
	ROW_COUNT(i, keyed, &key, part_cut(&keyed->sum[n], gpu_word(r, keyed->sum[n].where)));
	return i;
}

/* Of how the times of the @nth row, one of @fn, are spread; of its others where that is 0. */
static __noinline int gpu_spread(__u32 fn, __u32 nth, __u64 ns)
{
	struct fsn_spread_at key = { .row = nth ? nth : ~fn, .bucket = bucket_of(ns),
		.epoch = READ(ctl.epoch) };
	__u64 none = 0, *cnt = bpf_map_lookup_elem(&fsn_spreads, &key);

	if (!cnt) {
		bpf_map_update_elem(&fsn_spreads, &key, &none, BPF_NOEXIST);
		cnt = bpf_map_lookup_elem(&fsn_spreads, &key);
	}
	if (cnt)
		add(cnt, 1);
	else
		add(&ctl.lost_spreads, 1);
	return 0;
}

static __always_inline void gpu_row_ends(__u32 fn, __u32 i, __u64 ns, bool slow)
{
	struct fsn_row *row = row_at(i);

	if (!row)
		return;
	gpu_spread(fn, row->nth, ns);
	row_ends(row, ns, slow ? FSN_CALL_SLOW : 0);
}

/* Of the record, whose row is @row, for stream @how, with flags << 8. */
static __noinline int gpu_event(__u32 how, __u32 fn, const struct fsn_gpu_record *r, __u32 row)
{
	__u32 i = how & 0xff;
	void *ring = bpf_map_lookup_elem(&fsn_rings, &i);
	struct fsn_event *event;
	bool untimed = (how >> 8) & FSN_CALL_UNTIMED;
	__u64 ns = untimed ? 0 : r->ns;

	event = ring ? bpf_ringbuf_reserve(ring, sizeof(*event), 0) : NULL;
	if (!event)
		return stream_lost(i);
	event->call.start = r->start ? r->start : bpf_ktime_get_ns() - ns;
	event->call.duration = ns;
	event->call.queued = event->call.blocked = event->call.result = 0;
#pragma unroll
	for (__u32 n = 0; n < FSN_ARGS; n++)
		event->call.args.arg[n] = gpu_word(r, n + 1);
	call_fill(&event->call, fn, how >> 8);
	event_fill(event, i, NO_SLOT);
	event->row = row;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __noinline int gpu_streams(__u32 fn, const struct fsn_gpu_record *r, __u32 row, __u32 flags)
{
	__u32 streams = streams_of(fn), pid = bpf_get_current_pid_tgid() >> 32;
	__u64 now = bpf_ktime_get_ns();

	for (__u32 i = 0; i < FSN_STREAMS_MAX; i++)
		if (streams & 1U << i && stream_wants(i, flags, now, r->ns, pid))
			gpu_event(i | flags << 8, fn, r, row);
	return 0;
}

/* One record, at @at in the process. Not static, so that it is verified once, on its own. */
__noinline int gpu_record(__u32 fn, __u64 at, __u32 stack)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 row = FSN_NO_ROW, proc = FSN_NO_PROC, tgid = task->tgid;
	struct fsn_gpu_record r;
	bool slow;

	if (!stat || !conf)
		return 0;
	if (bpf_probe_read_user(&r, sizeof(r), (void *)at)) {
		add(&ctl.lost_texts, 1);
		return 0;
	}
	if (fsn_processes)
		proc = proc_count(task, fn, tgid, bpf_get_smp_processor_id());
	if (fsn_keyed)
		row = gpu_in_row(fn, &r, stack);
	add(&stat->n.calls, 1);
	if (r.ns > FSN_NS_MASK) {
		add(&stat->n.no_slot, 1);
		return READ(ctl.streams) ? gpu_streams(fn, &r, row, FSN_CALL_UNTIMED) : 0;
	}
	slow = r.ns >= READ(conf->slow_ns);
	add(&stat->n.total_ns, r.ns);
	add(&stat->n.returns, 1);
	if (slow)
		add(&stat->n.slow, 1);
	raise_extremes(stat, r.ns);
	count_bucket(fn, r.ns, bpf_get_smp_processor_id());
	if (fsn_processes)
		end_in_process(proc_again(proc, fn, tgid, bpf_get_smp_processor_id()), r.ns,
			slow ? FSN_CALL_SLOW : 0, NULL, NULL);
	gpu_row_ends(fn, row, r.ns, slow);
	if (READ(ctl.streams))
		gpu_streams(fn, &r, row, slow ? FSN_CALL_SLOW : 0);
	return 0;
}

/* What the library says of itself in the process. */
static __noinline int gpu_said(__u64 at)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct fsn_gpu said = {
		.start = bpf_get_current_task_btf()->group_leader->start_boottime };
	const struct fsn_gpu_batch *b = (void *)at;

	if (bpf_probe_read_user(&said.state, sizeof(said.state), &b->state) ||
		bpf_probe_read_user(&said.code, sizeof(said.code), &b->code) ||
		bpf_probe_read_user(&said.idle_s, sizeof(said.idle_s), &b->idle_s) ||
		bpf_probe_read_user(&said.dropped, sizeof(said.dropped), &b->dropped) ||
		bpf_probe_read_user(&said.window_s, sizeof(said.window_s), &b->window_s) ||
		bpf_probe_read_user(&said.period_s, sizeof(said.period_s), &b->period_s) ||
		bpf_probe_read_user_str(said.who, sizeof(said.who), b->who) < 0)
		return 0;
	bpf_map_update_elem(&fsn_gpus, &tgid, &said, BPF_ANY);
	return 0;
}

SEC("uprobe")
int fsn_gpu(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), at;
	__u32 fn = cookie & FSN_FN_MASK, cnt = 0, stack = 0;
	__u64 launch;

	own_stack(ctx);
	if (!is_wanted(ctx, fn))
		return 0;
	if (!(cookie >> FSN_COOKIE_MORE_SHIFT))
		return gpu_called(ctx, fn);
	at = source_of(ctx, (__u32)(cookie >> FSN_COOKIE_MORE_SHIFT) - 1, 0);
	if (bpf_probe_read_user(&cnt, sizeof(cnt), (void *)at))
		return 0;
	if (cnt < FSN_GPU_BATCH)
		gpu_said(at);
	launch = at + offsetof(struct fsn_gpu_batch, launch);
	at += offsetof(struct fsn_gpu_batch, record);
	for (__u32 i = 0; i < FSN_GPU_BATCH; i++, at += sizeof(struct fsn_gpu_record)) {
		if (i >= cnt)
			break;
		if (fsn_walks_stacks)
			stack = gpu_call_of(launch + i * sizeof(struct fsn_gpu_launch));
		gpu_record(fn, at, stack);
	}
	return 0;
}

#endif
