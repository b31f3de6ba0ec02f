/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where calls are made; in which file that code lies, and what that is called: kept when a row is
 * claimed, so that the caller can be named when its process has ended.
 *
 * Recursion, longjmp and exceptions are no matter of it: an address is asked for once.
 */
#ifndef FUNCSNOOP_CALLERS_BPF_H
#define FUNCSNOOP_CALLERS_BPF_H

#include "counters.bpf.h"
#include "mapping.bpf.h"

const volatile bool fsn_called_known = false;

#define RETURNS_LOOK 80 /* more than the kernel keeps of a thread */

/*
 * The return address that the kernel has replaced at @place by that of its trampoline, or 0. The
 * function before a tail call has a return probe then. Not static, so that it is verified once.
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

/* @from, read at @place, or what was there before a return probe. Never the trampoline's address. */
static __always_inline __u64 original_return(__u64 from, __u64 place)
{
	struct mm_struct___walk *mm = (void *)bpf_get_current_task_btf()->mm;

	if (!from || !bpf_core_field_exists(((struct xol_area *)0)->vaddr) ||
		from != mm->uprobes_state.xol_area->vaddr)
		return from;
	from = replaced_return(place);
	return from == mm->uprobes_state.xol_area->vaddr ? 0 : from;
}

/* Where the call was made: its return address, or 0 where that can't be read. */
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
	__u64 dentry; /* to be read with care: it may be gone any time */
};

static long called_here(
	struct task_struct *task, struct vm_area_struct *vma, struct called_at *here)
{
	struct file___path *file = (void *)vma->vm_file;
	struct inode *inode;

	if (!file)
		return 0;
	inode = vma->vm_file->f_inode;
	here->id.dev = inode->i_sb->s_dev;
	here->id.version = inode_version(inode);
	here->id.ino = inode->i_ino;
	here->offset = (vma->vm_pgoff << fsn_page_shift) - vma->vm_start;
	here->dentry = as_number(file->f_path.dentry);
	return 0;
}

/* Of new row @i, whose calls return to @addr. Not static, so that it is verified once. */
__noinline int called_keep(__u32 i, __u64 addr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct called_at here = {};
	struct fsn_called *to;

	if (!fsn_called_known ||
		bpf_find_vma(task, addr - 1, called_here, &here, 0) || !here.id.ino)
		return 0;
	to = bpf_map_lookup_elem(&fsn_called, &i);
	if (!to)
		return 0;
	file_name(&here.id, here.dentry);
	to->id = here.id;
	to->offset = addr - 1 + here.offset;
	to->start = task->group_leader->start_boottime;
	publish(&to->addr, addr);
	return 0;
}

#endif
