/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the file mapped at an address of the current process.
 *
 * bpf_find_vma() (5.17) takes a lock, which may be busy. With interrupts off, as in a
 * sample or at a switch, it works only once per event, because the unlock is deferred to
 * an interrupt that cannot run before (bpf_mmap_unlock_get_irq_work(),
 * kernel/bpf/mmap_unlock_work.h). So the tree of mappings is read without a lock, while
 * it may be changing. A result counts if the mapping is of this process and contains the
 * address. If two attempts fail, the mappings are reported as changing.
 */
#pragma once

#include "counters.bpf.h"
#include "maps.bpf.h"
#include "shared/layout.h"

const volatile bool fsn_walks_stacks = false;
const volatile __u32 fsn_page_shift = 12;
const volatile struct fsn_file_name fsn_no_name = {}; /* too large for the stack */

struct file_system_type {
	int fs_flags;
} __core;

struct super_block {
	__u32 s_dev;
	struct file_system_type *s_type;
	unsigned long s_magic;
} __core;

struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
} __core;

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_generation; /* changes when the inode number is reused */
	struct timespec64 i_mtime;
	struct timespec64 __i_mtime; /* since 6.7 */
	__s64 i_mtime_sec;           /* since 6.11 */
	__u32 i_mtime_nsec;
} __core;

struct file {
	struct inode *f_inode;
	struct {
		struct dentry *dentry;
	} f_path;
} __core;

struct vm_area_struct {
	unsigned long vm_start, vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct mm_struct *vm_mm;
	struct file *vm_file;
	struct rb_node vm_rb; /* before 6.1 */
} __core;

struct qstr {
	const unsigned char *name;
} __core;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
} __core;

/*
 * A node of the tree, include/linux/maple_tree.h: its parent, ends of ranges (pivots),
 * children (slots).
 */
#define NODE_WORDS   32
/* at least ten children each: more than the maximum number of mappings */
#define NODE_DEPTH   12
#define NODE_AT(e)   ((e) & ~255ULL)
#define NODE_TYPE(e) ((e) >> 3 & 15)
#define ROOT_IS_NODE(e) (((e) & 3) == 2)
#define TYPE_RANGE   2 /* leaves have a lower type and the same layout */
#define TYPE_ARANGE  3
#define RANGE_ENDS   15
#define ARANGE_ENDS  9
#define ARANGE_LAST  30 /* its lowest byte is the index of the last pivot in use; */
#define RANGE_LAST   31 /* the same, for a range node whose last pivot is 0 */

#define OLD_DEPTH 36 /* twice the logarithm of the maximum number of mappings */

#define VM_EXEC 4 /* include/linux/mm.h */

struct mapping {
	struct fsn_file_id id; /* 0 if no file is mapped */
	__u64 flags;           /* VM_EXEC and others */
	__u64 at, offset;      /* the address, and its offset in the file */
	__u64 start, end;      /* of the last mapping found; .end 0: none */
	__u64 file;            /* struct file, which may be freed at any time */
	__u64 entry;           /* current node of the search, and */
	__u64 node[NODE_WORDS]; /* its content */
};

#define NSEC_PER_SEC 1000000000ULL

/*
 * Combines generation and mtime in one number; two files with the same inode number have
 * the same with a probability of 1 in 4,294,967,296.
 */
static __always_inline __u32 version_of(__u32 generation, __u64 mtime_ns)
{
	return generation ^ (__u32)(mtime_ns * 0x9e3779b97f4a7c15ULL >> 32);
}

/* For an inode that cannot be freed while the BPF program runs. */
static __always_inline __u64 inode_mtime(struct inode *inode)
{
	if (bpf_core_field_exists(inode->i_mtime_sec))
		return inode->i_mtime_sec * NSEC_PER_SEC + inode->i_mtime_nsec;
	if (bpf_core_field_exists(inode->__i_mtime))
		return inode->__i_mtime.tv_sec * NSEC_PER_SEC + inode->__i_mtime.tv_nsec;
	return inode->i_mtime.tv_sec * NSEC_PER_SEC + inode->i_mtime.tv_nsec;
}

