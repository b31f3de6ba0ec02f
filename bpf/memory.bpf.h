/* SPDX-License-Identifier: GPL-2.0-only */
/* Which blocks of memory calls hand out and take back, and those of processes that end. */
#ifndef FUNCSNOOP_MEMORY_BPF_H
#define FUNCSNOOP_MEMORY_BPF_H

#include "rows.bpf.h"

/*
 * Memory that was handed out and not taken back: a block for each pointer of a process.
 *
 * A block is put into the table when its allocation returns, before the caller has the pointer,
 * and leaves it at the *entry* of its release: once that has returned, the address may be
 * another thread's. Where the release may fail, or moves the block, it stays as taken until that
 * is known, and is live again if it has failed. A pointer that is handed out again without a
 * release in between (an allocator that calls its own functions) is one block, of the outermost.
 *
 *	free -> locked -> live		an allocation returns
 *	live, taken -> locked -> live	the same of a pointer that is there already
 *	live -> free, taken		its release begins
 *	taken -> free, live		it has ended well, or not
 *	live, taken -> free		its process has ended, or become another program
 *
 * Each is a compare-and-exchange of the key, whose generation goes up with every allocation: who
 * wins counts. A child has none of its parent's blocks, as it has another process id, unless it
 * uses its parent's memory: its blocks and releases are the parent's then. longjmp
 * and exceptions out of an allocation leave no block; out of a release, one that is taken until
 * the address is handed out again.
 */

const volatile bool fsn_memory_on = false; /* blocks are followed */
const volatile __u32 fsn_block_bits = 0;   /* 1 << them: sets */

/* Of a call in progress: what its arguments said, and which block its release took. */
struct slot_memory {
	__u64 size;
	__u64 pointer; /* argument, where one will be stored */
	__u64 factor;  /* where a factor of the size will be; 0: nowhere */
	__u64 taken;   /* its key as it is taken; 0: none was */
	__u64 place;   /* of that */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slot_memory);
} fsn_slot_memory SEC(".maps");

/*
 * In which parts of the table a process has ever had a block: only these are looked through when
 * it ends, so that it takes no longer than its allocations did. A process has one of the places
 * from its number on; where none was free, all parts are looked through.
 */
#define HEAP_PLACES 4
#define HEAP_WORDS  (FSN_BLOCK_PARTS / 64)
struct heap {
	__u32 tgid;    /* 0: free */
	__u32 crowded; /* for some whose first place this is, none was: goes up by 2, and is odd */
	__u64 parts[HEAP_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct heap);
} fsn_heaps SEC(".maps");

/*
 * The process whose memory the current one uses: a child of vfork(), or of clone() with CLONE_VM,
 * has its parent's until it calls exec. Such children of such children are few.
 */
#define MEMORY_PARENTS 4
__noinline __u32 memory_owner(void)
{
	struct task_struct *task = bpf_get_current_task_btf(), *parent;

	for (int i = 0; i < MEMORY_PARENTS; i++) {
		parent = task->real_parent;
		if (!parent || parent->mm != task->mm)
			break;
		task = parent;
	}
	return task->tgid;
}

static __always_inline struct fsn_memory *memory_of(__u32 fn)
{
	return bpf_map_lookup_elem(&fsn_memory, &fn);
}

static __always_inline struct fsn_block_set *block_set(__u32 i)
{
	return bpf_map_lookup_elem(&fsn_blocks, &i);
}

/* The n-th that may be of a process. */
static __always_inline struct heap *heap_place(__u32 tgid, __u32 n)
{
	__u32 at = (tgid + n) & (FSN_HEAPS - 1);

	return bpf_map_lookup_elem(&fsn_heaps, &at);
}

/* 1 << them: sets in a part. */
static __always_inline __u32 part_bits(void)
{
	return fsn_block_bits > FSN_BLOCK_PART_BITS ? fsn_block_bits - FSN_BLOCK_PART_BITS : 0;
}

/* --- what is counted -------------------------------------------------------------------------- */

