/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads bytes of a file from the page cache, in any context: it requests no page and never waits.
 *
 * The tree of pages (struct xarray, lib/xarray.c) is read without a lock, as mapping.bpf.h reads
 * mappings. A folio is valid if its members name this file and this index, and if it is up to date;
 * copied bytes are valid if the folio still is afterwards. Its bytes are in the kernel's direct map.
 * A command finds the base of that map and of the array of struct page by a self-test
 * (lib/kernel/link.c).
 *
 * Huge pages of hugetlbfs, memory of memfd_secret(2) and DAX files have other folios or are not in
 * the direct map: their pages count as missing, like reclaimed pages.
 */
#pragma once

#include "core.bpf.h"

const volatile bool fsn_cfi = false; /* rows are built for files without an unwind table */
const volatile __u64 fsn_vmemmap = 0, fsn_page_base = 0;

#define PAGE_BYTES 64 /* of struct page; checked by lib/kernel/link.c */

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
	PG_uptodate, /* bit of .flags: 3, or 2 before 6.3 */
};

/* include/linux/xarray.h */
#define XA_IS_INTERNAL(e) (((e) & 3) == 2)
#define XA_IS_NODE(e)     (XA_IS_INTERNAL(e) && (e) > 4096)
#define XA_IS_SIBLING(e)  (XA_IS_INTERNAL(e) && (e) < 64 << 2)
#define XA_IS_POINTER(e)  ((e) && !((e) & 3))
#define XA_LEVELS 7

struct file_pages {
	__u64 space;          /* struct address_space of the file */
	__u64 page;           /* 1 + the index of the last page found; 0: none */
	__u64 folio, first;   /* its folio, and the folio's first index */
	__u64 kaddr;          /* address of the page in the direct map */
	__u64 entry, shift, at; /* state of the search */
	__u64 missing;        /* offset of the page that was not found */
	__u64 words[5];       /* of a folio: flags, lru (2), mapping, index; too many for a stack */
};

/*
 * True if the folio belongs to the file of @p at index @first, and is up to date. Its layout is
 * checked by lib/kernel/link.c.
 */
static __always_inline bool folio_is(struct file_pages *p, __u64 folio, __u64 first)
{
	return !bpf_probe_read_kernel(p->words, sizeof(p->words), (void *)folio) &&
		p->words[3] == p->space && p->words[4] == first && p->words[0] >> bpf_core_enum_value(enum pageflags, PG_uptodate) & 1;
}

/* Volatile, because a value that is kept over calls needs stack. */
#define PAGES_INDEX(p) (*(volatile __u64 *)&(p)->missing >> 12)

/* Descends one level of the tree from node .entry towards the page. */
static __always_inline int pages_down(struct file_pages *p)
{
	struct xa_node *node = (void *)(p->entry - 2);

	p->at = PAGES_INDEX(p) >> (p->shift & 63) & 63;
	/* clang 14 cannot relocate an access with a variable index. */
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

/* Starts the search for a page at the root of the tree. */
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
	/* The index may be beyond the tree. */
	return PAGES_INDEX(p) >> (p->shift & 63) >> 6 ? -1 : 0;
}

/* Finds the page of @off. Returns -1 if it is not in memory. Not static, so that it is verified once. */
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

/* Copies @n bytes from @off on, within one page. Returns -1 if the page is not in memory. */
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