static __always_inline __u32 inode_version(struct inode *inode)
{
	return version_of(inode->i_generation, inode_mtime(inode));
}

/* For an inode that may be freed meanwhile; @at is a buffer. at[1] becomes its mtime in ns. */
static __always_inline long version_read(struct inode *inode, __u64 at[3], __u32 *ret_version)
{
	long code;

	at[0] = at[2] = 0; /* the kernel's members are shorter */
	code = bpf_core_read(&at[0], sizeof(inode->i_generation), &inode->i_generation);
	if (bpf_core_field_exists(inode->i_mtime_sec)) {
		code |= bpf_core_read(&at[1], sizeof(at[1]), &inode->i_mtime_sec);
		code |= bpf_core_read(&at[2], sizeof(__u32), &inode->i_mtime_nsec);
	} else if (bpf_core_field_exists(inode->__i_mtime)) {
		code |= bpf_core_read(&at[1], sizeof(at[1]), &inode->__i_mtime.tv_sec);
		code |= bpf_core_read(&at[2], sizeof(at[2]), &inode->__i_mtime.tv_nsec);
	} else {
		code |= bpf_core_read(&at[1], sizeof(at[1]), &inode->i_mtime.tv_sec);
		code |= bpf_core_read(&at[2], sizeof(at[2]), &inode->i_mtime.tv_nsec);
	}
	at[1] = at[1] * NSEC_PER_SEC + at[2];
	*ret_version = version_of(at[0], at[1]);
	return code;
}

/* Descends from a node towards @at. Not static, so that it is verified once. */
__noinline int mapping_step(struct mapping *m, __u64 at)
{
	__u64 end, n = 0, first = 1 + RANGE_ENDS;

	if (!m ||
		bpf_probe_read_kernel(m->node, sizeof(m->node), (void *)NODE_AT(m->entry)))
		return -1;
	end = m->node[RANGE_ENDS] ? RANGE_ENDS : m->node[RANGE_LAST] & 255;
	if (NODE_TYPE(m->entry) == TYPE_ARANGE) {
		end = m->node[ARANGE_LAST] & 255;
		first = 1 + ARANGE_ENDS;
	}
	for (__u32 i = 0; i < RANGE_ENDS; i++) {
		if (i >= end || m->node[1 + i] >= at)
			break;
		n++;
	}
	m->entry = m->node[(first + n) & (NODE_WORDS - 1)];
	return 0;
}

/*
 * Reads the mapping in .entry and its file. Fails if it does not contain @at, because it
 * may be freed meanwhile. Members are copied to .node, which is no longer needed.
 */
static __noinline int mapping_read(struct mapping *m, __u64 at)
{
	struct vm_area_struct *vma = (void *)m->entry;
	struct super_block *super;
	struct inode *inode;
	struct file *file;

	if (bpf_core_read(&m->node[0], sizeof(m->node[0]), &vma->vm_mm) ||
		bpf_core_read(&m->node[1], sizeof(m->node[1]), &vma->vm_start) ||
		bpf_core_read(&m->node[2], sizeof(m->node[2]), &vma->vm_end) ||
		bpf_core_read(&m->node[3], sizeof(m->node[3]), &vma->vm_pgoff) ||
		bpf_core_read(&m->node[4], sizeof(m->node[4]), &vma->vm_file) ||
		bpf_core_read(&m->flags, sizeof(m->flags), &vma->vm_flags))
		return -1;
	if (m->node[0] != as_number(CURRENT_READ(mm)) || at < m->node[1] ||
		at >= m->node[2])
		return -1;
	file = (void *)m->node[4];
	m->start = m->node[1];
	m->offset = at + (m->node[3] << fsn_page_shift) - m->start;
	if (!file) {
		m->end = m->node[2];
		return 0;
	}
	if (bpf_core_read(&m->node[5], sizeof(m->node[5]), &file->f_inode))
		return -1;
	inode = (void *)m->node[5];
	if (bpf_core_read(&m->node[6], sizeof(m->node[6]), &inode->i_sb))
		return -1;
	super = (void *)m->node[6];
	m->file = as_number(file);
	m->node[7] = 0;
	if (bpf_core_read(&m->node[7], sizeof(super->s_dev), &super->s_dev) ||
		bpf_core_read(&m->id.ino, sizeof(m->id.ino), &inode->i_ino) ||
		version_read(inode, &m->node[8], &m->id.version))
		return -1;
	m->id.dev = m->node[7];
	m->end = m->node[2];
	return 0;
}