static __always_inline void block_lives(struct fsn_memory *m, __u64 size)
{
	__u64 epoch = READ(ctl.epoch), live;

	live = (__sync_fetch_and_add(&m->n.live_bytes, size) + size) & FSN_NS_MASK;
	add(&m->n.live_blocks, 1);
	if (epoch & 1)
		raise(&m->peak[1], epoch << FSN_NS_BITS | live);
	else
		raise(&m->peak[0], epoch << FSN_NS_BITS | live);
}

static __always_inline void block_lives_not(struct fsn_memory *m, __u64 size)
{
	add(&m->n.live_bytes, -size);
	add(&m->n.live_blocks, -1);
}

/* Not static, so that it is verified once, on its own, as are those below that say nothing else. */
__noinline int block_freed(__u32 fn, __u64 size, __u32 was_live)
{
	struct fsn_memory *m = memory_of(fn);

	if (!m)
		return 0;
	if (was_live)
		block_lives_not(m, size);
	add(&m->n.freed_bytes, size);
	add(&m->n.freed_blocks, 1);
	return 0;
}

/* --- the table -------------------------------------------------------------------------------- */

static __always_inline __u64 block_hash(__u32 tgid, __u64 pointer)
{
	return (pointer ^ (__u64)tgid << 42) * 0x9e3779b97f4a7c15ULL;
}

/* The n-th set of a block. */
static __always_inline __u32 block_place(__u64 hash, __u32 n)
{
	__u64 at = (hash ^ hash >> 32 ^ n * 0xd6e8feb86659fd93ULL) * 0xbf58476d1ce4e5b9ULL;

	return fsn_block_bits ? at >> (64 - fsn_block_bits) : 0;
}

#define BLOCK_NONE FSN_NO_ROW

/*
 * In which way of @set the block of the process @tgid with this hash is, in use; or BLOCK_NONE. A
 * pointer that nobody was handed out may be made to look like another process's.
 */
static __always_inline __u32 block_way(const struct fsn_block_set *set, __u64 hash, __u32 tgid)
{
	__u64 seen, way = BLOCK_NONE;

#pragma unroll
	for (__u32 i = 0; i < FSN_BLOCK_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!((seen ^ hash) & FSN_BLOCK_HASH) &&
			(seen & FSN_BLOCK_STATE) > FSN_BLOCK_LOCKED &&
			READ(set->block[AFTER(seen, i)].tgid) == tgid)
			way = i;
	}
	return way;
}

/*
 * The place of a block: its set times FSN_BLOCK_WAYS, and its way; or BLOCK_NONE. What is in
 * another set than its first one was put there when that was full, and is counted in it.
 */
__noinline __u32 block_find(__u64 hash, __u32 tgid)
{
	struct fsn_block_set *set;
	__u32 i, way;

	for (__u32 n = 0; n < FSN_BLOCK_PLACES; n++) {
		i = block_place(hash, n);
		set = block_set(i);
		if (!set)
			break;
		way = block_way(set, hash, tgid);
		if (way != BLOCK_NONE)
			return i * FSN_BLOCK_WAYS + way;
		if (!n && !READ(set->block[0].spilled))
			break;
	}
	return BLOCK_NONE;
}

/* The same of a free place, which is then locked. */
__noinline __u32 block_claim(__u64 hash)
{
	struct fsn_block_set *set, *first = NULL;
	__u32 i;

	for (__u32 n = 0; n < FSN_BLOCK_PLACES; n++) {
		i = block_place(hash, n);
		set = block_set(i);
		if (!set)
			break;
		if (!n)
			first = set;
#pragma unroll
		for (__u32 way = 0; way < FSN_BLOCK_WAYS; way++) {
			__u64 seen = READ(set->key[way]);

			if (seen & FSN_BLOCK_STATE ||
				!swap(&set->key[way], seen,
					(seen & FSN_BLOCK_GEN) | FSN_BLOCK_LOCKED))
				continue;
			if (n && first)
				add(&first->block[0].spilled, 1);
			return i * FSN_BLOCK_WAYS + way;
		}
	}
	return BLOCK_NONE;
}

