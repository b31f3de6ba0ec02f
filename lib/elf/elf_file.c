// SPDX-License-Identifier: BSD-2-Clause
// Opening an ELF file, and what its headers say.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <linux/magic.h>

#include "internal.h"
#include "proc/proc.h"

static int segments_read(struct elf_file *f, struct err *err)
{
	size_t cnt = 0;
	GElf_Phdr ph;

	elf_getphdrnum(f->mem.elf, &cnt);
	f->segments = xcalloc(cnt ? cnt : 1, sizeof(*f->segments));
	for (size_t i = 0; i < cnt; i++) {
		if (!gelf_getphdr(f->mem.elf, i, &ph))
			return err_set(err, -EBADMSG, "'%s' is damaged: %s", f->path,
				elf_errmsg(-1));
		if (ph.p_type == PT_GNU_EH_FRAME && ph.p_offset <= f->mem.size &&
			ph.p_filesz <= f->mem.size - ph.p_offset) {
			f->eh_frame_hdr = ph.p_offset;
			f->eh_frame_hdr_size = ph.p_filesz;
		}
		if (ph.p_type != PT_LOAD || !ph.p_filesz)
			continue;
		if (ph.p_offset > f->mem.size || ph.p_filesz > f->mem.size - ph.p_offset)
			return err_set(err, -EBADMSG,
				"'%s' is truncated: %zu bytes, but a segment needs %llu at %llu",
				f->path, f->mem.size, (unsigned long long)ph.p_filesz,
				(unsigned long long)ph.p_offset);
		if (ph.p_vaddr > UINT64_MAX - ph.p_filesz)
			return err_set(err, -EBADMSG,
				"'%s' is damaged: a segment ends beyond all addresses",
				f->path);
		f->segments[f->segment_cnt++] = (struct elf_segment) {
			.addr = ph.p_vaddr,
			.offset = ph.p_offset,
			.size = ph.p_filesz,
			.exec = ph.p_flags & PF_X,
			.write = ph.p_flags & PF_W,
		};
	}
	return 0;
}

static uint64_t mtime_of(const struct stat *st)
{
	return st->st_mtim.tv_sec * 1000000000ull + st->st_mtim.tv_nsec;
}

static int info_read(struct elf_file *f, struct err *err)
{
	char hex[2 * ELF_MAX_BUILD_ID + 1];
	struct statfs fs;
	struct stat st;
	GElf_Shdr sh;

	if (fstat(f->fd, &st) < 0)
		return err_sys(err, -errno, "cannot read '%s'", f->path);
	f->info.dev = st.st_dev;
	f->info.ino = st.st_ino;
	f->info.ctime_ns = st.st_ctim.tv_sec * 1000000000ull + st.st_ctim.tv_nsec;
	f->info.overlay = fstatfs(f->fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
	elf_mem_notes(&f->mem, hex, &f->info.go);
	f->build_id = xstrdup(hex);
	f->info.build_id = f->build_id;
	if (elf_mem_section(&f->mem, 0, ".gopclntab", &sh) ||
		elf_mem_section(&f->mem, 0, ".data.rel.ro.gopclntab", &sh))
		f->info.go = true;
	return 0;
}

static int file_begin(struct elf_file *f, const char *shown, int root_fd, const char *dir,
	struct err *err)
{
	struct stat st;
	int ret;

	f->path = xstrdup(shown);
	f->dir = dir ? xstrdup(dir) : NULL;
	f->info.path = f->path;
	if (root_fd >= 0) {
		f->root_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
		if (f->root_fd < 0)
			return err_sys(err, -errno, "cannot read '%s'", shown);
	}
	if (fstat(f->fd, &st) < 0)
		return err_sys(err, -errno, "cannot read '%s'", shown);
	f->mtime_ns = mtime_of(&st);
	ret = elf_mem_map(f->fd, shown, &f->mem, err);
	if (ret)
		return ret;
	f->info.size = f->mem.size;
	ret = segments_read(f, err);
	if (ret)
		return ret;
	elf_dynamic_read(f);
	ret = info_read(f, err);
	return ret ? ret : elf_file_check(f, err);
}

static bool is_cut(const struct elf_mem *mem)
{
	return mem->watch && mem->watch->cut;
}

int elf_file_check(const struct elf_file *f, struct err *err)
{
	struct stat st;

	if (is_cut(&f->mem) || is_cut(&f->debug) || fstat(f->fd, &st) ||
		(uint64_t)st.st_size != f->info.size || mtime_of(&st) != f->mtime_ns)
		return err_set(err, -EBADMSG, "'%s' changed while it was read", f->path);
	return 0;
}

static const struct elf_segment *segment_of(const struct elf_file *f, uint64_t addr)
{
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (addr >= s->addr && addr - s->addr < s->size)
			return s;
	}
	return NULL;
}

