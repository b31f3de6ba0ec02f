/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tail calls. The target runs at the same stack pointer and returns to the caller of the
 * call that jumped: if the target's returns are probed, the call's return is traced
 * there.
 *
 * A ret cannot simply end all calls at its stack pointer: all calls made by one function
 * have the same one, and so have calls left by an exception or longjmp(). So each tail
 * call marks the calls that leave through it with its target and their return address.
 * The entry of the target, if it is probed, distinguishes calls that have arrived there
 * from those that did not or that were there before. A ret ends the calls marked with its
 * function and return address. Calls with another mark, or without one, are over.
 *
 * Tail recursion needs one slot per function: a call that is reached again is part of the
 * outer one. One case remains wrong: an exception or longjmp() leaves a target whose
 * entry is not probed, and then the call instruction that had called the jumping function
 * calls the target itself. Thread exit and exec are handled as for other calls.
 */
#pragma once

#include "core.bpf.h"
#include "nest.bpf.h"
#include "shared/layout.h"
#include "stream.bpf.h"

/*
 * Evaluation of flags and registers: is a probed jump taken, does it leave its function,
 * and what is the result of a call that ends early?
 */

MAP(fsn_jumps, ARRAY, __u32, struct fsn_jump, 1);

/* Conditions after the processor's own 16; lib/code/plan.h has the same numbers. */
#define COND_CXZ  16
#define COND_ECXZ 17
#define COND_CBZ  18
#define COND_CBNZ 19
#define COND_TBZ  20
#define COND_TBNZ 21

#if defined(__TARGET_ARCH_x86)
#define FLAG(n) (flags >> (n) & 1)

/* The low 4 bits of a jcc's opcode: Intel SDM vol. 2, table "condition codes". */
static __always_inline bool jcc_taken(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 cond = cookie >> FSN_COOKIE_COND_SHIFT & 63, flags = ctx->flags;
	bool cf = FLAG(0), pf = FLAG(2), zf = FLAG(6), sf = FLAG(7), of = FLAG(11), yes;

	if (cond == COND_CXZ)
		return ctx->cx == 0;
	if (cond == COND_ECXZ)
		return (__u32)ctx->cx == 0;
	switch (cond >> 1 & 7) {
	case 0:
		yes = of;
		break;
	case 1:
		yes = cf;
		break;
	case 2:
		yes = zf;
		break;
	case 3:
		yes = cf || zf;
		break;
	case 4:
		yes = sf;
		break;
	case 5:
		yes = pf;
		break;
	case 6:
		yes = sf != of;
		break;
	default:
		yes = zf || sf != of;
	}
	return yes != (cond & 1);
}

/* Register by the processor's number. */
static __always_inline __u64 reg_value(const struct pt_regs *ctx, __u32 reg)
{
	__u64 value = 0;

	PICK(0, ax);
	PICK(1, cx);
	PICK(2, dx);
	PICK(3, bx);
	PICK(4, sp);
	PICK(5, bp);
	PICK(6, si);
	PICK(7, di);
	PICK(8, r8);
	PICK(9, r9);
	PICK(10, r10);
	PICK(11, r11);
	PICK(12, r12);
	PICK(13, r13);
	PICK(14, r14);
	PICK(15, r15);
	return value;
}
#else
static __always_inline __u64 reg_value(const struct pt_regs *ctx, __u32 reg)
{
	__u64 value = 0; /* 31 is xzr */

#pragma unroll
	for (int i = 0; i < 31; i++)
		PICK(i, regs[i]);
	return value;
}

