/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events: places that a thread passes, which have no end of their own, and spans from one event
 * to another. USDT probes are instructions that do nothing, with notes beside the code that say
 * where arguments are; the kernel's tracepoints come with a record of fields.
 *
 * Recursion, longjmp and exceptions are none of an event's business: it is over when it is seen.
 * A span is a thread's, by its task_struct, which stays the same over exec. What does not come
 * back: the end that another thread passes finds no slot, and is unmatched; a begin in a span
 * gives up the one before; a thread that ends in one leaves it to be swept.
 */
#ifndef FUNCSNOOP_EVENT_BPF_H
#define FUNCSNOOP_EVENT_BPF_H

#include "call.bpf.h"
#include "stream.bpf.h"

const volatile bool fsn_spans = false; /* some function is one */

/* By the number in the cookie; no command reads them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_sources);
} fsn_sources SEC(".maps");

/* A word of the context, which may only be read at places that are known beforehand. */
static __always_inline __u64 context_word(void *ctx, __u8 reg)
{
	__u64 word = 0;

	if (reg != FSN_NO_REG)
		bpf_probe_read_kernel(&word, sizeof(word), ctx + reg * sizeof(word));
	return word;
}

/* Of an address as a number: the verifier lets nobody count with one into the context. */
static __always_inline __u64 record_address(void *ctx, const struct fsn_source *s)
{
	void *at = ctx + (s->offset & 0xffff);
	__u64 value = 0;
	__u32 loc = 0;

	bpf_probe_read_kernel(&value, sizeof(value), &at);
	if (s->from == FSN_FROM_TEXT)
		return value;
	bpf_probe_read_kernel(&loc, sizeof(loc), at);
	loc &= 0xffff;
	return s->from == FSN_FROM_REL_LOC ? value + sizeof(loc) + loc
					   : value - (s->offset & 0xffff) + loc;
}

static __noinline __u64 source_value(void *ctx, const struct fsn_source *s)
{
	__u64 value = s->offset, at = s->offset & 0xffff, size = s->size;
	__u32 unused = (64 - s->size * 8) & 63;

	if (s->from >= FSN_FROM_TEXT)
		return record_address(ctx, s);
	if (s->from == FSN_FROM_REG)
		value = context_word(ctx, s->reg);
	/* As for more_read(). */
	asm volatile("" : "+r"(size));
	if (size > sizeof(value))
		return 0;
	asm volatile("" : "+r"(size));
	if (s->from == FSN_FROM_RECORD) {
		value = 0;
		bpf_probe_read_kernel(&value, size, ctx + at);
	} else if (s->from == FSN_FROM_MEMORY) {
		at = context_word(ctx, s->reg) + s->offset +
			(context_word(ctx, s->index) << (s->shift & 3));
		value = 0;
		bpf_probe_read_user(&value, size, (void *)at);
	}
	return s->is_signed ? (__u64)((__s64)(value << unused) >> unused)
			    : value << unused >> unused;
}

static __noinline __u64 source_of(void *ctx, __u32 i, __u32 n)
{
	struct fsn_sources *from = bpf_map_lookup_elem(&fsn_sources, &i);

	if (!from || n >= FSN_EVENT_ARGS || from->arg[n].from == FSN_FROM_NOWHERE)
		return 0;
	return source_value(ctx, &from->arg[n]);
}

/* Whether somebody wants the arguments; what is followed may be remembered with them. */
static __always_inline bool args_wanted(void)
{
	return fsn_keyed || READ(ctl.on) & FSN_FILTER_IF || READ(ctl.streams) ||
	       (fsn_spans && READ(ctl.save_args));
}

/* Puts the arguments of the place that @cookie is of where those of a function are. */
static __always_inline struct pt_regs *event_regs(void *ctx, __u64 cookie, unsigned long *room)
{
	__u32 i = (__u32)(cookie >> FSN_COOKIE_MORE_SHIFT) - 1;
	struct pt_regs *args = event_room(room);
	bool wanted = args_wanted();

#define X(n, r) args->r = wanted ? source_of(ctx, i, n) : 0;
	EVENT_REGS(X)
#undef X
	return args;
}

/*
 * The place of the thread's spans. It is none of its system calls': an end whose call is not known,
 * as of a return probe's own system call, takes whatever is there (slot_take_any()).
 */
static __always_inline __u64 span_place(void)
{
	return bpf_get_current_task() + 1;
}

/*
 * Whether the thread is in a span. One that began before the thread did is that of a dead thread,
 * whose task_struct this one has. The start of a thread that becomes the first one by execve() is
 * that of the first one, which is older (de_thread() in fs/exec.c).
 */
