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
#include "funcsnoop.h"
#include "jumps.h"

char LICENSE[] SEC("license") = "GPL";

/* Settings, fixed when the group is attached: what is off costs nothing. */
const volatile __u32 fsn_fn_cnt = 1;
const volatile __u32 fsn_timed_cnt = 1;
const volatile __u32 fsn_stat_mask = 0; /* shards - 1; a power of two */
const volatile __u32 fsn_hist_mask = 0;
const volatile __u32 fsn_proc_mask = 0; /* records - 1; a power of two */
const volatile bool fsn_processes = true;
const volatile __u32 fsn_sample = 0; /* follow one call of so many; 0: all */

struct fsn_ctl ctl;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_stat);
} fsn_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_hist);
} fsn_hists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_conf);
} fsn_confs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FSN_SET_CNT);
	__type(key, __u32);
	__type(value, struct fsn_set);
} fsn_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FSN_SLOT_CNT);
	__type(key, __u32);
	__type(value, struct fsn_args);
} fsn_args SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_proc);
} fsn_procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FSN_CODE_CNT);
	__type(key, struct fsn_code);
	__type(value, __u64);
} fsn_codes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FSN_SLOW_CNT);
	__type(key, __u32);
	__type(value, struct fsn_slow);
} fsn_slow SEC(".maps");

/* --- kept for the command; no program reads them ------------------------------------------ */

#define BASE_MAP(name, type_)                                                                 \
	struct {                                                                              \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                             \
		__uint(max_entries, 1);                                                       \
		__type(key, __u32);                                                           \
		__type(value, struct type_);                                                  \
	} name SEC(".maps")

BASE_MAP(fsn_base0, fsn_base);
BASE_MAP(fsn_base1, fsn_base);
BASE_MAP(fsn_base_hist0, fsn_hist);
BASE_MAP(fsn_base_hist1, fsn_hist);
BASE_MAP(fsn_meta, fsn_meta);
BASE_MAP(fsn_libs, fsn_lib);
BASE_MAP(fsn_funcs, fsn_func);

struct fsn_text {
	char text[FSN_TEXT_LEN];
};
BASE_MAP(fsn_text, fsn_text);

/* An update of a map of maps returns when every program that ran before has ended
 * (maybe_wait_bpf_programs, kernel/bpf/syscall.c): what a reset waits with. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, 1);
		__type(key, __u32);
		__type(value, __u32);
	});
} fsn_sync SEC(".maps");

/* --- records ------------------------------------------------------------------------------- */

#define READ(x)       (*(volatile __typeof__(x) *)&(x))
#define add(p, n)     ((void)__sync_fetch_and_add((p), (n)))
#define swap(p, o, n) (__sync_val_compare_and_swap((p), (o), (n)) == (o))

/* Programs stay on their CPU while they run; its number only chooses among shards. */
static __always_inline struct fsn_stat *stat_of(__u32 fn, __u32 cpu)
{
	__u32 i = (cpu & fsn_stat_mask) * fsn_fn_cnt + fn;

	return bpf_map_lookup_elem(&fsn_stats, &i);
}

static __always_inline __u32 log2_u64(__u64 v)
{
	__u32 r = 0;

	if (v >> 32) {
		v >>= 32;
		r = 32;
	}
	if (v >> 16) {
		v >>= 16;
		r += 16;
	}
	if (v >> 8) {
		v >>= 8;
		r += 8;
	}
	if (v >> 4) {
		v >>= 4;
		r += 4;
	}
	if (v >> 2) {
		v >>= 2;
		r += 2;
	}
	return r + (v >> 1);
}

static __always_inline void count_bucket(__u32 row, __u64 ns, __u32 cpu)
{
	__u32 i = (cpu & fsn_hist_mask) * fsn_timed_cnt + row;
	struct fsn_hist *hist = bpf_map_lookup_elem(&fsn_hists, &i);
	__u32 bucket = ns, octave;

	if (!hist)
		return;
	if (ns >= FSN_HIST_STEPS) {
		octave = log2_u64(ns) - FSN_HIST_STEP_BITS;
		bucket = octave * FSN_HIST_STEPS + (ns >> octave);
	}
	if (bucket < FSN_HIST_CNT)
		add(&hist->bucket[bucket], 1);
}

