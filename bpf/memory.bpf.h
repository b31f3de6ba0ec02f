/* SPDX-License-Identifier: GPL-2.0-only */
/* Allocations: memory that calls allocate and free, and memory still allocated at exit. */
#pragma once

#include "rows.bpf.h"

/*
 * Memory that was allocated and not freed: a block for each pointer of a process.
 *
 * A block is inserted when its allocation returns, before the caller has the pointer. It
 * is removed at the *entry* of the call that frees it, because after that call the
 * address may belong to another thread. If the free may fail, or may move the block, the
 * block stays as "taken" until the result is known, and is live again after a failure. A
 * pointer that is allocated again without a free in between (an allocator that calls its
 * own functions) is one block, of the outermost call.
 *
 *	free -> locked -> live		an allocation returns
 *	live, taken -> locked -> live	the same for a pointer already in the table
 *	live -> free, taken		a call that frees it starts
 *	taken -> free, live		that call returns: success, failure
 *	live, taken -> free		its process exits, or calls exec
 *
 * Each transition is a compare-and-exchange of the key, whose generation grows with every
 * allocation; only the winner counts it. A child process has none of its parent's blocks,
 * unless it uses its parent's memory: then its calls count for the parent. An allocation
 * left by longjmp or an exception inserts no block. A free left so has a taken block
 * until the address is allocated again.
 */

const volatile bool fsn_memory_on = false; /* allocations are tracked */
const volatile __u32 fsn_block_bits = 0;   /* number of sets is 1 << this */

/* State of a call in progress: its arguments, and the block that it frees. */
struct slot_memory {
	__u64 size;
	__u64 pointer; /* argument: address at which the pointer will be stored */
	__u64 factor;  /* address of a factor of the size at the return; 0: none */
	__u64 taken;   /* key of the taken block; 0: none */
	__u64 place;   /* index of that block */
};

MAP(fsn_slot_memory, ARRAY, __u32, struct slot_memory, 1);

/*
 * Parts of the table in which a process has ever had a block. Only these are scanned when
 * it exits, so that the scan takes no longer than its allocations did. A process uses one
 * of HEAP_PLACES entries from its number on. If they were full, all parts are scanned.
 */
#define HEAP_PLACES 4
#define HEAP_WORDS  (FSN_BLOCK_PARTS / 64)
struct heap {
	__u32 tgid;    /* 0: free */
	/* odd: the entries of some process with this first entry were full; grows by 2 */
	__u32 crowded;
	__u64 parts[HEAP_WORDS];
};

MAP(fsn_heaps, ARRAY, __u32, struct heap, 1);

/*
 * The process that owns the current memory: a child of vfork(), or of clone() with
 * CLONE_VM, uses its parent's until it calls exec. Chains of such children are short.
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

/* Entry @n of a process. */
static __always_inline struct heap *heap_place(__u32 tgid, __u32 n)
{
	__u32 at = (tgid + n) & (FSN_HEAPS - 1);

	return bpf_map_lookup_elem(&fsn_heaps, &at);
}

/* Number of sets in a part is 1 << this. */
static __always_inline __u32 part_bits(void)
{
	return fsn_block_bits > FSN_BLOCK_PART_BITS ? fsn_block_bits - FSN_BLOCK_PART_BITS : 0;
}

/* --- counters ----------------------------------------------------------------------- */

/* Counts a live block, and updates the peak of the current epoch. */
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

static __always_inline void block_dies(struct fsn_memory *m, __u64 size)
{
	add(&m->n.live_bytes, -size);
	add(&m->n.live_blocks, -1);
}

/* Not static, so that it is verified once; this applies to all such functions below. */
__noinline int block_freed(__u32 fn, __u64 size, __u32 was_live)
{
	struct fsn_memory *m = memory_of(fn);

	if (!m)
		return 0;
	if (was_live)
		block_dies(m, size);
	add(&m->n.freed_bytes, size);
	add(&m->n.freed_blocks, 1);
	return 0;
}

/* --- the table -------------------------------------------------------------------------------- */

static __always_inline __u64 block_hash(__u32 tgid, __u64 pointer)
{
	return (pointer ^ (__u64)tgid << 42) * 0x9e3779b97f4a7c15ULL;
}

/* Set @n in which a block may be. */
static __always_inline __u32 block_place(__u64 hash, __u32 n)
{
	__u64 at = (hash ^ hash >> 32 ^ n * 0xd6e8feb86659fd93ULL) * 0xbf58476d1ce4e5b9ULL;

	return fsn_block_bits ? at >> (64 - fsn_block_bits) : 0;
}

#define BLOCK_NONE FSN_NO_ROW

/*
 * The way of @set with the used block of process @tgid with this hash, or BLOCK_NONE. A
 * program can construct pointers whose hash is that of another process's block, so @tgid
 * is compared.
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
 * The index of a block: its set times FSN_BLOCK_WAYS, plus its way; or BLOCK_NONE. Blocks
 * outside of their first set were stored when it was full, and are counted in its
 * .spilled.
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

/* Locks a free entry for a block. Returns its index or BLOCK_NONE. */
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

