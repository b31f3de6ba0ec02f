// SPDX-License-Identifier: BSD-2-Clause
// Finds where this kernel has the pages of files, by a self-test on a file of funcsnoop's own.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sysinfo.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/err.h"
#include "base/util.h"
#include "kernel/kernel.h"
#include "probepages.skel.h"

#define PAGE       4096U
#define PAGES      8 /* of the file */
#define GIB        (1ULL << 30)
#define HOLES_GIB  64 /* limit of holes in the physical address space */
#define PFN_MASK   ((1ULL << 55) - 1) /* Documentation/admin-guide/mm/pagemap.rst */

/* A file of random bytes. */
struct trial {
	struct fsn_probepages *skel;
	int fd;
	uint8_t *bytes;
	struct kernel_pages *found;
	char *why;
};

static int fail(struct trial *t, int code, const char *why)
{
	snprintf(t->why, KERNEL_PAGES_WHY, "%s", why);
	return code;
}

static int make_file(struct trial *t)
{
	t->fd = memfd_create("funcsnoop", MFD_CLOEXEC);
	if (t->fd < 0 || ftruncate(t->fd, PAGES * PAGE))
		return -errno;
	t->bytes = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (t->bytes == MAP_FAILED) {
		t->bytes = NULL;
		return -errno;
	}
	for (size_t done = 0; done < PAGES * PAGE;) {
		ssize_t n = getrandom(t->bytes + done, PAGES * PAGE - done, 0);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static void trial_done(struct trial *t)
{
	if (t->bytes)
		munmap(t->bytes, PAGES * PAGE);
	close_fd(t->fd);
	fsn_probepages__destroy(t->skel);
}

static int load(struct trial *t)
{
	t->skel = fsn_probepages__open();
	if (!t->skel)
		return -errno;
	t->skel->rodata->fsn_cfi = true;
	return fsn_probepages__load(t->skel);
}

static int run(const struct bpf_program *prog)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	return bpf_prog_test_run_opts(bpf_program__fd(prog), &opts) ? -errno : 0;
}

/* Makes the BPF program find page @i of the file. */
static int find_page(struct trial *t, size_t i)
{
	t->skel->bss->file_fd = (uint64_t)t->fd;
	t->skel->bss->file_offset = i * PAGE;
	return run(t->skel->progs.fsn_page_of);
}

/* True if page @i is at @addr. */
static bool is_at(struct trial *t, size_t i, uint64_t addr)
{
	t->skel->bss->addr = addr;
	return !run(t->skel->progs.fsn_page_read) && !t->skel->bss->code &&
		!memcmp(t->skel->bss->bytes, t->bytes + i * PAGE, sizeof(t->skel->bss->bytes));
}

/* Returns the page frame number of page @i; 0 without the permission to read it. */
static uint64_t frame_of(const struct trial *t, size_t i)
{
	_cleanup_close_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0, at = (uint64_t)(uintptr_t)(t->bytes + i * PAGE) / PAGE;

	if (fd < 0 || pread(fd, &entry, sizeof(entry), (off_t)(at * sizeof(entry))) != sizeof(entry))
		return 0;
	return entry & PFN_MASK;
}

/*
 * The base of the direct map is a multiple of 1 GiB, at or below the page tables of this process
 * (struct mm_struct, .pgd). Candidates are tried in ascending order, so that nothing above the page
 * is read.
 */
static int find_base(struct trial *t, uint64_t pfn)
{
	uint64_t top = t->skel->bss->pgd & ~(GIB - 1), steps;
	struct sysinfo info;

	if (sysinfo(&info))
		return -errno;
	steps = (uint64_t)info.totalram * info.mem_unit / GIB + HOLES_GIB;
	for (uint64_t k = steps + 1; k--;) {
		if (!is_at(t, 0, top - k * GIB + pfn * PAGE))
			continue;
		t->found->base = top - k * GIB;
		return 0;
	}
	return -ENOENT;
}

static uint64_t place_of(const struct trial *t)
{
	const struct kernel_pages *found = t->found;
	uint64_t page = t->skel->bss->folio + t->skel->bss->index_in_folio * found->page_bytes;

	return found->base + (page - found->vmemmap) / found->page_bytes * PAGE;
}

/* Finds the addresses in .found, and checks them with PAGES pages of a file. */
static int try_all(struct trial *t)
{
	uint64_t pfn;
	int code = find_page(t, 0);

	if (code)
		return fail(t, code, "programs can't be tried");
	if (t->skel->bss->page_bytes != KERNEL_PAGE_BYTES || t->skel->bss->mapping_at != 24 ||
		t->skel->bss->index_at != 32)
		return fail(t, -EOPNOTSUPP, "this kernel has another struct page");
	if (t->skel->bss->code)
		return fail(t, -ENOENT, "a file's page is not found in the page cache");
	pfn = frame_of(t, 0);
	if (!pfn)
		return fail(t, -EPERM, "needs CAP_SYS_ADMIN");
	t->found->page_bytes = KERNEL_PAGE_BYTES;
	t->found->vmemmap = t->skel->bss->folio +
		(t->skel->bss->index_in_folio - pfn) * KERNEL_PAGE_BYTES;
	if (find_base(t, pfn))
		return fail(t, -ENOENT, "kernel memory is not at the expected address");
	for (size_t i = 0; i < PAGES; i++) {
		code = find_page(t, i);
		if (code || t->skel->bss->code || !is_at(t, i, place_of(t)))
			return fail(t, -ENOENT, "pages are not where others are");
	}
	return 0;
}

int kernel_pages_find(struct kernel_pages *ret_found, char why[KERNEL_PAGES_WHY])
{
	__cleanup(trial_done) struct trial t = { .fd = -1, .found = ret_found, .why = why };
	const char *said = secure_getenv("FUNCSNOOP_UNWIND");
	int code;

	*ret_found = (struct kernel_pages) {};
	if (said && !strcmp(said, "tables"))
		return fail(&t, -ECANCELED, "switched off by FUNCSNOOP_UNWIND=tables");
#if !defined(__x86_64__)
	return fail(&t, -EOPNOTSUPP, "frames are found by frame pointers here");
#endif
	code = make_file(&t);
	if (code)
		return fail(&t, code, "no file can be made in memory");
	code = load(&t);
	if (code)
		return fail(&t, code,
			code == -EPERM ? "needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN"
				       : "programs can't be loaded");
	return try_all(&t);
}
