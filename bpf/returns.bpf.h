/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decides whether a call may have a return probe.
 *
 * The kernel keeps a list of the return addresses that it has replaced, for each thread. It takes
 * the thread's stack for one piece of memory: an entry below the stack pointer of a later call is
 * dropped (cleanup_return_instances(), kernel/events/uprobes.c), and the thread is killed if that
 * call returns after all. So a call on another stack than the thread's own has no return probe:
 * fibers and coroutines run there, whether they switch by themselves or in a signal handler. A
 * handler on an alternate signal stack may have return probes unless it interrupts a call that has
 * one. The list has at most 64 entries.
 */
#ifndef FUNCSNOOP_RETURNS_BPF_H
#define FUNCSNOOP_RETURNS_BPF_H

#include "mapping.bpf.h"
#include "slots.bpf.h"

#define MAX_RETURNS 64 /* MAX_URETPROBE_DEPTH, include/linux/uprobes.h */

/* The link that replaces the return address of a tracked call. */
enum hijack {
	HIJACK_NONE,    /* its return is seen in another way */
	HIJACK_SESSION, /* a session program, which may leave a call alone */
	HIJACK_ALWAYS,  /* a return probe of its own */
};

#define OWN_STACK_TAG ((1ULL << 28) - 1)

/*
 * True if @where is on the stack that the current thread, which is not the first one, was created
 * with: in the mapping of its thread pointer, and below that. The lowest page of the mapping is kept, by a hash of the thread
 * and its memory, over the low bits of the hash: one word, which is written at once. Not static, so
 * that it is verified once.
 */
__noinline int is_on_thread_stack(__u64 where)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 pointer = thread_pointer(task), hash, known, start;
	volatile __u64 *word;
	__u32 none = 0;
	struct fsn_held *held = bpf_map_lookup_elem(&fsn_held, &none);

	if (!held || where >= pointer)
		return 0;
	hash = (pointer ^ as_number(task->mm) << 8 ^ task->start_time << 20) *
	       0x9e3779b97f4a7c15ULL;
	word = &held->own_stack[hash >> 32 & (FSN_OWN_STACKS - 1)];
	known = *word;
	if (known && !((known ^ hash) & OWN_STACK_TAG))
		return where >= known >> 28 << 12;
	/* Once more where mappings were being changed. */
	if (!mapping_at(pointer, &start) && !mapping_at(pointer, &start))
		return 0;
	*word = start >> 12 << 28 | (hash & OWN_STACK_TAG);
	return where >= start;
}

/* 0, or why not: as a failed slot_claim(). */
static __always_inline int return_is_unsafe(
	struct task_struct *task, __u64 where, enum hijack hijack)
{
	__u64 top;

	if (hijack == HIJACK_NONE)
		return 0;
	if (task->utask && task->utask->depth >= MAX_RETURNS)
		return SLOT_TOO_DEEP;
	if (hijack != HIJACK_SESSION)
		return 0;
	if (where - task->sas_ss_sp < task->sas_ss_size)
		return task->utask && task->utask->return_instances ? SLOT_OTHER_STACK : 0;
	/*
	 * The first thread's pointer is in a mapping of its own, which grows by what is mapped below
	 * it: stacks of fibers, too.
	 */
	top = first_stack(task);
	if (top ? top - where < FIRST_STACK : is_on_thread_stack(where))
		return 0;
	return SLOT_OTHER_STACK;
}

#endif