/* Updates .spilled after a block with this hash has left set @set_no. */
static __always_inline void block_left(__u64 hash, __u32 set_no)
{
	__u32 i = block_place(hash, 0);
	struct fsn_block_set *first = i == set_no ? NULL : block_set(i);

	if (first)
		add(&first->block[0].spilled, -1);
}

/* Locks the entry of a pointer that is allocated again. Returns 1 if it is locked. */
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
	/* A taken block was freed before its address was allocated again. */
	m = memory_of(set->block[way].fn);
	if (m && (seen & FSN_BLOCK_STATE) == FSN_BLOCK_TAKEN) {
		add(&m->n.freed_bytes, set->block[way].size);
		add(&m->n.freed_blocks, 1);
	} else if (m) {
		block_dies(m, set->block[way].size);
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

/* Records that a process has a block in this set. */
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

/* Counts an allocation of process @tgid, or a lost one if @place is BLOCK_NONE. */
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

/*
 * Handles a call of @fn that frees @pointer. If @slot is not FSN_NO_ROW, block_settle()
 * completes it at the return.
 */
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
	/* Already taken by the caller of this function. */
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
		block_dies(m, size);
	kept->place = place;
	kept->taken = next;
	return 0;
}

/* Completes a free at its return: the block is removed, or live again. */
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

/* Handles an untracked call: if it frees a block, the block is removed. */
static __noinline int memory_untracked(const struct pt_regs *ctx, __u32 fn, __u32 counts)
{
	struct fsn_rule *rule = bpf_map_lookup_elem(&fsn_rules_of, &fn);
	__u64 pointer;

	if (!rule || !rule->frees || !(READ(ctl.on) & FSN_ON))
		return 0;
	pointer = arg_word(ctx, rule->frees);
	if (pointer)
		block_release(fn, FSN_NO_ROW, pointer, counts);
	return 0;
}

/* Handles the entry of a tracked call. */
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

#define GOT  1 /* an allocation has succeeded: .pointer and .size are set */
#define TOOK 2 /* a block is taken */

/* Evaluates the call in @slot at its return. Returns a mask of the above. */
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
 * Handles the return of a tracked call; @failed by its error rule. The functions called
 * here call no further ones, because returns may be deep in the call chain and the stack
 * limit is 512 bytes.
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

/* --- exit of processes -------------------------------------------------------------- */

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

/*
 * Removes the blocks of an exiting process from a set. Returns true if the set may have
 * blocks of another process that has no entry of its own in fsn_heaps.
 */
__noinline int sweep_set(__u32 tgid, __u32 set_no)
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
		/* Once the entry is free, another process may use it. */
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
			block_dies(m, size);
		block_exits(fn, row, size);
		block_left(block_hash(tgid, pointer), set_no);
	}
	return others;
}

/* Removes the blocks of an exiting process from part @part of the table. */
__noinline int sweep_part(__u32 tgid, __u32 part)
{
	__u32 bits = part_bits();
	int others = 0;

	for (__u32 i = 0; i < FSN_BLOCK_PART_MAX; i++) {
		if (i >> bits)
			break;
		others |= sweep_set(tgid, part << bits | i);
	}
	return others;
}

/* Removes the blocks in the parts of a mask: bits of word @word. */
__noinline int sweep_parts(__u32 tgid, __u32 word, __u64 parts)
{
	int others = 0;

	for (__u32 i = 0; i < 64; i++)
		if (parts >> i & 1)
			others |= sweep_part(tgid, word * 64 + i);
	return others;
}

/*
 * Removes the blocks recorded in entry @n. If .crowded of the first entry is set, scans
 * all parts; clears it if no process has set it meanwhile and no block of others was
 * found.
 */
__noinline int sweep_entry(__u32 tgid, __u32 n)
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
		others |= sweep_parts(tgid, word, parts);
		if (READ(heap->tgid) == tgid)
			heap->parts[word] = 0;
	}
	swap(&heap->tgid, tgid, 0);
	if (crowded && !others)
		swap(&heap->crowded, crowded, 0);
	return 0;
}

static __always_inline int sweep_process(__u32 tgid)
{
	if (!(READ(ctl.on) & FSN_ON))
		return 0;
	for (__u32 n = 0; n < HEAP_PLACES; n++)
		sweep_entry(tgid, n);
	return 0;
}

/*
 * Each exiting thread runs this, after it has decremented .live (do_exit(),
 * kernel/exit.c).
 */
SEC("tp_btf/sched_process_exit")
int fsn_heap_exit(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	return task->signal->live.counter ? 0 : sweep_process(task->tgid);
}

/* Runs before the new program's first instruction, after all other threads are gone. */
SEC("tp_btf/sched_process_exec")
int fsn_heap_exec(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	return sweep_process(task->tgid);
}
