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
//	place finds its own key taken, and takes it over: the old call is abandoned. So
//	does a call of another function there if the old one's end is seen by ret probes (a
//	live tail caller would have ended by its jump); if it ends by return probe it may
//	be a live tail caller and stays.
//   recursion deeper than 64 under return probes: the kernel does not follow those calls
//	(MAX_URETPROBE_DEPTH); their slots are taken over or swept like the above.
//   thread exit, exec, kill: the slot stays until a command sees that the thread is gone.
//   fork: the child has another process id, so that its return from the parent's call
//	finds no slot, and is counted as unmatched; the parent's call is not touched.
//
// An end counts only when it takes the slot away, by compare-and-exchange on a word that
// has a generation in it: with whom it races (a sweep), one wins. Programs are preemptible
// (6.0 and later) and run at once on many CPUs: each counter is added to atomically.
#include "core.h"
#include "counters.h"
#include "funcsnoop.h"
#include "jumps.h"
#include "procs.h"
#include "slots.h"

char LICENSE[] SEC("license") = "GPL";

/* --- a call begins -------------------------------------------------------------------------- */

/* Follows a call. False when its end is not to be looked for. */
static __always_inline bool call_begin(struct pt_regs *ctx, __u64 cookie, __u64 byret)
{
	__u32 fn = cookie & FSN_FN_MASK, cpu = bpf_get_smp_processor_id();
	__u32 index, tgid, slot, proc = FSN_NO_PROC;
	__u64 id, key, sp = REG_SP(ctx), nth;
	struct fsn_proc *record;
	struct fsn_args *args;
	struct fsn_stat *stat;
	struct fsn_set *set;
	int way;

	if (!READ(ctl.armed))
		return false;
	stat = stat_of(fn, cpu);
	if (!stat)
		return false;
	id = bpf_get_current_pid_tgid();
	tgid = id >> 32;
	if (fsn_processes) {
		proc = proc_find(fn, tgid, cpu);
		record = proc_at(proc);
		if (record)
			add(&record->calls, 1);
	}
	if (fsn_sample) {
		nth = __sync_fetch_and_add(&stat->calls, 1);
		if (nth % fsn_sample) {
			add(&stat->sampled_out, 1);
			return false;
		}
	} else {
		add(&stat->calls, 1);
	}
	index = set_index(tgid, sp);
	set = bpf_map_lookup_elem(&fsn_slots, &index);
	if (!set)
		return false;
	key = call_key(fn, tgid) | byret;
	way = slot_claim(set, key, sp, cpu);
	if (way < 0) {
		add(&stat->no_slot, 1);
		return false;
	}
	way &= FSN_WAYS - 1;
	if (READ(ctl.save_args)) {
		slot = index * FSN_WAYS + way;
		args = bpf_map_lookup_elem(&fsn_args, &slot);
		if (args) {
			regs_args(ctx, args->arg);
			proc |= FSN_HAS_ARGS;
		}
	}
	set->sp[way] = sp;
	set->tid[way] = id;
	set->proc[way] = proc;
	set->start[way] = bpf_ktime_get_ns();
	slot_publish(set, way, key);
	return true;
}

/* --- ends ---------------------------------------------------------------------------------- */

struct end {
	__u64 start, ns, result;
	__u32 fn, tgid, tid, cpu, slot;
	bool known, failed; /* the result */
	bool has_args;
};

static __always_inline bool result_fails(const struct fsn_conf *conf, __u64 result,
	__s64 *ret_code)
{
	__u32 unused = (64 - conf->width) & 63;
	__s64 code = (__s64)(result << unused) >> unused;

	switch (conf->judge) {
	case FSN_JUDGE_NONZERO:
		if (!code)
			return false;
		break;
	case FSN_JUDGE_NEGATIVE:
		if (code >= 0)
			return false;
		break;
	case FSN_JUDGE_NULL:
		if (code)
			return false;
		break;
	default:
		return false;
	}
#pragma unroll
	for (int i = 0; i < FSN_OK_CODES; i++)
		if (i < conf->ok_cnt && code == conf->ok[i])
			return false;
	*ret_code = code;
	return true;
}

static __noinline int count_code(__u32 fn, __s64 code)
{
	struct fsn_code key = { .fn = fn, .epoch = READ(ctl.epoch), .code = code };
	__u64 none = 0, *count = bpf_map_lookup_elem(&fsn_codes, &key);

	if (!count) {
		bpf_map_update_elem(&fsn_codes, &key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&fsn_codes, &key);
	}
	if (count)
		add(count, 1);
	else
		add(&ctl.lost_codes, 1);
	return 0;
}