/* Returns 0, or the enum fsn_walk_end of a walk that has reached @at. */
static __always_inline int mapping_in_tree(struct mapping *m, __u64 at)
{
	struct mm_struct *mm = CURRENT_READ(mm);
	__u64 type = TYPE_RANGE;

	m->entry = as_number(BPF_CORE_READ(mm, mm_mt.ma_root));
	if (!ROOT_IS_NODE(m->entry))
		return FSN_WALK_NOWHERE;
	for (int i = 0; i < NODE_DEPTH && type >= TYPE_RANGE; i++) {
		type = NODE_TYPE(m->entry);
		if (mapping_step(m, at))
			return FSN_WALK_BUSY;
	}
	if (!m->entry)
		return FSN_WALK_NOWHERE;
	return mapping_read(m, at) ? FSN_WALK_BUSY : 0;
}

/* --- the same with little stack ----------------------------------------------------- */

static __always_inline __u64 node_word(__u64 entry, __u32 i)
{
	__u64 word = 0;

	if (bpf_probe_read_kernel(&word, sizeof(word), (void *)(NODE_AT(entry) + i * sizeof(word))))
		return 0;
	return word;
}

/* Like mapping_step(): returns the child of a node that leads to @at, or 0. */
__noinline __u64 mapping_next(__u64 entry, __u64 at)
{
	__u32 n = 0, first = 1 + RANGE_ENDS, end = RANGE_ENDS;

	if (NODE_TYPE(entry) == TYPE_ARANGE) {
		end = node_word(entry, ARANGE_LAST) & 255;
		first = 1 + ARANGE_ENDS;
	} else if (!node_word(entry, RANGE_ENDS)) {
		end = node_word(entry, RANGE_LAST) & 255;
	}
	for (__u32 i = 0; i < RANGE_ENDS; i++) {
		if (i >= end || node_word(entry, 1 + i) >= at)
			break;
		n++;
	}
	return node_word(entry, first + n);
}

/*
 * The current process's mapping that contains @at, as a number, and its start. Returns 0
 * if there is none, if mappings are being changed, or before 6.1.
 */
static __always_inline __u64 mapping_at(__u64 at, __u64 *ret_start)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	struct vm_area_struct *vma;
	__u64 entry, word = 0;

	*ret_start = 0;
	if (!mm || !bpf_core_field_exists(mm->mm_mt))
		return 0;
	entry = as_number(mm->mm_mt.ma_root);
	if (!ROOT_IS_NODE(entry))
		return 0;
	for (int i = 0, type = TYPE_RANGE; i < NODE_DEPTH && entry && type >= TYPE_RANGE; i++) {
		type = NODE_TYPE(entry);
		entry = mapping_next(entry, at);
	}
	vma = (void *)entry;
	if (bpf_core_read(ret_start, sizeof(*ret_start), &vma->vm_start) || at < *ret_start ||
		bpf_core_read(&word, sizeof(word), &vma->vm_end) || at >= word ||
		bpf_core_read(&word, sizeof(word), &vma->vm_mm))
		return 0;
	return word == as_number(mm) ? entry : 0;
}

