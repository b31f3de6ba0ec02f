// SPDX-License-Identifier: GPL-2.0-only
// BPF programs that examine the page cache for a command: the folio of a page of the command's own
// file, and the bytes at an address. They run once per request, only for that command.
#include "pages.bpf.h"

struct folio {
	unsigned long flags;
	struct address_space *mapping;
	unsigned long index;
} __core;

struct page {
	unsigned long flags;
	struct address_space *mapping;
	unsigned long index;
} __core;

struct fdtable {
	struct file **fd;
} __core;

struct files_struct {
	struct fdtable *fdt;
} __core;

struct mm_struct___pgd {
	void *pgd;
} __core;

struct task_struct___files {
	struct files_struct *files;
	struct mm_struct *mm;
} __core;

/* Request. */
__u64 file_fd, file_offset, addr;
/* Result. */
__u64 folio, index_in_folio, pgd, page_bytes, mapping_at, index_at;
__u64 bytes[4];
__s64 code;

static struct file_pages found;

SEC("raw_tp/sys_enter")
int fsn_page_of(void *ctx)
{
	struct task_struct___files *task = (void *)bpf_get_current_task_btf();
	struct mm_struct___pgd *mm;
	struct files_struct *files;
	struct fdtable *table;
	struct file___space *file;
	struct folio *as_folio = NULL;
	struct page *as_page = NULL;
	struct file **fds;

	code = -1;
	page_bytes = bpf_core_type_size(struct page);
	if (bpf_core_type_exists(struct folio)) {
		mapping_at = bpf_core_field_offset(as_folio->mapping);
		index_at = bpf_core_field_offset(as_folio->index);
	} else {
		mapping_at = bpf_core_field_offset(as_page->mapping);
		index_at = bpf_core_field_offset(as_page->index);
	}
	if (bpf_core_read(&mm, sizeof(mm), &task->mm) ||
		bpf_core_read(&pgd, sizeof(pgd), &mm->pgd) ||
		bpf_core_read(&files, sizeof(files), &task->files) ||
		bpf_core_read(&table, sizeof(table), &files->fdt) ||
		bpf_core_read(&fds, sizeof(fds), &table->fd) ||
		bpf_probe_read_kernel(&file, sizeof(file), fds + file_fd) ||
		bpf_core_read(&found.space, sizeof(found.space), &file->f_mapping))
		return 0;
	found.page = 0;
	code = pages_find(&found, file_offset);
	folio = found.folio;
	index_in_folio = (file_offset >> 12) - found.first;
	return 0;
}

SEC("raw_tp/sys_enter")
int fsn_page_read(void *ctx)
{
	code = bpf_probe_read_kernel(bytes, sizeof(bytes), (void *)addr);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