static __always_inline bool span_is_open(
	struct fsn_set *set, __u64 key, __u64 where, const struct task_struct *task)
{
	int way = slot_find(set, key, where);

	return way >= 0 && READ(set->call[way & (FSN_WAYS - 1)].start) >= task->start_time;
}

/* A begin gives up the span before it, and no end may have that: spans do not nest. */
static __always_inline void span_left(__u32 fn, __u64 where)
{
	__u32 tgid = bpf_get_current_task_btf()->tgid, i = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);

	if (set && set_is_used(set))
		slot_clear(set, call_key(fn, tgid), where);
}

/* The end of the thread's span, if it is in one. */
static __always_inline void span_ends(__u32 fn, __u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 run = run_begin(task), where = span_place();
	__u32 tgid = task->tgid, i = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);
	int way = -1;

	if (!set)
		return;
	if (span_is_open(set, call_key(fn, tgid), where, task))
		way = slot_take_first(set, call_key(fn, tgid), where);
	else if (set_is_used(set))
		slot_clear(set, call_key(fn, tgid), where);
	if (way < 0) {
		count_unmatched(fn, sp, HIT_END);
	} else {
		way &= FSN_WAYS - 1;
		call_over(task, false, set, i * FSN_WAYS + way, fn, run, 0, READ(ctl.streams), false, true);
	}
	run_late(run, fn);
}

static __always_inline void event_seen(void *ctx, __u64 cookie, __u64 sp)
{
	__u64 kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15, where = span_place();
	__u32 fn = cookie & FSN_FN_MASK;
	unsigned long room[EVENT_ROOM];
	struct pt_regs *args;
	enum begun begun;
	__u64 run;

	if (fsn_spans && kind == FSN_END) {
		span_ends(fn, sp);
		return;
	}
	run = run_entry(stat_of(fn, bpf_get_smp_processor_id()));
	args = event_regs(ctx, cookie, room);
	/* Others would fill the table of stacks. */
	if (fsn_thread_stacks && is_wanted(args, fn))
		EVENT_STACK(args) = stack_of_thread(ctx, 0);
	if (!fsn_spans || kind != FSN_ENTRY) {
		call_counted(args, fn, sp, true, run);
		return;
	}
	span_left(fn, where);
	begun = call_begin(args, fn, where, sp, 0, HIJACK_NONE, false, run);
	if (has_no_end(begun))
		call_left_out(args, fn, where, false);
}

SEC("uprobe")
int fsn_usdt(struct pt_regs *ctx)
{
	own_stack(ctx);
	event_seen(ctx, bpf_get_attach_cookie(ctx), REG_SP(ctx));
	return 0;
}

/*
 * In a thread of the kernel there is no stack of a process that it could lie on. What is hit while
 * another program of a perf event runs on its CPU is left out by the kernel, and counted.
 */
SEC("fsn.trace")
int fsn_trace(void *ctx)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	event_seen(ctx, bpf_get_attach_cookie(ctx), REG_SP(regs) - 1);
	return 0;
}

/*
 * Samples: what every CPU does at the ticks of a perf event of its own. They are events of the
 * thread that runs, without times; the idle threads do nothing that is counted.
 */

/* What stands in registers: on the stack of the program there is no room for all of arm64's. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pt_regs);
} fsn_sample_regs SEC(".maps");

SEC("perf_event")
int fsn_sample_cpu(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 fn = bpf_get_attach_cookie(ctx) & FSN_FN_MASK, first = 0;
	struct pt_regs *regs = bpf_map_lookup_elem(&fsn_sample_regs, &first);

	if (!regs || !task->pid || !is_wanted(regs, fn))
		return 0;
	EVENT_STACK(regs) = stack_of_thread(ctx, 0);
	call_counted(regs, fn, -1, true, 0);
	return 0;
}

#define CPUHP_OFFLINE 0 /* where a CPU that is switched off ends (include/linux/cpuhotplug.h) */

/* Its event goes with a CPU and does not come back with it. */
SEC("tp_btf/cpuhp_enter")
int fsn_cpu_off(__u64 *ctx)
{
	__u32 cpu = ctx[0];
	int target = ctx[1];

	if (target != CPUHP_OFFLINE) {
		if (ctl.cpu_going == cpu + 1)
			ctl.cpu_going = 0;
	} else if (ctl.cpu_going != cpu + 1) {
		ctl.cpu_going = cpu + 1;
		add(&ctl.cpus_off, 1);
	}
	return 0;
}

#endif