/* False only if @at is certainly not in an executable mapping. */
static __always_inline bool mapping_may_run(__u64 at)
{
	__u64 start, flags = VM_EXEC;
	struct vm_area_struct *vma = (void *)mapping_at(at, &start);

	return !vma || bpf_core_read(&flags, sizeof(flags), &vma->vm_flags) || flags & VM_EXEC;
}

/* --- before 6.1 ------------------------------------------------------------------------------ */

/*
 * Descends from .entry towards @at. Returns 1 if .entry is then the mapping that contains
 * @at.
 */
__noinline int mapping_turn(struct mapping *m, __u64 at)
{
	struct vm_area_struct *vma = NULL;

	/* The verifier also checks this on kernels without the member. */
	if (!m || !bpf_core_field_exists(vma->vm_rb))
		return -1;
	vma = (void *)(m->entry - bpf_core_field_offset(struct vm_area_struct, vm_rb));
	if (bpf_core_read(&m->node[1], sizeof(m->node[1]), &vma->vm_start) ||
		bpf_core_read(&m->node[2], sizeof(m->node[2]), &vma->vm_end))
		return -1;
	if (at >= m->node[1] && at < m->node[2]) {
		m->entry = as_number(vma);
		return 1;
	}
	if (at < m->node[1])
		return bpf_core_read(&m->entry, sizeof(m->entry), &vma->vm_rb.rb_left);
	return bpf_core_read(&m->entry, sizeof(m->entry), &vma->vm_rb.rb_right);
}

/*
 * Like mapping_in_tree(). A concurrent rotation can hide the mapping; then nothing is
 * found.
 */
static __always_inline int mapping_in_old_tree(struct mapping *m, __u64 at)
{
	struct mm_struct *mm = CURRENT_READ(mm);
	int step = 0;

	m->entry = as_number(BPF_CORE_READ(mm, mm_rb.rb_node));
	for (int i = 0; i < OLD_DEPTH && m->entry && !step; i++)
		step = mapping_turn(m, at);
	if (!step)
		return FSN_WALK_NOWHERE;
	return step < 0 || mapping_read(m, at) ? FSN_WALK_BUSY : 0;
}

/* --- used by stack walks ------------------------------------------------------------ */

/* Searches for the mapping of @at, twice if the mappings are being changed. */
static __always_inline int mapping_look(struct mapping *m, __u64 at)
{
	int end;

	m->id.ino = 0;
	m->end = 0;
	m->at = at;
	if (!bpf_core_field_exists(((struct mm_struct *)0)->mm_mt)) {
		end = mapping_in_old_tree(m, at);
		return end ? mapping_in_old_tree(m, at) : 0;
	}
	end = mapping_in_tree(m, at);
	return end == FSN_WALK_BUSY ? mapping_in_tree(m, at) : end;
}

/*
 * Finds the executable mapping that contains @at. Returns 0, or the enum fsn_walk_end of
 * a walk that has reached @at. Reuses the last result while .end is set. Not static, so
 * that it is verified once.
 */
__noinline int mapping_find(struct mapping *m, __u64 at)
{
	int end = 0;

	if (!m)
		return FSN_WALK_LOST;
	if (at >= m->start && at < m->end) {
		m->offset += at - m->at;
		m->at = at;
	} else {
		end = mapping_look(m, at);
	}
	if (end)
		return end;
	return m->flags & VM_EXEC ? 0 : FSN_WALK_NOWHERE;
}

/*
 * True if the mapping is the 64-bit vdso: it is above 4 GiB, which excludes other special
 * mappings, and its own address has offset 0.
 */
static __always_inline bool mapping_is_vdso(const struct mapping *m)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	__u64 vdso;

	if (m->id.ino || !bpf_core_field_exists(mm->context.vdso))
		return false;
	vdso = as_number(mm->context.vdso);
	return vdso >> 32 && m->at - m->offset == vdso;
}