/* Arm ARM C1.2.4: conditions, on N Z C V in bits 31 to 28 of pstate. */
static __always_inline bool jcc_taken(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 cond = cookie >> FSN_COOKIE_COND_SHIFT & 63, flags = ctx->pstate;
	bool v = flags >> 28 & 1, c = flags >> 29 & 1, z = flags >> 30 & 1, n = flags >> 31 & 1;
	__u64 reg = reg_value(ctx, cookie >> FSN_COOKIE_REG_SHIFT & 31);
	bool yes;

	if (cond == COND_CBZ || cond == COND_CBNZ) {
		if (!(cookie >> FSN_COOKIE_WIDE_SHIFT & 1))
			reg = (__u32)reg;
		return (reg == 0) == (cond == COND_CBZ);
	}
	if (cond == COND_TBZ || cond == COND_TBNZ)
		return (reg >> (cookie >> FSN_COOKIE_BIT_SHIFT & 63) & 1) == (cond == COND_TBNZ);
	switch (cond >> 1 & 7) {
	case 0:
		yes = z;
		break;
	case 1:
		yes = c;
		break;
	case 2:
		yes = n;
		break;
	case 3:
		yes = v;
		break;
	case 4:
		yes = c && !z;
		break;
	case 5:
		yes = n == v;
		break;
	case 6:
		yes = n == v && !z;
		break;
	default:
		return true; /* al, nv */
	}
	return yes != (cond & 1);
}
#endif

/* The target of a jump to another file if it returns to a probed place, by its return address; or 0. */
static __noinline __u64 jump_behind(struct pt_regs *ctx, const struct fsn_jump *jump)
{
	__s64 away = return_address(REG_SP(ctx), REG_LINK(ctx)) - REG_IP(ctx);
	bool found = false;

	for (int k = 0; k < FSN_JUMP_RANGES; k++)
		found |= away == jump->hi[k];
	return found ? jump->to : 0;
}

/*
 * The target of a tail call: its cookie's bits from FSN_COOKIE_WAIT_SHIFT on; 0 if not
 * known. A jump through a GOT entry leads to another file's function of the same name if
 * symbol interposition applies, and to the dynamic linker before the symbol is resolved.
 * A jump out of the file is known by its return address, if that is a probed place.
 */
static __always_inline __u64 jump_target(struct pt_regs *ctx, __u64 cookie)
{
	__u64 at = REG_IP(ctx), word = 0;
	__u32 i = cookie >> FSN_COOKIE_MORE_SHIFT;
	struct fsn_jump *jump;

	if (!(cookie >> FSN_COOKIE_WORD_SHIFT & 1))
		return cookie >> FSN_COOKIE_WAIT_SHIFT;
	jump = bpf_map_lookup_elem(&fsn_jumps, &i);
	if (jump && !jump->word)
		return jump_behind(ctx, jump);
	if (!jump || bpf_probe_read_user(&word, sizeof(word), (void *)(at + jump->word)) ||
		word != at + jump->target)
		return 0;
	return jump->to;
}

/* True if the indirect jump leads outside of its function. */
static __always_inline bool jump_leaves(const struct pt_regs *ctx, __u64 cookie)
{
	__u32 i = cookie >> FSN_COOKIE_MORE_SHIFT;
	struct fsn_jump *jump = bpf_map_lookup_elem(&fsn_jumps, &i);
	__s64 away;

	if (!jump)
		return false;
	away = reg_value(ctx, cookie >> FSN_COOKIE_REG_SHIFT & 31) - REG_IP(ctx);
#pragma unroll
	for (int r = 0; r < FSN_JUMP_RANGES; r++)
		if (away >= jump->lo[r] && away < jump->hi[r])
			return false;
	return true;
}

/* Early exits: address of the return address. */
static __always_inline __u64 early_sp(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 sp = REG_SP(ctx), fp = REG_FP(ctx);

	asm volatile("" : "+r"(sp), "+r"(fp));
	return (cookie >> FSN_COOKIE_FP_SHIFT & 1 ? fp : sp) + ((__s64)cookie >> FSN_COOKIE_PLACE_SHIFT) * 8;
}

/* Early exits: the result of the call. */
static __always_inline __u64 early_result(const struct pt_regs *ctx, __u64 cookie)
{
	__u32 unused = (64 - (64 >> (cookie >> FSN_COOKIE_CUT_SHIFT & 3))) & 63;
	__u64 result;

	if (cookie >> FSN_COOKIE_NUMBER_SHIFT & 1)
		result = (__s64)(cookie << (58 - FSN_COOKIE_BIT_SHIFT)) >> 58;
	else
		result = reg_value(ctx, cookie >> FSN_COOKIE_REG_SHIFT & 31);
	return result << unused >> unused;
}

