/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads bytes of a file from the page cache, in any context: it requests no page and never waits.
 *
 * The tree of pages (struct xarray, lib/xarray.c) is read without a lock, as mapping.bpf.h reads
 * mappings. A folio counts if it says itself that it belongs to this file and to this place, and
 * that it was read in; what was copied counts if the folio still says so afterwards. Its bytes are
 * in the kernel's direct map, whose base and that of the array of struct page a command finds by
 * experiment (lib/kernel/pages.c).
 *
 * Huge pages of hugetlbfs, memory of memfd_secret(2) and files of DAX have other folios, or are not
 * mapped: their pages count as missing, as reclaimed pages do.
 */
#ifndef FUNCSNOOP_PAGES_BPF_H
#define FUNCSNOOP_PAGES_BPF_H

#include "core.bpf.h"

const volatile bool fsn_cfi = false; /* rows are made of files without an unwind table */
const volatile __u64 fsn_vmemmap = 0, fsn_page_base = 0;

#define PAGE_BYTES 64 /* of struct page, as lib/kernel/pages.c has seen */

struct xarray {
	void *xa_head;
} __core;

struct address_space {
	struct xarray i_pages;
} __core;

struct file___space {
	struct address_space *f_mapping;
} __core;

struct xa_node {
	unsigned char shift;
	void *slots[64];
} __core;

enum pageflags {
	PG_uptodate, /* a bit of .flags: 3, or 2 before 6.3 */
};

/* include/linux/xarray.h */
#define XA_IS_INTERNAL(e) (((e) & 3) == 2)
#define XA_IS_NODE(e)     (XA_IS_INTERNAL(e) && (e) > 4096)
#define XA_IS_SIBLING(e)  (XA_IS_INTERNAL(e) && (e) < 64 << 2)
#define XA_IS_POINTER(e)  ((e) && !((e) & 3))
#define XA_LEVELS 7

struct file_pages {
	__u64 space;          /* struct address_space of the file */
	__u64 page;           /* 1 + the index of the page found last; 0: none is */
	__u64 folio, first;   /* which has it, and the index that this begins with */
	__u64 kaddr;          /* where the page is in memory */
	__u64 entry, shift, at; /* where the search has got to */
	__u64 missing;        /* offset of the page that was not found */
	__u64 words[5];       /* of a folio: flags, lru (2), mapping, index; too many for a stack */
};

/* The folio belongs to @p at @first, and is read in. Its layout is checked by lib/kernel/pages.c. */
static __always_inline bool folio_is(struct file_pages *p, __u64 folio, __u64 first)
{
	return !bpf_probe_read_kernel(p->words, sizeof(p->words), (void *)folio) &&
		p->words[3] == p->space && p->words[4] == first && p->words[0] >> bpf_core_enum_value(enum pageflags, PG_uptodate) & 1;
}

/* Read each time: what is kept in registers over calls needs room on the stack. */
#define PAGES_INDEX(p) (*(volatile __u64 *)&(p)->missing >> 12)

/* One level down, from the node .entry to what leads to the page. */
static __always_inline int pages_down(struct file_pages *p)
{
	struct xa_node *node = (void *)(p->entry - 2);

	p->at = PAGES_INDEX(p) >> (p->shift & 63) & 63;
	/* A slot at a place that is not constant can't be relocated by clang 14. */
	if (bpf_probe_read_kernel(
		    &p->entry, sizeof(p->entry), (char *)&node->slots[0] + (p->at & 63) * 8))
		return -1;
	if (XA_IS_SIBLING(p->entry)) {
		p->at = p->entry >> 2 & 63;
		if (bpf_probe_read_kernel(&p->entry, sizeof(p->entry),
			    (char *)&node->slots[0] + (p->at & 63) * 8))
			return -1;
	}
	p->first = (PAGES_INDEX(p) >> (p->shift & 63) >> 6 << 6 | p->at) << (p->shift & 63);
	p->shift -= 6;
	return 0;
}

/* Where the search for a page begins: in the tree's root. */
static __always_inline int pages_root(struct file_pages *p)
{
	struct address_space *space = (void *)p->space;
	struct xa_node *node;

	p->first = 0;
	p->shift = 0;
	if (bpf_core_read(&p->entry, sizeof(p->entry), &space->i_pages.xa_head))
		return -1;
	if (!XA_IS_NODE(p->entry))
		return PAGES_INDEX(p) ? -1 : 0;
	node = (void *)(p->entry - 2);
	if (bpf_core_read(&p->shift, sizeof(node->shift), &node->shift))
		return -1;
	/* -1: the index is beyond the tree. */
	return PAGES_INDEX(p) >> (p->shift & 63) >> 6 ? -1 : 0;
}

/* Finds the page of @off: 0, or -1 where it is not in memory. Not static, so that it is verified once. */
__noinline int pages_find(struct file_pages *p, __u64 off)
{
	if (!fsn_cfi || !p)
		return -1;
	if (p->page == (off >> 12) + 1)
		return 0;
	p->page = 0;
	p->missing = off;
	if (pages_root(p))
		return -1;
	for (int i = 0; i < XA_LEVELS; i++) {
		if (!XA_IS_NODE(p->entry))
			break;
		if (pages_down(p))
			return -1;
	}
	if (!XA_IS_POINTER(p->entry) || !folio_is(p, p->entry, p->first))
		return -1;
	p->folio = p->entry;
	p->kaddr = fsn_page_base +
		((p->folio + (PAGES_INDEX(p) - p->first) * PAGE_BYTES - fsn_vmemmap) / PAGE_BYTES << 12);
	p->page = PAGES_INDEX(p) + 1;
	return 0;
}

/* @n bytes from @off on, which are in one page: 0, or -1 where it is not in memory. */
static __always_inline int pages_copy(struct file_pages *p, __u64 off, void *to, __u32 n)
{
	if (pages_find(p, off))
		return -1;
	if (!bpf_probe_read_kernel(to, n, (void *)(p->kaddr + (off & 4095))) &&
		folio_is(p, p->folio, p->first))
		return 0;
	p->page = 0;
	p->missing = off;
	return -1;
}

#endif
