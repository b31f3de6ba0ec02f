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
const volatile struct fsn_file_name fsn_no_name = {}; /* too large for a stack */

struct qstr {
	const unsigned char *name;
} __core;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
} __core;

struct file___path {
	struct {
		struct dentry *dentry;
	} f_path;
} __core;

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
	here->id.ino = inode->i_ino;
	here->offset = (vma->vm_pgoff << fsn_page_shift) - vma->vm_start;
	here->dentry = as_number(file->f_path.dentry);
	return 0;
}

/* From the file's own name on to that of what lies in its file system's root. */
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