/* --- counters and corrections ------------------------------------------------------- */

static __noinline int count_chained(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.chained, 1);
	return 0;
}

/*
 * Counts a return without a slot: its call started before the attach, or in a parent
 * process, or was untracked. With --if, most calls are untracked, so it is not counted as
 * unmatched.
 */
__noinline int count_unmatched(__u32 fn, __u64 where, int hit)
{
	struct fsn_stat *stat =
		fn < fsn_fn_cnt ? stat_of(fn, bpf_get_smp_processor_id()) : NULL;
	bool on = is_on(), told = on && !(READ(ctl.on) & FSN_FILTER_IF);

	if (stat && told)
		add(&stat->n.unmatched, 1);
	else if (stat && hit == HIT_END)
		add(&stat->n.strays, 1);
	/* Not the hit of a ret, but of a tail call, or without a hit of its own. */
	if (stat && told && hit != HIT_END)
		add(&stat->n.led, 1);
	if (stat && hit == HIT_PASSED)
		add(&stat->n.passed, 1);
	if (fsn_nesting && on && hit != HIT_NONE)
		nest_hit(fn, where, hit);
	return 0;
}

/* Counts the return of a call that the filters have rejected. */
static __noinline int count_stray(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.strays, 1);
	return 0;
}

/* Counts a probe hit on a jump that stayed in the function: part of the group's overhead. */
static __noinline int count_passed(__u32 fn, __u64 where)
{
	struct fsn_stat *stat =
		fn < fsn_fn_cnt ? stat_of(fn, bpf_get_smp_processor_id()) : NULL;

	if (stat)
		add(&stat->n.passed, 1);
	if (fsn_nesting && is_on())
		nest_hit(fn, where, HIT_PASSED);
	return 0;
}

#define ANY_ADDRESS    (~0ULL)
#define LEAVES_AT_ONCE (1ULL << 32)

int end_followed(__u32 fn, __u32 slot, __u64 now, __u64 result);

static __always_inline struct fsn_place *place_of(__u32 place)
{
	__u32 i = place - fsn_fn_cnt;

	return place < fsn_fn_cnt ? NULL : bpf_map_lookup_elem(&fsn_places, &i);
}

/* True if the target's exits are hit more often by other callers than by tracked calls. */
static __always_inline bool is_expensive(__u32 to)
{
	struct fsn_place *place = place_of(to);

	return place && place_is_expensive(READ(place->hits), READ(place->ended));
}

/*
 * Ends the call in the locked @slot without a result or duration, because its return is
 * not traced.
 */
__noinline int end_untimed(__u32 fn, __u32 slot, __u64 now)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	__u32 i = slot / FSN_WAYS;
	struct fsn_set *set;

	if (stat)
		add(&stat->n.jumped, 1);
	if (fsn_nesting)
		nest_left(fn, slot, now);
	if (READ(ctl.streams)) {
		__u64 start = slot_start(slot);

		stream_ends(fn, slot, now > start ? now - start : 0,
			FSN_CALL_UNTIMED | FSN_CALL_NO_RESULT, 0);
	}
	set = bpf_map_lookup_elem(&fsn_slots, &i);
	if (set)
		slot_publish(set, slot % FSN_WAYS, 0);
	return 0;
}

/* True if the call with key @seen is in @place now. */
static __always_inline bool is_at(
	const struct fsn_mark *mark, __u64 seen, __u32 place, __u64 back)
{
	if (!(seen & FSN_KEY_LEFT))
		return seen & FSN_KEY_BYRET && (seen & FSN_KEY_FN_MASK) == place + 1;
	return mark && mark->to == place && mark->waits != FSN_MARK_WAITS &&
	       (back == ANY_ADDRESS || mark->back == back);
}

/*
 * Handles such a call, whose slot is locked, at a tail call: marks it, or ends it if the
 * target is not tracked.
 */