/* --- path of a file ----------------------------------------------------------------- */

/*
 * Saves the components of a path, from the file's name up to the root of its file system. If
 * one cannot be read, or there are more than FSN_NAME_PARTS, .cnt remains 0.
 */
static __always_inline void file_name(const struct fsn_file_id *id, __u64 dentry)
{
	struct fsn_file_name *to;
	__u64 parent, text;

	if (bpf_map_update_elem(&fsn_file_names, id, (const void *)&fsn_no_name, BPF_NOEXIST))
		return;
	to = bpf_map_lookup_elem(&fsn_file_names, id);
	if (!to)
		return;
	for (__u32 i = 0; i < FSN_NAME_PARTS; i++) {
		struct dentry *at = (void *)dentry;

		if (bpf_core_read(&parent, sizeof(parent), &at->d_parent))
			break;
		if (parent == dentry) {
			to->cnt = i;
			break;
		}
		if (bpf_core_read(&text, sizeof(text), &at->d_name.name) ||
			bpf_probe_read_kernel_str(
				to->part[i], sizeof(to->part[i]), (void *)text) < 0)
			break;
		dentry = parent;
	}
}

/*
 * Saves the path of the file found, for commands that run after its process has exited.
 * Not static, so that it is verified once.
 */
__noinline int mapping_name(struct mapping *m)
{
	struct file *file;
	struct fsn_file_id id;
	__u64 dentry;

	if (!m)
		return 0;
	file = (void *)m->file;
	id = m->id; /* 6.1 does not accept a map value as a key */
	if (!bpf_core_read(&dentry, sizeof(dentry), &file->f_path.dentry))
		file_name(&id, dentry);
	return 0;
}

/*
 * Places: call sites, and locks in static data. After dlclose(3) or execve(2) another file can be at
 * the same address, so the file is part of the key. The file and its path are also saved for the row,
 * so that the place can be named after its process has exited.
 */

const volatile bool fsn_places_known = false; /* the kernel finds mappings */
const volatile bool fsn_locks_known = false;  /* the same, and some key is a lock */

#define RETURNS_LOOK 80 /* more than the kernel's maximum per thread */

/*
 * The return address that the kernel has replaced at @place by that of its trampoline, or
 * 0. In a tail-called function, it is the caller's that has the return probe. Not static,
 * so that it is verified once.
 */
__noinline __u64 replaced_return(__u64 place)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct return_instance *ri;
	__u64 stack, to;

	if (!task->utask)
		return 0;
	ri = task->utask->return_instances;
	for (int i = 0; i < RETURNS_LOOK; i++) {
		if (!ri || bpf_core_read(&stack, sizeof(stack), &ri->stack) ||
			bpf_core_read(&to, sizeof(to), &ri->orig_ret_vaddr) ||
			bpf_core_read(&ri, sizeof(ri), &ri->next))
			return 0;
		if (stack >= place)
			return stack == place ? to : 0;
	}
	return 0;
}

/*
 * Returns @from, read at @place, or the original if a return probe replaced it; never the
 * trampoline's address.
 */
static __always_inline __u64 original_return(__u64 from, __u64 place)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;

	if (!from || !bpf_core_field_exists(((struct xol_area *)0)->vaddr) ||
		from != mm->uprobes_state.xol_area->vaddr)
		return from;
	from = replaced_return(place);
	return from == mm->uprobes_state.xol_area->vaddr ? 0 : from;
}

/* The call site: the call's return address, or 0 if it cannot be read. */
static __always_inline __u64 caller_of(const struct pt_regs *ctx)
{
	__u64 from = caller_link(ctx);

#if defined(__TARGET_ARCH_x86)
	if (bpf_probe_read_user(&from, sizeof(from), (void *)caller_sp(ctx)))
		return 0;
#endif
	return original_return(from, caller_sp(ctx));
}