static __noinline int remember_slow(struct end *end)
{
	__u64 seq = __sync_fetch_and_add(&ctl.slow_head, 1);
	__u32 i = seq % FSN_SLOW_CNT, slot;
	struct fsn_slow *slow;
	struct fsn_args *args;

	slot = end->slot;
	slow = bpf_map_lookup_elem(&fsn_slow, &i);
	args = bpf_map_lookup_elem(&fsn_args, &slot);
	if (!slow || !args)
		return 0;
	(void)__sync_lock_test_and_set(&slow->seq, 0);
	slow->start = end->start;
	slow->duration = end->ns;
	slow->result = end->result;
	slow->fn = end->fn;
	slow->pid = end->tgid;
	slow->tid = end->tid;
	slow->flags = (end->known ? 0 : FSN_SLOW_NO_RESULT) |
		      (end->failed ? FSN_SLOW_FAILED : 0) |
		      (end->has_args ? 0 : FSN_SLOW_NO_ARGS);
	__builtin_memcpy(slow->arg, args->arg, sizeof(slow->arg));
	bpf_get_current_comm(slow->comm, sizeof(slow->comm));
	(void)__sync_lock_test_and_set(&slow->seq, seq + 1);
	return 0;
}

static __always_inline void call_count(struct end *end, __u32 proc_index)
{
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &end->fn);
	struct fsn_stat *stat = stat_of(end->fn, end->cpu);
	struct fsn_proc *proc;
	__s64 code = 0;
	bool slow;

	if (!conf || !stat)
		return;
	add(&stat->total_ns, end->ns);
	add(&stat->returns, 1);
	count_bucket(conf->row, end->ns, end->cpu);
	raise_extremes(stat, end->ns);
	end->failed = end->known && result_fails(conf, end->result, &code);
	if (end->failed) {
		add(&stat->errors, 1);
		count_code(end->fn, code);
	}
	slow = end->ns >= READ(conf->slow_ns);
	if (slow) {
		add(&stat->slow, 1);
		remember_slow(end);
	}
	if (!fsn_processes)
		return;
	proc = proc_again(proc_index, end->fn, end->tgid, end->cpu);
	if (!proc)
		return;
	add(&proc->returns, 1);
	add(&proc->total_ns, end->ns);
	raise(&proc->max_ns, end->ns);
	if (end->failed)
		add(&proc->errors, 1);
	if (slow)
		add(&proc->slow, 1);
}

static __always_inline void call_end(struct pt_regs *ctx, __u64 cookie, __u64 sp, bool known)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	struct end end = {
		.fn = cookie & FSN_FN_MASK,
		.tgid = id >> 32,
		.tid = id,
		.cpu = bpf_get_smp_processor_id(),
	};
	__u32 index = set_index(end.tgid, sp);
	struct fsn_stat *stat;
	struct fsn_set *set;
	int way;

	if (!READ(ctl.armed))
		return;
	set = bpf_map_lookup_elem(&fsn_slots, &index);
	if (!set)
		return;
	way = slot_take(set, call_key(end.fn, end.tgid), sp);
	if (way < 0) {
		stat = stat_of(end.fn, end.cpu);
		if (stat)
			add(&stat->unmatched, 1);
		return;
	}
	way &= FSN_WAYS - 1;
	end.start = set->start[way];
	end.slot = index * FSN_WAYS + way;
	end.ns = now > end.start ? now - end.start : 0;
	if (end.ns > FSN_NS_MASK)
		end.ns = FSN_NS_MASK;
	end.result = REG_RESULT(ctx);
	end.known = known;
	end.has_args = set->proc[way] & FSN_HAS_ARGS;
	call_count(&end, set->proc[way] & ~FSN_HAS_ARGS);
	slot_publish(set, way, 0);
}

/* --- programs ------------------------------------------------------------------------------ */

/*
 * Entry and return in one. At a return the program counter is that of the caller, while
 * bpf_get_func_ip gives the probe's address both times. Returns 1 at an entry whose end
 * is not to be looked for: the kernel leaves that call's return address alone.
 */
SEC("uprobe")
int fsn_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (bpf_get_func_ip(ctx) == REG_IP(ctx))
		return !call_begin(ctx, cookie, 0);
	call_end(ctx, cookie, RETURN_SP(ctx), true);
	return 0;
}

SEC("uprobe")
int fsn_entry(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;

	call_begin(ctx, cookie, kind == FSN_ENTRY_RET ? FSN_KEY_BYRET : 0);
	return 0;
}

SEC("uprobe")
int fsn_count(struct pt_regs *ctx)
{
	__u32 fn = bpf_get_attach_cookie(ctx) & FSN_FN_MASK, cpu = bpf_get_smp_processor_id();
	struct fsn_stat *stat;
	struct fsn_proc *proc;

	if (!READ(ctl.armed))
		return 0;
	stat = stat_of(fn, cpu);
	if (stat)
		add(&stat->calls, 1);
	if (fsn_processes) {
		proc = proc_at(proc_find(fn, bpf_get_current_pid_tgid() >> 32, cpu));
		if (proc)
			add(&proc->calls, 1);
	}
	return 0;
}

SEC("uretprobe")
int fsn_return(struct pt_regs *ctx)
{
	call_end(ctx, bpf_get_attach_cookie(ctx), RETURN_SP(ctx), true);
	return 0;
}

/* On ret instructions, and on jumps that leave: the stack pointer is that of the entry. */
SEC("uprobe")
int fsn_end(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;

	if (kind == FSN_END_JCC && !jcc_taken(ctx, cookie))
		return 0;
	if (kind == FSN_END_REG && !jump_leaves(ctx, cookie))
		return 0;
	call_end(ctx, cookie, REG_SP(ctx), kind == FSN_END);
	return 0;
}
