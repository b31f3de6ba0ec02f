/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernels that are launched on GPUs. A launch is told apart by the word that says which kernel: the
 * address of the host's function of its name, or a handle. What a handle stands for is known by
 * who has launched, which is kept beside the row, or by the call that handed it out, if it was
 * seen. Naming is left to commands.
 *
 * Launches that functions of a runtime make for each other are one: what is called in a launch is
 * known by the nesting. A call that never ends leaves its flag in its slot, which the next one there
 * overwrites.
 */
#ifndef FUNCSNOOP_LAUNCHES_BPF_H
#define FUNCSNOOP_LAUNCHES_BPF_H

#include "mapping.bpf.h"
#include "nest.bpf.h"

const volatile bool fsn_launched = false; /* some key is the kernel that is launched, */
const volatile bool fsn_asked = false;    /* and some function hands out handles */

/* Calls that ask for a handle, by slot. */
struct asked {
	__u64 to, name;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct asked);
} fsn_slot_asked SEC(".maps");

/* What a handle's record is before it is written: too large for a stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_handle_of);
} fsn_no_handle SEC(".maps");

/* Whether a call of @fn at @where is made in one that launches a kernel: that is the same launch. */
__noinline int launch_is_inner(__u32 fn, __u64 where)
{
	__u64 word = nest_top(bpf_get_current_task_btf());
	const struct fsn_nest *outer;

	word = nest_enclosing(word, fn, where, 0) & FSN_OPEN_CALL_MASK;
	outer = nest_at(word);
	return word && outer && READ(outer->flags) & FSN_NEST_LAUNCH;
}

/*
 * The call of @fn in @slot goes on: what is called in a launch, and in what that calls, launches
 * nothing more. Not static, as its frame would be its caller's, whose stack is full.
 */
__noinline int launch_open(__u32 fn, __u32 slot)
{
	const struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct fsn_nest *nest = nest_at(slot);
	const struct fsn_nest *outer = nest ? nest_at(nest->parent) : NULL;

	if (!keyed || !nest || !outer)
		return 0;
	if (keyed->launches || (nest->parent && READ(outer->flags) & FSN_NEST_LAUNCH))
		nest->flags |= FSN_NEST_LAUNCH;
	return 0;
}

/*
 * Who has made the launch of @word whose row @i is new: code that is made for one kernel, perhaps
 * by a helper, which keeps a frame then. Without @ctx that is not known any more.
 */
static __noinline int launch_keep(const struct pt_regs *ctx, __u32 i, __u64 word)
{
	struct fsn_launch *launch = bpf_map_lookup_elem(&fsn_launches, &i);
	__u64 outer = 0;

	if (!launch)
		return 0;
	if (ctx && bpf_probe_read_user(&outer, sizeof(outer), (void *)(caller_fp(ctx) + 8)))
		outer = 0;
	if (ctx)
		outer = original_return(outer, caller_fp(ctx) + 8);
	launch->word = 0;
	launch->from[0] = ctx ? caller_of(ctx) : 0;
	launch->from[1] = outer;
	launch->word = word;
	return 0;
}

/* --- handles ----------------------------------------------------------------------------------- */

/* The call in @slot asks for a handle, perhaps. */
static __noinline int handle_asked(const struct pt_regs *ctx, __u32 fn, __u32 slot)
{
	const struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct asked *asked = bpf_map_lookup_elem(&fsn_slot_asked, &slot);

	if (!keyed || !keyed->named || !asked)
		return 0;
	asked->to = arg_word(ctx, keyed->handle_at);
	asked->name = arg_word(ctx, keyed->name_at);
	return 0;
}

/* What @key stands for, in the current process: the text at @name, or else the same as word @name. */
static __always_inline int handle_keep(const struct fsn_handle *key, __u64 name, bool is_text)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	struct fsn_handle_of *of;
	__u32 zero = 0;
	long len = 0;

	of = bpf_map_lookup_elem(&fsn_no_handle, &zero);
	if (of && !bpf_map_update_elem(&fsn_handles, key, of, BPF_ANY))
		of = bpf_map_lookup_elem(&fsn_handles, key);
	else
		of = NULL;
	if (of && is_text)
		len = bpf_probe_read_user_str(of->name, sizeof(of->name), (void *)name);
	else if (of)
		of->word = name;
	if (!of || len < 0) {
		add(&ctl.lost_texts, 1);
		return 0;
	}
	of->cut = len == sizeof(of->name);
	(void)__sync_lock_test_and_set(&of->start, leader->start_boottime);
	return 0;
}

/* The call in @slot has succeeded. */
__noinline int handle_found(__u32 fn, __u32 slot)
{
	const struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	const struct asked *asked = bpf_map_lookup_elem(&fsn_slot_asked, &slot);
	struct fsn_handle key = { .tgid = bpf_get_current_pid_tgid() >> 32 };

	if (!keyed || !keyed->named || !asked ||
		bpf_probe_read_user(&key.word, sizeof(key.word), (void *)asked->to) || !key.word)
		return 0;
	return handle_keep(&key, asked->name, keyed->named == FSN_NAMED_TEXT);
}

#endif
