// SPDX-License-Identifier: GPL-2.0-only
// Counting and timing calls of user-space functions.
//
// A call in progress is kept in a slot: a place in a fixed table, in the set that process
// and stack pointer choose, under the key {process, function} beside the stack pointer. At
// the entry the stack pointer points at the return address; at a ret it has that value
// again. So each stack frame has a key of its own, and only what runs on that stack can
// end the call: recursion, nesting, tail calls, fibers and threads that take over a fiber
// match exactly. What does not come back:
//
//   longjmp, exception, fiber thrown away: the next call of the same function at the same
//	place finds the old one there and gives it up: it is abandoned, a ghost (slots.bpf.h).
//	So does a call of another function there if the old one's end is seen by ret probes
//	(a live tail caller is known: tails.bpf.h); if it ends by return probe it may be one
//	and stays.
//   recursion deeper than 64 under return probes: the kernel does not follow those calls
//	(MAX_URETPROBE_DEPTH); they are given up or swept like the above.
//   thread exit, exec, kill: the call stays until a command sees that the thread is gone.
//   fork: the child has another process id, so that its return from the parent's call
//	finds no slot, and is counted as unmatched; the parent's call is not touched.
//
// An end counts only when it takes the slot away, by compare-and-exchange on a word that
// has a generation in it: with whom it races (a sweep), one wins. Programs are preemptible
// (6.0 and later) and run at once on many CPUs: each counter is added to atomically.
#include "call.bpf.h"
#include "event.bpf.h"
#include "gpu.bpf.h"
#include "tails.bpf.h"
#include "kernel.bpf.h"
#include "shared/layout.h"
#include "wait.bpf.h"
#include "core.bpf.h"
#include "stacks.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * Entry and return in one. At a return the program counter is that of the caller, while
 * bpf_get_func_ip gives the probe's address both times. Returns 1 at an entry whose end
 * is not to be looked for: the kernel leaves that call's return address alone.
 */
SEC("uprobe")
int fsn_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	enum begun begun;

	own_stack_session(ctx);
	if (bpf_get_func_ip(ctx) == REG_IP(ctx)) {
		if (is_counted(cookie))
			return 1;
		begun = call_begin(ctx, cookie & FSN_COOKIE_FN_MASK, REG_SP(ctx), REG_SP(ctx), 0,
			HIJACK_SESSION, true, RUN_NOW);
		/* Its probe took time of the call in which it was made. */
		if (fsn_nesting && begun == COUNTED)
			nest_hit(cookie & FSN_COOKIE_FN_MASK, REG_SP(ctx), HIT_ENTRY);
		return begun != FOLLOWED;
	}
	call_end(cookie & FSN_COOKIE_FN_MASK, cookie >> FSN_COOKIE_MORE_SHIFT, RETURN_SP(ctx),
		ANY_ADDRESS, REG_RESULT(ctx), true);
	return 0;
}

/* The stack pointer at the entry: the probe may stand where the function has taken room. */
static __always_inline __u64 entry_sp(const struct pt_regs *ctx, __u64 cookie, __u64 kind)
{
	__u64 sp = REG_SP(ctx);

	return kind == FSN_FORWARD ? sp : sp + (cookie >> FSN_COOKIE_PLACE_SHIFT) * 8;
}

SEC("uprobe")
int fsn_entry(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15, sp = entry_sp(ctx, cookie, kind);
	enum begun begun;

	own_stack(ctx);
	if (is_counted(cookie))
		return 0;
	if (kind == FSN_ARRIVE) {
		count_place(cookie & FSN_COOKIE_FN_MASK, false);
		call_arrives(ctx, cookie & FSN_COOKIE_FN_MASK, sp);
		return 0;
	}
	begun = call_begin(ctx, cookie & FSN_COOKIE_FN_MASK, sp, sp,
		kind == FSN_ENTRY ? 0 : FSN_KEY_BYRET,
		kind == FSN_ENTRY ? HIJACK_ALWAYS : HIJACK_NONE, true,
		RUN_NOW);
	/* Asked for again: kept, they would take room on the stack. */
	cookie = bpf_get_attach_cookie(ctx);
	kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;
	sp = entry_sp(ctx, cookie, kind);
	if (has_no_end(begun))
		call_left_out(ctx, cookie & FSN_COOKIE_FN_MASK, sp, begun == NO_ROOM);
	if (kind == FSN_FORWARD)
		call_leaves(cookie & FSN_COOKIE_FN_MASK, sp,
			jump_leads(ctx, cookie) | LEAVES_AT_ONCE, REG_LINK(ctx));
	return 0;
}

SEC("uprobe")
int fsn_count(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;

	own_stack(ctx);
	if (is_counted(cookie))
		return 0;
	call_counted(ctx, cookie & FSN_COOKIE_FN_MASK, entry_sp(ctx, cookie, kind), kind == FSN_SAME,
		RUN_NOW);
	return 0;
}

SEC("uretprobe")
int fsn_return(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	own_stack(ctx);
	if (is_counted(cookie))
		return 0;
	call_end(cookie & FSN_COOKIE_FN_MASK, cookie >> FSN_COOKIE_MORE_SHIFT, RETURN_SP(ctx),
		ANY_ADDRESS, REG_RESULT(ctx), true);
	return 0;
}

/* The end of a place that no tracked call has come to. Its own function: fsn_end() has few registers. */
static __noinline int end_strays(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;
	__u64 sp = kind >= FSN_END_EARLY ? early_sp(ctx, cookie) : REG_SP(ctx);

	return nest_stray(sp, end_is_stepped(kind, cookie) ? fsn_step_ns : fsn_hit_ns);
}

/* A call leaves by a jump. As end_strays(). */
static __noinline int end_leaves(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;

	call_leaves(cookie & FSN_COOKIE_FN_MASK, REG_SP(ctx),
		kind == FSN_END_REG ? 0 : jump_leads(ctx, cookie), REG_LINK(ctx));
	return 0;
}

/*
 * On ret instructions and on jumps that leave, where the stack pointer is that of the entry; and
 * on what leads to a ret.
 */
SEC("uprobe")
int fsn_end(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), sp = REG_SP(ctx), result = REG_RESULT(ctx);
	__u64 kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15, led = cookie >> FSN_COOKIE_MORE_SHIFT;
	__u32 fn = cookie & FSN_COOKIE_FN_MASK;

	own_stack(ctx);
	if (is_counted(cookie))
		return 0;
	if (fsn_follows && fn >= fsn_fn_cnt)
		count_place(fn, end_is_stepped(kind, cookie));
	else if (kind != FSN_END && end_is_stepped(kind, cookie))
		count_step(fn);
	if ((kind == FSN_END_JCC || kind == FSN_END_EARLY_JCC) && !jcc_taken(ctx, cookie))
		return count_passed(fn, REG_SP(ctx));
	if (kind == FSN_END_REG && !jump_leaves(ctx, cookie))
		return count_passed(fn, REG_SP(ctx));
	if (kind >= FSN_END_EARLY) {
		sp = early_sp(ctx, cookie);
		result = early_result(ctx, cookie);
		led = cookie >> FSN_COOKIE_LED_SHIFT & 1;
	}
	if (kind == FSN_END || kind >= FSN_END_EARLY) {
		if (!call_end(fn, led, sp, REG_LINK(ctx), result, false) && fsn_nesting && is_on())
			end_strays(ctx);
	} else {
		end_leaves(ctx);
	}
	return 0;
}