/*
 * Raises a word; the loop ends when the word is as high. Each failed exchange means that
 * another CPU has raised it: 64 times in one call's end is out of reach for 64 threads
 * that each raise it once, and the bound is what the verifier needs.
 */
static __always_inline void raise(unsigned long long *word, __u64 value)
{
	__u64 seen = READ(*word), was;

	for (int i = 0; i < 64 && seen < value; i++) {
		was = __sync_val_compare_and_swap(word, seen, value);
		if (was == seen)
			return;
		seen = was;
	}
}

static __always_inline void raise_extremes(struct fsn_stat *stat, __u64 ns)
{
	__u64 epoch = READ(ctl.epoch), tag = epoch << FSN_NS_BITS;

	if (epoch & 1) {
		raise(&stat->max[1], tag | ns);
		raise(&stat->min[1], tag | (FSN_NS_MASK - ns));
	} else {
		raise(&stat->max[0], tag | ns);
		raise(&stat->min[0], tag | (FSN_NS_MASK - ns));
	}
}

/* --- processes ----------------------------------------------------------------------------- */

static __always_inline __u64 proc_key(__u32 fn, __u32 tgid, __u32 cpu)
{
	return (fn + 1) | (__u64)tgid << FSN_PROC_TGID_SHIFT |
	       (__u64)(cpu % FSN_PROC_SHARDS) << FSN_PROC_SHARD_SHIFT |
	       (__u64)READ(ctl.epoch) << FSN_PROC_EPOCH_SHIFT;
}

static __always_inline struct fsn_proc *proc_at(__u32 i)
{
	return bpf_map_lookup_elem(&fsn_procs, &i);
}

/* Claims a record for a process that has none. Two CPUs may both do so: readers add up. */
static __noinline __u32 proc_claim(__u64 key, __u64 start, __u32 first)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	struct fsn_proc *proc;
	__u32 i;

	for (int n = 0; n < FSN_PROC_PROBES; n++) {
		i = (first + n) & fsn_proc_mask;
		proc = proc_at(i);
		if (!proc)
			break;
		if (READ(proc->key) || !swap(&proc->key, 0, FSN_PROC_LOCKED))
			continue;
		proc->start = start;
		bpf_probe_read_kernel_str(proc->comm, sizeof(proc->comm), leader->comm);
		(void)__sync_lock_test_and_set(&proc->key, key);
		return i;
	}
	add(&ctl.lost_procs, 1);
	return FSN_NO_PROC;
}

static __always_inline __u32 proc_find(__u32 fn, __u32 tgid, __u32 cpu)
{
	__u64 start = bpf_get_current_task_btf()->group_leader->start_boottime;
	__u64 key = proc_key(fn, tgid, cpu);
	__u32 first = ((key ^ start) * 0x9e3779b97f4a7c15ULL) >> 32, i;
	struct fsn_proc *proc;

	for (int n = 0; n < FSN_PROC_PROBES; n++) {
		i = (first + n) & fsn_proc_mask;
		proc = proc_at(i);
		if (!proc)
			break;
		if (READ(proc->key) == key && proc->start == start)
			return i;
	}
	return proc_claim(key, start, first);
}

/* The record at @i if it still is this process's in this epoch, else the right one. */
static __always_inline struct fsn_proc *proc_again(__u32 i, __u32 fn, __u32 tgid,
	__u32 cpu)
{
	struct fsn_proc *proc = proc_at(i);

	if (proc && !((READ(proc->key) ^ proc_key(fn, tgid, 0)) & ~FSN_PROC_SHARD_MASK))
		return proc;
	return proc_at(proc_find(fn, tgid, cpu));
}

/* --- slots --------------------------------------------------------------------------------- */

static __always_inline __u32 set_index(__u32 tgid, __u64 sp)
{
	return ((sp ^ (__u64)tgid << 40) * 0x9e3779b97f4a7c15ULL) >> (64 - FSN_SET_BITS);
}

static __always_inline __u64 call_key(__u32 fn, __u32 tgid)
{
	return (fn + 1) | (__u64)tgid << FSN_KEY_TGID_SHIFT;
}

static __always_inline __u64 next_gen(__u64 key)
{
	return (key & FSN_KEY_GEN_MASK) + FSN_KEY_GEN;
}

