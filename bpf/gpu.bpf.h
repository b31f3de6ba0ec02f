/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * GPU activity. libfuncsnoop-gpu.so passes batches of records to an empty function, whose
 * probe counts each record as a finished call. One trap serves 64 records, on a thread of
 * CUPTI. Each record is handled by one function, which is verified once.
 *
 * This BPF program reads memory and keeps no state, so recursion, longjmp and exceptions
 * do not matter. Activity that a process has not passed on when it exits is lost; ranges are not.
 */
#pragma once

#include "call.bpf.h"
#include "event.bpf.h"
#include "shared/gpu.h"

/*
 * Calls that launch GPU kernels. Each call's stack is saved until the kernel's record
 * arrives, which has the thread, start and end of the launching call. The match is the
 * last call that this thread had started by then.
 *
 * The returns of these calls are not traced, so recursion, longjmp and exceptions do not
 * matter. Of nested calls the inner one matches, and its stack includes the caller of the
 * outer one. Entries of exited threads and processes are overwritten.
 */

struct gpu_call {
	__u64 time;
	__u32 tgid, thread; /* .tgid: 0 while being written */
	__u32 stack;
	/* number of the launch that this call was matched with; 0: none yet */
	__u32 taken;
};

/* Number of entries, a power of two. No command reads them. */
const volatile __u32 fsn_gpu_call_cnt = 1;
MAP(fsn_gpu_calls, ARRAY, __u32, struct gpu_call, 1);

/*
 * Limit of the delay between the probe and the start that CUPTI records: the thread may
 * be preempted.
 */
#define LAUNCH_LATE_NS 1000000
/*
 * Number of calls, mostly of other threads, that are checked at either end of the
 * launching call.
 */
#define LAUNCH_OTHERS  96
/*
 * Some of these are after its return: a preempted thread gets its index before
 * its time.
 */
#define LAUNCH_BEHIND  32

/* Not static, so that it is verified once. */
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

/* Handles the entry of a call that launches kernels. */
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

/*
 * How many of the @cnt calls from @first had started by @time; they are almost sorted by
 * time.
 */
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
 * Searches up to @cnt calls before index @at for the last one of @launch's thread that
 * can be it. With @inside it must have started within the launching call, else also
 * shortly before. Returns 1 + its index, or 0.
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
 * The stack of the call that launched a kernel; @at is the address of its struct
 * fsn_gpu_launch. Returns 0 if not known. A thread that was blocked in the call was so
 * before the probe or after it: the entry is near the end or near the start of the call.
 * Not static, so that it is verified once.
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
	/* A call matches all kernels of one launch, and no other launch. */
	if (!READ(l->taken))
		l->taken = launch.number;
	return l->taken == launch.number ? l->stack : 0;
}

/* Word @where of a record, in the order of the arguments (lib/target/activity.c). */
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

/* Value of key part @p of a record. */
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
	case FSN_BY_THREAD: /* of a range */
		return r->device;
	default:
		return 0;
	}
}

/* Counts the record, of a kernel launched at @stack, in its row. Returns the row. */
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
		handle_named(r->name, r->name, true);
	ROW_COUNT(i, keyed, &key, part_cut(&keyed->sum[n], gpu_word(r, keyed->sum[n].where)));
	return i;
}

/*
 * Counts a duration in the distribution of the @nth row of @fn, or of its other rows if
 * @nth is 0.
 */
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

/* Sends the record, whose row is @row, to a stream; @how is its number | flags << 8. */
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

/* Counts one record, at @at in the process. Not static, so that it is verified once. */
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
	if (r.stream == FSN_GPU_NO_STREAM) {
		add(&stat->n.inner_ns, r.ns - r.bytes);
		add(&stat->n.recursed_ns, r.ns - r.bytes);
	}
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

/* The state of the current process, if it has said one since its last exec. */
static __always_inline struct fsn_gpu *gpu_of(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid;
	struct fsn_gpu *of = bpf_map_lookup_elem(&fsn_gpus, &tgid);

	return of && of->start == task->group_leader->start_boottime &&
		of->exec_id == task->self_exec_id ? of : NULL;
}

/* Counts up to 64 ranges of the list at @at. Not static, so that it is verified once. */
__noinline int gpu_ranges_some(__u32 fn, __u64 at, __u64 n, __u64 end)
{
	at += offsetof(struct fsn_gpu_ranges, record);
	for (__u32 i = 0; i < FSN_GPU_BATCH && n < end; i++, n++)
		gpu_record(fn, at + n % FSN_GPU_RANGES * sizeof(struct fsn_gpu_record), 0);
	return 0;
}