const uint8_t *elf_file_bytes(const struct elf_file *f, uint64_t addr, size_t *ret_size)
{
	const struct elf_segment *s = segment_of(f, addr);

	if (!s)
		return NULL;
	*ret_size = s->size - (addr - s->addr);
	return f->mem.bytes + s->offset + (addr - s->addr);
}

int elf_file_open_fd(int fd, const char *shown, int root_fd, const char *dir,
	struct elf_file **ret_file, struct err *err)
{
	_cleanup_elf_file_ struct elf_file *f = xcalloc(1, sizeof(*f));
	int ret;

	f->fd = fd;
	f->root_fd = -1;
	ret = file_begin(f, shown, root_fd, dir, err);
	if (ret)
		return ret;
	*ret_file = TAKE_PTR(f);
	return 0;
}

int elf_file_open(const char *path, struct elf_file **ret_file, struct err *err)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	int fd;

	fd = proc_open_regular(path, err);
	if (fd < 0)
		return caps_hint(fd, CAPS_BIT(CAP_DAC_READ_SEARCH), err);
	if (slash)
		slash[slash == real] = '\0';
	return elf_file_open_fd(fd, path, -1, real, ret_file, err);
}

void elf_file_free(struct elf_file *f)
{
	if (!f)
		return;
	elf_lines_done(f);
	elf_dwarf_done(f);
	elf_mem_done(&f->mem);
	elf_mem_done(&f->debug);
	elf_mem_done(&f->debugdata);
	for (size_t i = 0; i < f->info.needed_cnt; i++)
		free(f->needed[i]);
	for (size_t i = 0; i < f->version_cnt; i++)
		free(f->versions[i]);
	for (size_t i = 0; i < f->copy_cnt; i++)
		free(f->copies[i]);
	close_fd(f->fd);
	close_fd(f->root_fd);
	free(f->path);
	free(f->dir);
	free(f->soname);
	free(f->runpath);
	free(f->interp);
	free(f->build_id);
	free(f->needed);
	free(f->segments);
	free(f->versions);
	free(f->copies);
	free(f->funcs);
	free(f->names);
	free(f->imports);
	free(f->nameless);
	free(f->buckets);
	free(f->texts);
	free(f->starts);
	free(f->fdes);
	free(f->slots);
	free(f->loaded);
	free(f);
}

const struct elf_info *elf_file_info(const struct elf_file *f)
{
	return &f->info;
}

int elf_file_fd(const struct elf_file *f)
{
	return f->fd;
}

bool elf_file_same(const struct elf_file *a, const struct elf_file *b)
{
	const struct elf_info *x = &a->info, *y = &b->info;

	if (x->size != y->size)
		return false;
	if (x->dev == y->dev && x->ino == y->ino)
		return true;
	/* the upper half may have the layer's number: "xino" in overlayfs.rst */
	return (x->overlay || y->overlay) && (uint32_t)x->ino == (uint32_t)y->ino &&
		x->ctime_ns == y->ctime_ns && x->build_id[0] &&
		strcmp(x->build_id, y->build_id) == 0;
}

int elf_file_addr_to_offset(const struct elf_file *f, uint64_t addr, uint64_t *ret_offset)
{
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (!s->exec || addr < s->addr || addr - s->addr >= s->size)
			continue;
		*ret_offset = s->offset + (addr - s->addr);
		return 0;
	}
	return -ERANGE;
}

bool elf_file_is_writable(const struct elf_file *f, uint64_t addr)
{
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (s->exec && s->write && addr >= s->addr && addr - s->addr < s->size)
			return true;
	}
	return false;
}

int elf_file_offset_to_addr(const struct elf_file *f, uint64_t offset, uint64_t *ret_addr)
{
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (!s->exec || offset < s->offset || offset - s->offset >= s->size)
			continue;
		*ret_addr = s->addr + (offset - s->offset);
		return 0;
	}
	return -ERANGE;
}