/* A place that was this block's is free. */
static __always_inline void block_left(__u64 hash, __u32 set_no)
{
	__u32 i = block_place(hash, 0);
	struct fsn_block_set *first = i == set_no ? NULL : block_set(i);

	if (first)
		add(&first->block[0].spilled, -1);
}

/* Takes the place of the same pointer, whatever it is: whether it is locked now. */
__noinline int block_again(__u32 place, __u64 hash)
{
	struct fsn_block_set *set = block_set(place / FSN_BLOCK_WAYS);
	__u32 way = place % FSN_BLOCK_WAYS;
	struct fsn_memory *m;
	__u64 seen;

	if (!set)
		return 0;
	seen = READ(set->key[way]);
	if (((seen ^ hash) & FSN_BLOCK_HASH) || (seen & FSN_BLOCK_STATE) <= FSN_BLOCK_LOCKED ||
		!swap(&set->key[way], seen, (seen & FSN_BLOCK_GEN) | FSN_BLOCK_LOCKED))
		return 0;
	/* One that was taken has been released before it was handed out again. */
	m = memory_of(set->block[way].fn);
	if (m && (seen & FSN_BLOCK_STATE) == FSN_BLOCK_TAKEN) {
		add(&m->n.freed_bytes, set->block[way].size);
		add(&m->n.freed_blocks, 1);
	} else if (m) {
		block_lives_not(m, set->block[way].size);
	}
	return 1;
}

/* Writes the allocation of the call in @slot to the locked @place: a block of process @tgid. */
__noinline int block_fill(__u32 place, __u32 fn, __u32 slot, __u64 now, __u32 tgid)
{
	struct slot_memory *kept = bpf_map_lookup_elem(&fsn_slot_memory, &slot);
	struct fsn_block_set *set = block_set(place / FSN_BLOCK_WAYS);
	__u32 *row = bpf_map_lookup_elem(&fsn_slot_rows, &slot), way = place % FSN_BLOCK_WAYS;
	struct fsn_block *block;
	__u64 key;

	if (!set || !kept)
		return 0;
	block = &set->block[way];
	block->pointer = kept->pointer;
	block->size = kept->size;
	block->since_ns = now;
	block->tgid = tgid;
	block->fn = fn;
	block->row = fsn_keyed && row ? *row : FSN_NO_ROW;
	/* The row of a child may be evicted while its parent has the block. */
	if (fsn_keyed && tgid != bpf_get_current_pid_tgid() >> 32)
		block->row = fsn_row_cnt + fn;
	key = block_hash(tgid, block->pointer) & FSN_BLOCK_HASH;
	key |= (set->key[way] + FSN_BLOCK_GEN_ONE) & FSN_BLOCK_GEN;
	publish(&set->key[way], key | FSN_BLOCK_LIVE);
	return 0;
}

/* A process has a block in this set. */
__noinline int heap_has(__u32 tgid, __u32 set_no)
{
	__u32 part = set_no >> part_bits(), word = part / 64 & (HEAP_WORDS - 1);
	__u64 bit = 1ULL << (part & 63);
	struct heap *heap;

	for (__u32 n = 0; n < HEAP_PLACES; n++) {
		heap = heap_place(tgid, n);
		if (!heap)
			return 0;
		if (!READ(heap->tgid))
			swap(&heap->tgid, 0, tgid);
		if (READ(heap->tgid) != tgid)
			continue;
		if (!(READ(heap->parts[word]) & bit))
			__sync_fetch_and_or(&heap->parts[word], bit);
		return 0;
	}
	heap = heap_place(tgid, 0);
	if (heap) {
		__sync_fetch_and_add(&heap->crowded, 2);
		__sync_fetch_and_or(&heap->crowded, 1);
	}
	return 0;
}

/* It counts as a block of process @tgid, unless there was no @place. */
__noinline int block_counts(__u32 fn, __u32 place, __u64 size, __u32 tgid)
{
	struct fsn_memory *m = memory_of(fn);

	if (!m)
		return 0;
	if (place != BLOCK_NONE) {
		block_lives(m, size);
		heap_has(tgid, place / FSN_BLOCK_WAYS);
		return 0;
	}
	add(&m->n.lost_bytes, size);
	add(&m->n.lost_blocks, 1);
	return 0;
}