struct called_at {
	struct fsn_file_id id;
	__u64 offset; /* to be added to the address */
	__u64 mtime_ns;
	__u64 dentry; /* struct dentry, which may be freed at any time */
	__u64 start;  /* of the mapping */
};

/* Callback of bpf_find_vma(): copies the identity of the mapped file. */
static long called_here(
	struct task_struct *task, struct vm_area_struct *vma, struct called_at *here)
{
	struct file *file = vma->vm_file;
	struct inode *inode;

	here->start = vma->vm_start;
	if (!file)
		return 0;
	inode = vma->vm_file->f_inode;
	here->id.dev = inode->i_sb->s_dev;
	here->mtime_ns = inode_mtime(inode);
	here->id.version = version_of(inode->i_generation, here->mtime_ns);
	here->id.ino = inode->i_ino;
	here->offset = (vma->vm_pgoff << fsn_page_shift) - vma->vm_start;
	here->dentry = as_number(file->f_path.dentry);
	return 0;
}

/* Reads the same without a lock, except the path. False if mappings are being changed. */
static __always_inline bool called_read(struct called_at *here, __u64 at)
{
	struct vm_area_struct *vma = (void *)mapping_at(at, &here->start);
	struct inode *inode;
	__u64 words[3]; /* there is no stack for more */

	if (!vma || bpf_core_read(&words[0], sizeof(words[0]), &vma->vm_file))
		return false;
	if (!words[0])
		return true;
	if (bpf_core_read(&here->offset, sizeof(here->offset), &vma->vm_pgoff) ||
		bpf_core_read(&words[1], sizeof(words[1]), &((struct file *)words[0])->f_inode))
		return false;
	inode = (void *)words[1];
	if (bpf_core_read(&here->id.ino, sizeof(here->id.ino), &inode->i_ino) ||
		version_read(inode, words, &here->id.version))
		return false;
	here->offset = (here->offset << fsn_page_shift) - here->start;
	here->mtime_ns = words[1];
	return true;
}

/* The lock of the mappings is busy while any thread changes them. */
static __always_inline bool called_find(struct called_at *here, __u64 at)
{
	return !bpf_find_vma(bpf_get_current_task_btf(), at, called_here, here, 0) ||
		called_read(here, at);
}

/*
 * Returns place_word() for the code or the lock at @at, without the lowest bit if it was found without
 * the lock. Data that begins as zeros has no file, and comes after data that has one; so does other
 * memory, for which the offset is beyond the data. Not static, so that it is verified once.
 */
__noinline __u64 place_find(__u64 at, int is_lock)
{
	struct called_at here = {};
	__u64 word;

	if (!fsn_places_known)
		return 0;
	if (!called_find(&here, at) ||
		(is_lock && !here.id.ino && !called_find(&here, here.start - 1)) || !here.id.ino)
		return FSN_PLACE_NONE;
	word = place_word(here.id.ino, here.mtime_ns, at + here.offset);
	return here.dentry ? word : word & ~1ULL;
}

/* Differs between processes, and before and after execve(2). */
static __always_inline __u64 own_program(void)
{
	struct task_struct *task = bpf_get_current_task_btf(), *leader = task->group_leader;

	return (leader->start_boottime ^ (__u64)task->tgid << 40) + task->self_exec_id;
}

/*
 * Number of changes of the mappings, or 0 if it is not known or they are being changed: it is odd
 * during one since 6.14, and counts at the end from 6.4.
 */
static __always_inline __u32 mapping_changes(void)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	struct mm_struct___now *now = (void *)mm;
	__u32 changes = 0;

	if (mm && bpf_core_field_exists(now->mm_lock_seq.sequence))
		changes = READ(now->mm_lock_seq.sequence);
	else if (mm && bpf_core_field_exists(mm->mm_lock_seq))
		return READ(mm->mm_lock_seq);
	return changes & 1 ? 0 : changes;
}