static __always_inline void slot_leaves(struct fsn_set *set, __u32 no, int way, __u64 seen,
	__u64 how, __u64 back)
{
	struct fsn_mark *mark = mark_of(no, way);

	if (!how || !mark) {
		held_add(seen, way, -1);
		end_untimed((seen & FSN_KEY_FN_MASK) - 1, no * FSN_WAYS + way,
			bpf_ktime_get_ns());
		return;
	}
	mark->hits = seen & FSN_KEY_LEFT ? mark->hits + 1 : !(how & LEAVES_AT_ONCE);
	mark->back = back;
	mark->to = ((__u32)how >> 1) - 1;
	mark->waits = how & FSN_JUMP_BEHIND ? FSN_MARK_BEHIND : how & 1;
	slot_publish(set, way, (seen & FSN_KEY_USED_MASK) | FSN_KEY_LEFT);
}

/* Counts a hit of target @place outside the group for the function that owns its probes. */
static __noinline int count_place(__u32 place, int stepped)
{
	struct fsn_place *other = place_of(place);
	struct fsn_stat *stat =
		other ? stat_of(other->fn, bpf_get_smp_processor_id()) : NULL;

	if (stat) {
		add(&stat->n.passed, 1);
		if (stepped)
			add(&stat->n.stepped, 1);
	}
	return 0;
}

/* Counts a hit of a single-stepped jump of @fn. */
static __noinline int count_step(__u32 fn)
{
	struct fsn_stat *stat =
		fn < fsn_fn_cnt ? stat_of(fn, bpf_get_smp_processor_id()) : NULL;

	if (stat)
		add(&stat->n.stepped, 1);
	return 0;
}

/* True if the kernel single-steps the probed instruction. */
static __always_inline bool end_is_stepped(__u64 kind, __u64 cookie)
{
#if defined(__TARGET_ARCH_x86)
	return kind == FSN_END ||
	       cookie >> (kind < FSN_END_EARLY ? FSN_COOKIE_STEP_SHIFT : FSN_COOKIE_STEPS_SHIFT) & 1;
#else
	return kind == FSN_END || (kind >= FSN_END_EARLY && cookie >> FSN_COOKIE_STEPS_SHIFT & 1);
#endif
}

/*
 * Counts a return of @fn traced by the probe of a tail call's target, which counts its
 * own hits.
 */
static __noinline int count_led(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.led, 1);
	return 0;
}

/*
 * Counts the hit of a tracked tail call as overhead, which is not part of the call's
 * time.
 */
static __noinline int count_jump(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.passed, 1);
	return 0;
}

/* A tail call that calls leave through. */
struct leaving {
	__u32 no; /* of their set */
	__u32 place;
	__u64 back;
	__u64 how; /* as in call_leaves(); 0 also if the target is not tracked */
};

/*
 * Handles one call at the stack address of a tail call, @way under @seen: it leaves if it
 * is in the jumping function, else it is over. Returns its key, or 0. Not static, like
 * end_left_way().
 */
__noinline __u64 call_leaves_way(
	struct fsn_set *set, __u32 way, __u64 seen, const struct leaving *jump)
{
	const struct fsn_mark *mark;

	if (!set || !jump)
		return 0;
	way &= FSN_WAYS - 1;
	mark = mark_of(jump->no, way);
	if (!is_at(mark, seen, jump->place, jump->back)) {
		if (seen & FSN_KEY_BYRET && !is_behind(mark, seen, jump->back))
			slot_drop(set, way, seen);
		return 0;
	}
	if (!swap(&set->key[way], seen, next_gen(seen) | FSN_KEY_LOCKED))
		return 0;
	slot_leaves(set, jump->no, way, seen, jump->how, jump->back);
	return seen;
}

/*
 * Handles a tail call of @place, which is a function of the group or not: all calls in it
 * continue at the target. @how: cookie bits from FSN_COOKIE_WAIT_SHIFT on, 0: target not
 * known; with LEAVES_AT_ONCE if the function's entry is this jump.
 */