/* A release by function @fn begins; how it ends is told for @slot, unless that is FSN_NO_ROW. */
__noinline int block_release(__u32 fn, __u32 slot, __u64 pointer, __u32 counts)
{
	__u32 tgid = memory_owner();
	__u64 hash = block_hash(tgid, pointer), seen, next;
	__u32 place = block_find(hash, tgid), way = place % FSN_BLOCK_WAYS, of;
	struct slot_memory *kept = bpf_map_lookup_elem(&fsn_slot_memory, &slot);
	struct fsn_memory *m = memory_of(fn);
	struct fsn_block_set *set;
	__u64 size;

	set = place == BLOCK_NONE ? NULL : block_set(place / FSN_BLOCK_WAYS);
	seen = set ? READ(set->key[way]) : 0;
	if (!set || ((seen ^ hash) & FSN_BLOCK_HASH)) {
		if (m && counts)
			add(&m->n.unknown_frees, 1);
		return 0;
	}
	/* By who calls this function, it is taken already. */
	if ((seen & FSN_BLOCK_STATE) != FSN_BLOCK_LIVE)
		return 0;
	size = READ(set->block[AFTER(seen, way)].size);
	of = READ(set->block[AFTER(seen, way)].fn);
	next = (seen & ~FSN_BLOCK_STATE) | FSN_BLOCK_TAKEN;
	if (slot == FSN_NO_ROW || !kept)
		next = seen & FSN_BLOCK_GEN;
	if (!swap(&set->key[way], seen, next))
		return 0;
	if (slot == FSN_NO_ROW || !kept) {
		block_freed(of, size, 1);
		block_left(hash, place / FSN_BLOCK_WAYS);
		return 0;
	}
	m = memory_of(of);
	if (m)
		block_lives_not(m, size);
	kept->place = place;
	kept->taken = next;
	return 0;
}

/* The release that took it has ended: it is gone, or there again. */
__noinline int block_settle(__u32 slot, __u32 failed)
{
	struct slot_memory *kept = bpf_map_lookup_elem(&fsn_slot_memory, &slot);
	struct fsn_block_set *set;
	struct fsn_memory *m;
	__u64 taken, next;
	__u32 place, way;

	if (!kept)
		return 0;
	taken = kept->taken;
	place = kept->place;
	way = place % FSN_BLOCK_WAYS;
	kept->taken = 0;
	set = block_set(place / FSN_BLOCK_WAYS);
	if (!set)
		return 0;
	next = failed ? (taken & ~FSN_BLOCK_STATE) | FSN_BLOCK_LOCKED : taken & FSN_BLOCK_GEN;
	__u64 size = READ(set->block[way].size), pointer = READ(set->block[way].pointer);
	__u32 of = READ(set->block[way].fn), tgid = READ(set->block[way].tgid);

	if (!swap(&set->key[way], taken, next))
		return 0;
	if (!failed) {
		block_freed(of, size, 0);
		block_left(block_hash(tgid, pointer), place / FSN_BLOCK_WAYS);
		return 0;
	}
	m = memory_of(of);
	if (m)
		block_lives(m, size);
	publish(&set->key[way], (taken & ~FSN_BLOCK_STATE) | FSN_BLOCK_LIVE);
	return 0;
}

/* --- calls ------------------------------------------------------------------------------------ */

static __always_inline __u64 factor_word(const struct pt_regs *ctx, const struct fsn_factor *f)
{
	__u32 unused = (64 - f->width) & 63;
	__u64 word = arg_word(ctx, f->where);

	if (f->how == FSN_FACTOR_BEFORE)
		bpf_probe_read_user(&word, sizeof(word), (void *)(word + f->at * 8));
	return word << unused >> unused;
}

