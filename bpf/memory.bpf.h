/* SPDX-License-Identifier: GPL-2.0-only */
/* Which blocks of memory calls hand out and take back, and those of processes that end. */
#ifndef FUNCSNOOP_MEMORY_BPF_H
#define FUNCSNOOP_MEMORY_BPF_H

#include "blocks.bpf.h"

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