/*
 * A place in a program whose mappings have changed @changes times. .at is its address, or while it is
 * searched the thread that does.
 */
struct place_seen {
	__u64 at, program, changes, word;
};

#define PLACE_OF_THREAD (1ULL << 63)

static __always_inline struct place_seen *place_seen(__u64 at)
{
	return seen_at(FSN_SEEN_PLACES, at * 0x9e3779b97f4a7c15ULL);
}

static __always_inline __u64 own_claim(void)
{
	return PLACE_OF_THREAD | bpf_get_current_task_btf()->pid;
}

/* Returns the cached word of the place, or 0 after claiming its record. */
__noinline __u64 place_known(__u64 at)
{
	struct place_seen *seen = place_seen(at);
	__u32 changes = mapping_changes();
	__u64 program = own_program(), before, word;

	if (!fsn_places_known || !seen || !changes)
		return 0;
	before = READ(seen->at);
	if (before == at && READ(seen->program) == program && READ(seen->changes) == changes) {
		word = READ(seen->word);
		if (READ(seen[AFTER(word, 0)].at) == at)
			return word;
	}
	if (before & PLACE_OF_THREAD || !swap(&seen->at, before, own_claim()))
		return 0;
	seen->program = program;
	seen->changes = changes;
	return 0;
}

/* Caches @word, unless the mappings have changed since place_known(). */
__noinline int place_keep(__u64 at, __u64 word)
{
	struct place_seen *seen = place_seen(at);

	if (!fsn_places_known || !seen || READ(seen->at) != own_claim())
		return 0;
	seen->word = word;
	publish(&seen->at, word & 1 && seen->changes == mapping_changes() ? at : 0);
	return 0;
}

static __always_inline __u64 place_at(__u64 at, int is_lock)
{
	__u64 word = place_known(at);

	if (!word) {
		word = place_find(at, is_lock);
		place_keep(at, word);
	}
	return word == FSN_PLACE_NONE ? word : word | 1;
}

/* Saves the file at @here, in which @at is, as that of the key @addr. */
static __always_inline void called_save(struct fsn_called *to, const struct called_at *here,
	__u64 at, __u64 start, __u64 addr)
{
	to->id = here->id;
	to->offset = at + here->offset;
	to->start = start;
	publish(&to->addr, addr);
}

/*
 * Saves the caller of new row @i, whose calls return to @addr. Not static, so that it is
 * verified once.
 */
__noinline int called_keep(__u32 i, __u64 addr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct called_at here = {};
	struct fsn_called *to;

	if (!fsn_places_known ||
		bpf_find_vma(task, addr - 1, called_here, &here, 0) || !here.id.ino)
		return 0;
	to = bpf_map_lookup_elem(&fsn_called, &i);
	if (!to)
		return 0;
	file_name(&here.id, here.dentry);
	called_save(to, &here, addr - 1, CURRENT_READ(group_leader, start_boottime), addr);
	return 0;
}

/*
 * The same for a lock, at each wait until it is saved. Data that begins as zeros has no file, and
 * comes after data that has one; so does other memory, for which the offset is beyond the data.
 */
__noinline int lock_keep(__u32 i, __u64 addr)
{
	struct fsn_called *to = bpf_map_lookup_elem(&fsn_called, &i);
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 start = CURRENT_READ(group_leader, start_boottime);
	struct called_at here = {};

	if (!to || (to->addr == addr && to->start == start) ||
		bpf_find_vma(task, addr, called_here, &here, 0))
		return 0;
	if (!here.id.ino && bpf_find_vma(task, here.start - 1, called_here, &here, 0))
		here.id.ino = 0;
	if (here.id.ino)
		file_name(&here.id, here.dentry);
	called_save(to, &here, addr, start, addr);
	return 0;
}
