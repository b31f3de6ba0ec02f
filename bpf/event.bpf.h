/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events, which have no return, and spans from one event to another. A USDT probe is a
 * nop with an ELF note that describes its arguments. A tracepoint of the kernel has a
 * record of fields.
 *
 * An event has no duration, so recursion, longjmp and exceptions do not matter. A span
 * belongs to a thread, by its task_struct, which stays the same over exec. Spans without
 * an end: an end in another thread finds no slot and is unmatched; a start inside a span
 * abandons the earlier one; the span of an exiting thread is abandoned by a sweep.
 */
#pragma once

#include "call.bpf.h"
#include "stream.bpf.h"

const volatile bool fsn_spans = false; /* some function is a span */

/* Index: number in the cookie. No command reads it. */
MAP(fsn_sources, ARRAY, __u32, struct fsn_sources, 1);

/*
 * Reads a word of the context at a variable offset, which the verifier does not allow
 * directly.
 */
static __always_inline __u64 context_word(void *ctx, __u8 reg)
{
	__u64 word = 0;

	if (reg != FSN_NO_REG)
		bpf_probe_read_kernel(&word, sizeof(word), ctx + reg * sizeof(word));
	return word;
}

/*
 * Reads an address in the context as a number, because the verifier does not allow
 * arithmetic on it.
 */
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

/* Reads an argument from the location @s: the value, or the address of a text. */
static __noinline __u64 source_value(void *ctx, const struct fsn_source *s)
{
	__u64 value = s->offset, at = s->offset & 0xffff, size = s->size;
	__u32 unused = (64 - s->size * 8) & 63;

	if (s->from >= FSN_FROM_TEXT)
		return record_address(ctx, s);
	if (s->from == FSN_FROM_REG)
		value = context_word(ctx, s->reg);
	/* As in more_read(). */
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

/* True if arguments are needed, also to be saved for the end of a span. */
static __always_inline bool args_wanted(void)
{
	return fsn_keyed || READ(ctl.on) & FSN_FILTER_IF || READ(ctl.streams) ||
	       (fsn_spans && READ(ctl.save_args));
}

/* Copies the arguments of the event's site to the registers of a function's arguments. */
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
 * Key of the thread's spans. It differs from that of system calls, because the return of
 * an unknown system call, such as that of a return probe, takes any call there
 * (slot_take_any()).
 */
static __always_inline __u64 span_place(void)
{
	return bpf_get_current_task() + 1;
}

/*
 * True if the thread is in a span. A span older than the thread belongs to a dead thread
 * whose task_struct was reused. A thread that becomes the first one by execve() gets the
 * start time of the first one, which is older (de_thread() in fs/exec.c).
 */
static __always_inline bool span_is_open(
	struct fsn_set *set, __u64 key, __u64 where, const struct task_struct *task)
{
	int way = slot_find(set, key, where);

	return way >= 0 && READ(set->call[way & (FSN_WAYS - 1)].start) >= task->start_time;
}

/* Abandons the thread's open span, without leaving a ghost: spans do not nest. */
static __always_inline void span_left(__u32 fn, __u64 where)
{
	__u32 tgid = bpf_get_current_task_btf()->tgid, i = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);

	if (set && set_is_used(set))
		slot_clear(set, call_key(fn, tgid), where);
}

/* Ends the thread's span, if it is in one. */
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

/* Handles a hit of an event or of a span's start or end. @sp: the user stack pointer. */
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
	/* Only for counted events: the others would fill the table of stacks. */
	if (fsn_thread_stacks && is_wanted(args, fn))
		EVENT_STACK(args) = stack_of_thread(ctx, 0);
	if (!fsn_spans || kind != FSN_ENTRY) {
		call_counted(args, fn, sp, true, run);
		return;
	}
	span_left(fn, where);
	begun = call_begin(args, fn, where, sp, 0, HIJACK_NONE, false, run);
	if (is_untracked(begun))
		call_untracked(args, fn, where, false);
}

SEC("uprobe")
int fsn_usdt(struct pt_regs *ctx)
{
	own_stack(ctx);
	event_seen(ctx, bpf_get_attach_cookie(ctx), REG_SP(ctx));
	return 0;
}

/*
 * REG_SP - 1, because a kernel thread has no user stack. The kernel skips and counts a
 * hit while another program of a perf event runs on its CPU.
 */
SEC("fsn.trace")
int fsn_trace(void *ctx)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	event_seen(ctx, bpf_get_attach_cookie(ctx), REG_SP(regs) - 1);
	return 0;
}

/*
 * Samples: each CPU has a perf event, whose ticks are events of the running thread,
 * without durations. Idle threads are not sampled.
 */

/* Argument registers: those of arm64 do not fit on the stack of the BPF program. */
MAP(fsn_sample_regs, PERCPU_ARRAY, __u32, struct pt_regs, 1);

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

/* the final state of a CPU that is switched off (include/linux/cpuhotplug.h) */
#define CPUHP_OFFLINE 0

/* The perf event of a CPU is removed with the CPU and does not come back with it. */
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