/* A call whose end is not seen: if it releases a block, that is gone. */
static __noinline int memory_passes(const struct pt_regs *ctx, __u32 fn, __u32 counts)
{
	struct fsn_rule *rule = bpf_map_lookup_elem(&fsn_rules_of, &fn);
	__u64 pointer;

	if (!rule || !rule->frees)
		return 0;
	pointer = arg_word(ctx, rule->frees);
	if (pointer)
		block_release(fn, FSN_NO_ROW, pointer, counts);
	return 0;
}

/* A call that is followed begins. */
static __noinline int memory_begins(const struct pt_regs *ctx, __u32 fn, __u32 slot)
{
	struct slot_memory *kept = bpf_map_lookup_elem(&fsn_slot_memory, &slot);
	struct fsn_rule *rule = bpf_map_lookup_elem(&fsn_rules_of, &fn);
	__u64 size = 1, word;

	if (!rule || !kept || !(rule->allocates | rule->frees))
		return 0;
	kept->taken = 0;
	kept->factor = 0;
	kept->pointer = rule->pointer ? arg_word(ctx, rule->pointer) : 0;
#pragma unroll
	for (__u32 i = 0; i < FSN_FACTORS; i++) {
		if (i >= rule->factor_cnt)
			break;
		word = factor_word(ctx, &rule->factor[i]);
		if (rule->factor[i].how == FSN_FACTOR_BEHIND)
			kept->factor = word + rule->factor[i].at * 8;
		else
			size *= word;
	}
	kept->size = rule->factor_cnt ? size : 0;
	word = rule->frees ? arg_word(ctx, rule->frees) : 0;
	if (word)
		block_release(fn, rule->waits ? slot : FSN_NO_ROW, word, 1);
	return 0;
}

#define GOT  1 /* an allocation has succeeded: .pointer and .size are what it got */
#define TOOK 2 /* a release took a block */

/* What the call in @slot was about, now that its result is known: mask of the above. */
__noinline int memory_got(__u32 fn, __u32 slot, __u64 result)
{
	struct slot_memory *kept = bpf_map_lookup_elem(&fsn_slot_memory, &slot);
	struct fsn_rule *rule = bpf_map_lookup_elem(&fsn_rules_of, &fn);
	__u64 factor = 1;
	int got;

	if (!rule || !kept || !(rule->allocates | rule->frees))
		return 0;
	got = kept->taken ? TOOK : 0;
	if (!rule->allocates)
		return got;
	if (kept->factor && !bpf_probe_read_user(&factor, sizeof(factor), (void *)kept->factor))
		kept->size *= factor;
	if (rule->pointer && bpf_probe_read_user(&result, sizeof(result), (void *)kept->pointer))
		result = 0;
	kept->pointer = result;
	return !result || result > -4096ULL ? got : got | GOT;
}

/*
 * It ends; @failed as its result is judged. What this calls goes no deeper, as calls may end far
 * down: stacks are 512 bytes.
 */
__noinline int memory_ends(__u32 fn, __u32 slot, __u64 result, __u32 failed, __u64 now)
{
	int got = memory_got(fn, slot, result);
	struct slot_memory *kept;
	__u64 hash, size;
	__u32 place, tgid;

	kept = bpf_map_lookup_elem(&fsn_slot_memory, &slot);
	if (!got || !kept)
		return 0;
	if (got & GOT && !failed) {
		tgid = memory_owner();
		hash = block_hash(tgid, kept->pointer);
		size = kept->size;
		place = block_find(hash, tgid);
		if (place == BLOCK_NONE || !block_again(place, hash))
			place = block_claim(hash);
		block_counts(fn, place, size, tgid);
		if (place != BLOCK_NONE)
			block_fill(place, fn, slot, now, tgid);
	}
	if (got & TOOK)
		block_settle(slot, failed);
	return 0;
}

/* --- processes that end ------------------------------------------------------------------------ */

/* A block of @fn was live at exit; @i is the row of the call that allocated it. */
static __always_inline void block_exits(__u32 fn, __u32 i, __u64 size)
{
	struct fsn_memory *m = memory_of(fn);
	struct fsn_row *row = fsn_keyed ? row_at(i) : NULL;

	if (m) {
		add(&m->n.exit_bytes, size);
		add(&m->n.exit_blocks, 1);
	}
	if (row) {
		add(&row->exit_bytes, size);
		add(&row->exit_blocks, 1);
	}
}

