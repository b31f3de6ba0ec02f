/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In which file the code lies that makes calls, and what that is called: kept when a row is
 * claimed, so that the caller can be named when its process has ended.
 *
 * Recursion, longjmp and exceptions are no matter of it: an address is asked for once.
 */
#ifndef FUNCSNOOP_CALLERS_BPF_H
#define FUNCSNOOP_CALLERS_BPF_H

#include "counters.bpf.h"
#include "mapping.bpf.h"

const volatile bool fsn_called_known = false;

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