/*
 * Counts the ranges of the list at @at that are not counted. Threads that end at the same time may
 * be here: each range is for the one that raises .counted above its number.
 */
__noinline int gpu_ranges(__u32 fn, __u64 at)
{
	struct fsn_gpu *of = gpu_of();
	__u64 n = 0, end = 0, was;
	__u64 word[3]; /* .tail, .head, .dropped */

	for (int i = 0; i < 8; i++) {
		if (bpf_probe_read_user(word, sizeof(word), (void *)at)) {
			add(&ctl.lost_texts, 1);
			return 0;
		}
		if (of)
			of->dropped = word[2];
		was = of ? READ(of->counted) : 0;
		n = word[0] < was ? was : word[0];
		end = word[1];
		if (n >= end)
			return 0;
		if (!of || __sync_val_compare_and_swap(&of->counted, was, end) == was)
			break;
		n = end;
	}
	for (int i = 0; i < FSN_GPU_RANGES / FSN_GPU_BATCH && n < end; i++, n += FSN_GPU_BATCH)
		gpu_ranges_some(fn, at, n, end);
	return 0;
}

/* Saves the library's report on its own state in the process. Returns the address of its ranges, or 0. */
static __noinline __u64 gpu_said(__u32 fn, __u64 at)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct fsn_gpu_batch *b = (void *)at;
	struct fsn_gpu *said = gpu_of();
	__u32 tgid = task->tgid;
	__u64 word[2]; /* .threads, .ranges */

	if (!said) {
		struct fsn_gpu new = { .start = task->group_leader->start_boottime,
			.exec_id = task->self_exec_id };

		bpf_map_update_elem(&fsn_gpus, &tgid, &new, BPF_ANY);
		said = gpu_of();
	}
	if (said) {
		bpf_probe_read_user(&said->state, sizeof(said->state), &b->state);
		bpf_probe_read_user(&said->code, sizeof(said->code), &b->code);
		bpf_probe_read_user(&said->idle_s, sizeof(said->idle_s), &b->idle_s);
		bpf_probe_read_user(&said->dropped, sizeof(said->dropped), &b->dropped);
		bpf_probe_read_user(&said->window_s, sizeof(said->window_s), &b->window_s);
		bpf_probe_read_user(&said->period_s, sizeof(said->period_s), &b->period_s);
		bpf_probe_read_user_str(said->who, sizeof(said->who), b->who);
	}
	if (bpf_probe_read_user(word, sizeof(word), &b->threads) || !word[1])
		return 0;
	if (said) {
		said->fn = fn;
		said->ranges = word[1];
	}
	if (fsn_ranged)
		handle_named(FSN_RANGES_WORD, word[0], false);
	return word[1];
}

SEC("uprobe")
int fsn_gpu(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), at;
	__u32 fn = cookie & FSN_FN_MASK, cnt = 0, stack = 0;
	__u64 launch, ranges = 0, began = bpf_ktime_get_ns();

	own_stack(ctx);
	if (!is_wanted(ctx, fn))
		return 0;
	if (!(cookie >> FSN_COOKIE_MORE_SHIFT))
		return gpu_called(ctx, fn);
	at = source_of(ctx, (__u32)(cookie >> FSN_COOKIE_MORE_SHIFT) - 1, 0);
	if (bpf_probe_read_user(&cnt, sizeof(cnt), (void *)at))
		return 0;
	if (cnt < FSN_GPU_BATCH)
		ranges = gpu_said(fn, at);
	if (ranges)
		gpu_ranges(fn, ranges);
	launch = at + offsetof(struct fsn_gpu_batch, launch);
	at += offsetof(struct fsn_gpu_batch, record);
	for (__u32 i = 0; i < FSN_GPU_BATCH; i++, at += sizeof(struct fsn_gpu_record)) {
		if (i >= cnt)
			break;
		if (fsn_walks_stacks)
			stack = gpu_call_of(launch + i * sizeof(struct fsn_gpu_launch));
		gpu_record(fn, at, stack);
	}
	count_walk(fn, bpf_ktime_get_ns() - began);
	return 0;
}

/*
 * Counts the ranges of a process that ends by a signal or an exit, or executes another program. The
 * library's own thread always gets SIGKILL then, and so does each other one, except the one that
 * calls the kernel; each comes here after its last range (get_signal(), kernel/signal.c).
 */
SEC("tp_btf/signal_deliver")
int fsn_gpu_signal(__u64 *ctx)
{
	const struct fsn_gpu *of = (int)ctx[0] == SIGKILL ? gpu_of() : NULL;

	return of && of->ranges && is_on() ? gpu_ranges(of->fn, of->ranges) : 0;
}