static __always_inline void count_abandoned(__u64 key, __u32 cpu)
{
	struct fsn_stat *stat = stat_of((key & FSN_KEY_FN_MASK) - 1, cpu);

	if (stat)
		add(&stat->abandoned, 1);
}

/*
 * Takes a place in the set for a call and leaves it locked. Older calls at the same stack
 * pointer that can't be live any more are given up on the way. Returns the way or -1.
 */
static __always_inline int slot_claim(struct fsn_set *set, __u64 key, __u64 sp, __u32 cpu,
	__u64 *ret_gen)
{
	__u64 seen, gen;
	int mine = -1;

#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!(seen & FSN_KEY_USED_MASK)) {
			if (mine < 0 && swap(&set->key[i], seen, next_gen(seen) | FSN_KEY_LOCKED)) {
				mine = i;
				*ret_gen = next_gen(seen);
			}
			continue;
		}
		if (((seen ^ key) & FSN_KEY_TGID_MASK) || READ(set->sp[i]) != sp)
			continue;
		if (((seen ^ key) & FSN_KEY_FN_MASK) && !(seen & FSN_KEY_BYRET))
			continue;
		gen = next_gen(seen);
		if (!swap(&set->key[i], seen, mine < 0 ? gen | FSN_KEY_LOCKED : gen))
			continue;
		count_abandoned(seen, cpu);
		if (mine < 0) {
			mine = i;
			*ret_gen = gen;
		}
	}
	return mine;
}

/* Follows a call. False when its end is not to be looked for. */
static __always_inline bool call_begin(struct pt_regs *ctx, __u64 cookie, __u64 byret)
{
	__u32 fn = cookie & FSN_FN_MASK, cpu = bpf_get_smp_processor_id();
	__u32 index, tgid, slot, proc = FSN_NO_PROC;
	__u64 id, key, sp = REG_SP(ctx), gen = 0, nth;
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
	way = slot_claim(set, key, sp, cpu, &gen);
	if (way < 0) {
		add(&stat->no_slot, 1);
		return false;
	}
	way &= FSN_WAYS - 1;
	if (READ(ctl.save_args)) {
		slot = index * FSN_WAYS + way;
		args = bpf_map_lookup_elem(&fsn_args, &slot);
		if (args)
			regs_args(ctx, args->arg);
	}
	set->sp[way] = sp;
	set->tid[way] = id;
	set->proc[way] = proc;
	set->start[way] = bpf_ktime_get_ns();
	publish(&set->key[way], gen | key);
	return true;
}

/*
 * Takes the slot of a call at this place away and leaves it locked, so that its contents
 * stay until it is given back with @ret_gen. Returns the way, or -1: there is none.
 */
static __always_inline int slot_take(struct fsn_set *set, __u64 key, __u64 sp, __u64 *ret_gen)
{
	__u64 seen;

#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (((seen ^ key) & FSN_KEY_CALL_MASK) || READ(set->sp[i]) != sp)
			continue;
		*ret_gen = next_gen(seen);
		if (swap(&set->key[i], seen, *ret_gen | FSN_KEY_LOCKED))
			return i;
	}
	return -1;
}

/* --- ends ---------------------------------------------------------------------------------- */

struct end {
	__u64 start, ns, result;
	__u32 fn, tgid, tid, cpu, slot;
	bool known, failed; /* the result */
};

static __always_inline bool result_fails(const struct fsn_conf *conf, __u64 result,
	__s64 *ret_code)
{
	__s64 code = result;
	bool fails;

	switch (conf->judge) {
	case FSN_JUDGE_NONZERO32:
		code = (__s32)result;
		fails = code != 0;
		break;
	case FSN_JUDGE_NONZERO64:
		fails = code != 0;
		break;
	case FSN_JUDGE_NEGATIVE32:
		code = (__s32)result;
		fails = code < 0;
		break;
	case FSN_JUDGE_NEGATIVE64:
		fails = code < 0;
		break;
	case FSN_JUDGE_NULL:
		fails = code == 0;
		break;
	default:
		return false;
	}
	if (!fails)
		return false;
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
	slow->flags = (end->known ? 0 : FSN_SLOW_NO_RESULT) | (end->failed ? FSN_SLOW_FAILED : 0);
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
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid(), gen = 0;
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
	way = slot_take(set, call_key(end.fn, end.tgid), sp, &gen);
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
	call_count(&end, set->proc[way]);
	publish(&set->key[way], gen);
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
