// SPDX-License-Identifier: GPL-2.0-only
// Counting and timing calls of user-space functions.
// Counting and timing calls of user-space functions.
//
// A call in progress is stored in a slot of a fixed table: in the set selected by process and
// stack pointer, under the key {process, function} and the stack pointer. At the entry the stack
// pointer points to the return address; at a ret it has that value again. So each stack frame has
// a key of its own, and only code on that stack can end the call: recursion, nesting, tail calls,
// fibers and threads that continue a fiber match exactly. Go moves stacks: for its functions, the
// place on the goroutine's stack replaces the stack pointer (slots.bpf.h). Calls that do not return:
//
//   longjmp, exception, discarded fiber: the next call of the same function at the same stack
//	address abandons the old call, which becomes a ghost (slots.bpf.h). So does a call of
//	another function there if the old call's return is traced by probes on ret (a live tail
//	caller is known: tails.bpf.h). With a return probe, the old call may be a tail caller and
//	stays.
//   recursion deeper than 64 under return probes: the kernel does not trace the returns of those
//	calls (MAX_URETPROBE_DEPTH); they are abandoned or swept like the above.
//   thread exit, exec, kill: the call stays until a command sees that the thread has exited.
//   fork: the child has another process id, so its return from the parent's call finds no slot
//	and is counted as unmatched; the parent's call is not affected.
//
// A return counts only if it locks the slot, by compare-and-exchange on a word that includes a
// generation: if it races with a sweep, only one of them wins. BPF programs are preemptible (since
// 6.0) and run on many CPUs at once: all counters are updated atomically.
#include "call.bpf.h"
#include "event.bpf.h"
#include "gpu.bpf.h"
#include "tails.bpf.h"
#include "kernel.bpf.h"
#include "shared/layout.h"
#include "wait.bpf.h"
#include "core.bpf.h"
#include "stacks.bpf.h"
#include "crash.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * Entry and return in one program. At a return the program counter is that of the caller,
 * while bpf_get_func_ip() returns the probe's address both times. Returns 1 at an entry
 * whose return is not traced: the kernel then does not replace that call's return
 * address.
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
		begun = call_begin(ctx, cookie & FSN_COOKIE_FN_MASK, REG_SP(ctx), REG_SP(ctx),
			(cookie >> FSN_COOKIE_TURN_SHIFT & 1) << FSN_KEY_TURN_SHIFT,
			HIJACK_SESSION, true, RUN_NOW);
		/* The probe's overhead is part of the enclosing call. */
		if (fsn_nesting && begun == COUNTED)
			nest_hit(cookie & FSN_COOKIE_FN_MASK, REG_SP(ctx), HIT_ENTRY);
		return begun != TRACKED;
	}
	call_end(cookie & FSN_COOKIE_FN_MASK, cookie >> FSN_COOKIE_MORE_SHIFT, RETURN_SP(ctx),
		ANY_ADDRESS, REG_RESULT(ctx), true);
	return 0;
}

/*
 * The stack pointer at the function's entry: the probe can be after code that has moved
 * it.
 */
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
	__u64 where;
	enum begun begun;

	own_stack(ctx);
	if (is_counted(cookie))
		return 0;
	if (kind == FSN_ARRIVE) {
		count_place(cookie & FSN_COOKIE_FN_MASK, false);
		call_arrives(ctx, cookie & FSN_COOKIE_FN_MASK, sp);
		return 0;
	}
	where = call_place(ctx, cookie, sp);
	begun = call_begin(ctx, cookie & FSN_COOKIE_FN_MASK, where, sp,
		kind == FSN_ENTRY ? 0 : FSN_KEY_BYRET,
		kind == FSN_ENTRY ? HIJACK_ALWAYS : HIJACK_NONE, !is_of_goroutine(where),
		RUN_NOW);
	/* Read again: kept over the calls, they would need stack. */
	cookie = bpf_get_attach_cookie(ctx);
	kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;
	sp = entry_sp(ctx, cookie, kind);
	if (is_untracked(begun))
		call_untracked(ctx, cookie & FSN_COOKIE_FN_MASK, call_place(ctx, cookie, sp),
			begun == NOT_CLAIMED);
	if (kind == FSN_FORWARD)
		call_leaves(cookie & FSN_COOKIE_FN_MASK, sp,
			jump_target(ctx, cookie) | LEAVES_AT_ONCE, REG_LINK(ctx));
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

/*
 * Handles a return of a tail call's target for calls that are not tracked to it. Not
 * inlined: fsn_end() has few registers.
 */
static __noinline int end_strays(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;
	__u64 sp = kind >= FSN_END_EARLY ? early_sp(ctx, cookie) : REG_SP(ctx);

	return nest_stray(sp, end_is_stepped(kind, cookie) ? fsn_step_ns : fsn_hit_ns);
}

/* fsn_call.where of a call that returns by a ret. Not inlined, like end_strays(). */
static __noinline __u64 end_place(struct pt_regs *ctx)
{
	return call_place(ctx, bpf_get_attach_cookie(ctx), REG_SP(ctx));
}

/* Handles a tail call. Not inlined, like end_strays(). */
static __noinline int end_leaves(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;

	call_leaves(cookie & FSN_COOKIE_FN_MASK, REG_SP(ctx),
		kind == FSN_END_REG ? 0 : jump_target(ctx, cookie), REG_LINK(ctx));
	return 0;
}

/*
 * On ret instructions and tail calls, where the stack pointer is that of the entry, and
 * on early exits.
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
	if (fsn_goroutines && kind == FSN_END)
		sp = end_place(ctx);
	if (kind == FSN_END || kind >= FSN_END_EARLY) {
		if (!call_end(fn, led, sp, REG_LINK(ctx), result, false) && fsn_nesting && is_on())
			end_strays(ctx);
	} else {
		end_leaves(ctx);
	}
	return 0;
}