__noinline int call_leaves(__u32 place, __u64 where, __u64 how, __u64 link)
{
	__u32 tgid = bpf_get_current_task_btf()->tgid, no = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &no);
	struct leaving jump = { .no = no, .place = place };
	__u64 key = call_key(place, tgid), seen, left = 0;
	bool at_once = how & LEAVES_AT_ONCE;

	if (!set)
		return 0;
	if (fsn_follows)
		jump.back = return_address(where, link);
	if (jump.back && (__u32)how >= 2 &&
		(how & FSN_JUMP_BEHIND || !is_expensive(((__u32)how >> 1) - 1)))
		jump.how = how;
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!(seen & FSN_KEY_TGID_MASK) || seen & FSN_KEY_GHOST ||
			!is_here(set, i, seen, key, where))
			continue;
		left |= call_leaves_way(set, i, seen, &jump);
	}
	if (!left)
		return count_unmatched(place, where, at_once ? HIT_NONE : HIT_PASSED);
	if (jump.how && !at_once && place < fsn_fn_cnt)
		count_jump(place);
	return 0;
}

/* True if some call at @where may have left through a tail call. */
static __always_inline bool some_left(__u64 where)
{
	__u32 no = set_index(bpf_get_current_task_btf()->tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &no);
	__u64 used = 0;

	if (!set)
		return false;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++)
		used |= READ(set->key[i]);
	return used & FSN_KEY_LEFT;
}

/* A return at which calls may return that have left through tail calls. */
struct left_end {
	__u32 no; /* of their set */
	__u32 place;
	__u64 back, now, result;
};

#define ENDED     1 /* some call has returned */
#define ENDED_OWN 2 /* a call of @place itself has */

/*
 * Handles one such call, @way under @seen: it returns if it has arrived here, else it is
 * over. Not static, so that it is verified once, for any way.
 */
__noinline int end_left_way(
	struct fsn_set *set, __u32 way, __u64 seen, const struct left_end *end)
{
	struct fsn_place *other;
	struct fsn_mark *mark;
	__u64 hits_ns;
	__u32 fn;

	if (!set || !end)
		return 0;
	way &= FSN_WAYS - 1;
	mark = mark_of(end->no, way);
	if (!is_at(mark, seen, end->place, end->back)) {
		if (!is_behind(mark, seen, end->back))
			slot_drop(set, way, seen);
		return 0;
	}
	if (!swap(&set->key[way], seen, next_gen(seen) | FSN_KEY_LOCKED))
		return 0;
	held_add(seen, way, -1);
	other = place_of(end->place);
	if (other)
		add(&other->ended, 1);
	fn = (seen & FSN_KEY_FN_MASK) - 1;
	hits_ns = (mark ? mark->hits : 0) * (__u64)fsn_hit_ns;
	if (fsn_nesting && hits_ns)
		nest_outer_probe(end->no * FSN_WAYS + way, hits_ns);
	end_followed(fn, end->no * FSN_WAYS + way, end->now - hits_ns, end->result);
	if (fn == end->place)
		return ENDED | ENDED_OWN;
	count_led(fn);
	return ENDED;
}

/*
 * Handles a return of @place for the calls that have arrived there through tail calls.
 * Returns a mask of ENDED and ENDED_OWN. With ENDED_OWN, one of these is of @place
 * itself, so the returning call has no slot of its own. @link: as for return_address(),
 * or ANY_ADDRESS if a return probe has replaced the address and the entry is probed.
 */
__noinline int end_left(__u32 place, __u64 where, __u64 link, __u64 result)
{
	__u32 tgid = bpf_get_current_task_btf()->tgid, no = set_index(tgid, where);
	struct left_end end = { .no = no, .place = place, .result = result };
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &no);
	__u64 key = call_key(place, tgid), seen, own = 0;
	struct fsn_place *other = place_of(place);

	end.now = bpf_ktime_get_ns();
	if (!set)
		return 0;
	if (other)
		add(&other->hits, 1);
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!(seen & FSN_KEY_LEFT) || !is_here(set, i, seen, key, where))
			continue;
		if (!end.back)
			end.back = link == ANY_ADDRESS ? link : return_address(where, link);
		own |= end_left_way(set, i, seen, &end);
	}
	return own;
}