/* Whether there may be blocks of others whose first place is the same, and who may have none. */
__noinline int set_ends(__u32 tgid, __u32 set_no)
{
	struct fsn_block_set *set = block_set(set_no);
	__u64 seen, size, pointer;
	struct fsn_block *block;
	struct fsn_memory *m;
	__u32 fn, row;
	int others = 0;

	if (!set)
		return 0;
	for (__u32 i = 0; i < FSN_BLOCK_WAYS; i++) {
		seen = READ(set->key[i]);
		others |= (seen & FSN_BLOCK_STATE) == FSN_BLOCK_LOCKED;
		if ((seen & FSN_BLOCK_STATE) <= FSN_BLOCK_LOCKED)
			continue;
		/* Once the place is free, this may be another process's. */
		block = &set->block[AFTER(seen, i) & (FSN_BLOCK_WAYS - 1)];
		if (READ(block->tgid) != tgid) {
			others |= !((READ(block->tgid) ^ tgid) & (FSN_HEAPS - 1));
			continue;
		}
		fn = READ(block->fn);
		row = READ(block->row);
		size = READ(block->size);
		pointer = READ(block->pointer);
		if (!swap(&set->key[i], seen, seen & FSN_BLOCK_GEN))
			continue;
		m = memory_of(fn);
		if (m && (seen & FSN_BLOCK_STATE) == FSN_BLOCK_LIVE)
			block_lives_not(m, size);
		block_exits(fn, row, size);
		block_left(block_hash(tgid, pointer), set_no);
	}
	return others;
}

__noinline int part_ends(__u32 tgid, __u32 part)
{
	__u32 bits = part_bits();
	int others = 0;

	for (__u32 i = 0; i < FSN_BLOCK_PART_MAX; i++) {
		if (i >> bits)
			break;
		others |= set_ends(tgid, part << bits | i);
	}
	return others;
}

/* The parts of which a word says that they may have its blocks. */
__noinline int word_ends(__u32 tgid, __u32 word, __u64 parts)
{
	int others = 0;

	for (__u32 i = 0; i < 64; i++)
		if (parts >> i & 1)
			others |= part_ends(tgid, word * 64 + i);
	return others;
}

/*
 * What its n-th place says; the first one of all that are @crowded has found none. When all has
 * been looked through, nobody has said so meanwhile and nothing of others was met, it is no more.
 */
__noinline int heap_ends_at(__u32 tgid, __u32 n)
{
	struct heap *heap = heap_place(tgid, n);
	__u32 crowded;
	int others = 0;
	__u64 parts;

	if (!heap)
		return 0;
	crowded = n ? 0 : READ(heap->crowded);
	if (!crowded && READ(heap->tgid) != tgid)
		return 0;
	for (__u32 word = 0; word < HEAP_WORDS; word++) {
		parts = crowded ? -1ULL : READ(heap->parts[word]);
		if (!parts)
			continue;
		others |= word_ends(tgid, word, parts);
		if (READ(heap->tgid) == tgid)
			heap->parts[word] = 0;
	}
	swap(&heap->tgid, tgid, 0);
	if (crowded && !others)
		swap(&heap->crowded, crowded, 0);
	return 0;
}

static __always_inline int heap_ends(__u32 tgid)
{
	for (__u32 n = 0; n < HEAP_PLACES; n++)
		heap_ends_at(tgid, n);
	return 0;
}

/* Called by each thread, counted down before (do_exit(), kernel/exit.c). */
SEC("tp_btf/sched_process_exit")
int fsn_heap_exit(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	return task->signal->live.counter ? 0 : heap_ends(task->tgid);
}

/* Before the new program's first instruction, all other threads gone. */
SEC("tp_btf/sched_process_exec")
int fsn_heap_exec(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	return heap_ends(task->tgid);
}

#endif
