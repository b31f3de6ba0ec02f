// SPDX-License-Identifier: BSD-2-Clause
// Opens ELF files and reads their headers.
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "proc/proc.h"
#include "internal.h"

/* --- ELF images in memory, possibly truncated: header checks, sections, notes --------------- */

/* --- files that are truncated while they are read ------------------------------------------- */

/*
 * A file is mapped, not copied, because some libraries have gigabytes. A process that can write the
 * file can truncate it, and an access to a missing page raises SIGBUS. The handler replaces the
 * pages from there on with zeros and marks the file as changed, so that all data read from it is
 * rejected.
 */

/* The list changes in one thread at a time; the handler only reads it. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;
static struct elf_watch *list;
static size_t page_size;

static struct elf_watch *watch_find(const uint8_t *addr)
{
	for (struct elf_watch *w = list; w; w = w->next)
		if (addr >= w->bytes && addr < w->bytes + w->size)
			return w;
	return NULL;
}

/*
 * Replaces missing pages of a watched file by zeros; the access is then repeated. Any other SIGBUS
 * kills the process.
 */
static void on_bus(int sig, siginfo_t *info, void *context)
{
	const uint8_t *addr = info->si_addr;
	struct elf_watch *w = watch_find(addr);
	int saved = errno;
	size_t from;

	(void)context;
	from = w ? (size_t)(addr - w->bytes) & ~(page_size - 1) : 0;
	if (!w || mmap((void *)(uintptr_t)(w->bytes + from), w->size - from, PROT_READ,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		signal(sig, SIG_DFL);
	else
		w->cut = 1;
	errno = saved;
}

static void handler_start(void)
{
	struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };

	page_size = sysconf(_SC_PAGESIZE);
	sigaction(SIGBUS, &action, NULL);
}

/* Watches complete pages: the kernel fills the last page with zeros after the end of the file. */
static struct elf_watch *elf_watch_new(const uint8_t *bytes, size_t size)
{
	struct elf_watch *w = xcalloc(1, sizeof(*w));

	pthread_once(&handler_once, handler_start);
	w->bytes = bytes;
	w->size = (size + page_size - 1) & ~(page_size - 1);
	pthread_mutex_lock(&list_lock);
	w->next = list;
	__atomic_store_n(&list, w, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&list_lock);
	return w;
}

static void elf_watch_free(struct elf_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&list_lock);
	for (struct elf_watch **at = &list; *at; at = &(*at)->next)
		if (*at == watch) {
			*at = watch->next;
			break;
		}
	pthread_mutex_unlock(&list_lock);
	free(watch);
}

/* --- the header -------------------------------------------------------------------------------- */

static pthread_once_t libelf_once = PTHREAD_ONCE_INIT;

static void libelf_start(void)
{
	elf_version(EV_CURRENT);
}

static int check_ident(const uint8_t *b, size_t size, const char *shown, struct err *err)
{
	static const char script[] = "/* GNU ld script";

	if (size < EI_NIDENT || memcmp(b, ELFMAG, SELFMAG) != 0) {
		if (size >= sizeof(script) && memcmp(b, script, sizeof(script) - 1) == 0)
			return err_set(err, -ENOEXEC,
				"'%s' is not an ELF file: a linker script", shown);
		return err_set(err, -ENOEXEC, "'%s' is not an ELF file", shown);
	}
	if (b[EI_CLASS] != ELFCLASS64)
		return err_set(err, -ENOEXEC,
			"'%s' is a 32-bit ELF file: only 64-bit ones can be probed",
			shown);
	if (b[EI_DATA] != ELFDATA2LSB)
		return err_set(err, -ENOEXEC, "'%s' is a big-endian ELF file", shown);
	if (size < sizeof(Elf64_Ehdr))
		return err_set(
			err, -EBADMSG, "'%s' is truncated: %zu bytes", shown, size);
	return 0;
}

/* True if the header table of @cnt entries at @offset is inside the file. */
static bool table_fits(uint64_t offset, uint64_t cnt, size_t entry, size_t size)
{
	return offset <= size && cnt <= (size - offset) / entry;
}

static int check_sections(const Elf64_Ehdr *eh, const uint8_t *bytes, size_t size,
	const char *shown, struct err *err)
{
	uint64_t cnt = eh->e_shnum;
	Elf64_Shdr first;

	if (!eh->e_shoff)
		return 0;
	if (eh->e_shentsize != sizeof(Elf64_Shdr))
		return err_set(err, -EBADMSG,
			"'%s' is damaged: section headers of %u bytes", shown,
			eh->e_shentsize);
	if (!table_fits(eh->e_shoff, 1, sizeof(Elf64_Shdr), size))
		return err_set(err, -EBADMSG,
			"'%s' is truncated: %zu bytes, section headers at %llu", shown,
			size, (unsigned long long)eh->e_shoff);
	if (!cnt) { /* too many for the field: the first header has the number (gABI) */
		memcpy(&first, bytes + eh->e_shoff, sizeof(first));
		cnt = first.sh_size;
	}
	if (cnt > ELF_MAX_SECTIONS)
		return err_set(err, -EBADMSG, "'%s' is damaged: %llu sections", shown,
			(unsigned long long)cnt);
	if (!table_fits(eh->e_shoff, cnt, sizeof(Elf64_Shdr), size))
		return err_set(err, -EBADMSG,
			"'%s' is truncated: %zu bytes, section headers at %llu", shown,
			size, (unsigned long long)eh->e_shoff);
	return 0;
}

static int check_header(const struct elf_mem *mem, const char *shown, struct err *err)
{
	Elf64_Ehdr eh;
	int ret;

	ret = check_ident(mem->bytes, mem->size, shown, err);
	if (ret)
		return ret;
	memcpy(&eh, mem->bytes, sizeof(eh));
	if (eh.e_machine != EM_X86_64 && eh.e_machine != EM_AARCH64)
		return err_set(err, -ENOEXEC,
			"'%s' is for another machine (ELF number %u): x86-64 or arm64 needed",
			shown, eh.e_machine);
	if (eh.e_type == ET_REL)
		return err_set(
			err, -ENOEXEC, "'%s' is an object file, not linked", shown);
	if (eh.e_type == ET_CORE)
		return err_set(err, -ENOEXEC, "'%s' is a core dump", shown);
	if (eh.e_type != ET_EXEC && eh.e_type != ET_DYN)
		return err_set(err, -ENOEXEC,
			"'%s' is not a library or program: ELF type %u", shown,
			eh.e_type);
	if (eh.e_phnum > ELF_MAX_SEGMENTS ||
		(eh.e_phnum && eh.e_phentsize != sizeof(Elf64_Phdr)))
		return err_set(err, -EBADMSG,
			"'%s' is damaged: %u program headers of %u bytes", shown,
			eh.e_phnum, eh.e_phentsize);
	if (!table_fits(eh.e_phoff, eh.e_phnum, sizeof(Elf64_Phdr), mem->size))
		return err_set(err, -EBADMSG,
			"'%s' is truncated: %zu bytes, program headers at "
			"%llu",
			shown, mem->size, (unsigned long long)eh.e_phoff);
	return check_sections(&eh, mem->bytes, mem->size, shown, err);
}

static int mem_begin(struct elf_mem *mem, const char *shown, struct err *err)
{
	int ret;

	ret = check_header(mem, shown, err);
	if (ret)
		return ret;
	pthread_once(&libelf_once, libelf_start);
	/* libelf takes a char * and only reads */
	mem->elf = elf_memory((char *)(uintptr_t)mem->bytes, mem->size);
	if (!mem->elf || elf_kind(mem->elf) != ELF_K_ELF)
		return err_set(
			err, -EBADMSG, "'%s' is damaged: %s", shown, elf_errmsg(-1));
	return 0;
}

/* --- notes ------------------------------------------------------------------------------------- */

struct note_scan {
	char *hex;
	bool go;
	size_t budget; /* bytes that may still be read */
};

static void note_seen(
	struct note_scan *s, const GElf_Nhdr *nh, const char *name, const uint8_t *desc)
{
	if (nh->n_namesz == 4 && memcmp(name, "GNU", 4) == 0 &&
		nh->n_type == NT_GNU_BUILD_ID && !s->hex[0] && nh->n_descsz &&
		nh->n_descsz <= ELF_MAX_BUILD_ID) {
		for (uint32_t i = 0; i < nh->n_descsz; i++)
			sprintf(s->hex + 2 * i, "%02x", desc[i]);
	}
	/* src/cmd/link/internal/ld/elf.go: name "Go", type 4 is the build id */
	if (nh->n_namesz == 4 && memcmp(name, "Go\0", 4) == 0 && nh->n_type == 4)
		s->go = true;
}

/* Notes are padded to 4 bytes, or to 8 if their section or segment has that alignment. */
static void notes_scan(struct note_scan *s, const uint8_t *b, size_t size, uint64_t align)
{
	Elf_Data notes = { .d_buf = (void *)(uintptr_t)b,
		.d_type = align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR };
	size_t at = 0, name, desc;
	GElf_Nhdr nh;

	notes.d_size = size < s->budget ? size : s->budget;
	s->budget -= notes.d_size;
	while (at < notes.d_size && (at = gelf_getnote(&notes, at, &nh, &name, &desc)))
		note_seen(s, &nh, (const char *)b + name, b + desc);
}

/* --- images ------------------------------------------------------------------------------------ */

static int map_image(int fd, const char *shown, int protection, int flags,
	struct elf_mem *ret_mem, struct err *err)
{
	struct elf_mem mem = {};
	struct stat st;
	void *map;
	int ret;

	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "cannot read '%s'", shown);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "'%s' is not a regular file", shown);
	if (st.st_size < EI_NIDENT)
		return err_set(err, -ENOEXEC, "'%s' is not an ELF file", shown);
	map = mmap(NULL, st.st_size, protection, flags, fd, 0);
	if (map == MAP_FAILED)
		return err_sys(err, -errno, "cannot map '%s'", shown);
	mem.watch = elf_watch_new(map, st.st_size);
	mem.bytes = map;
	mem.size = st.st_size;
	ret = mem_begin(&mem, shown, err);
	if (ret) {
		elf_mem_done(&mem);
		return ret;
	}
	*ret_mem = mem;
	return 0;
}

int elf_mem_map(int fd, const char *shown, struct elf_mem *ret_mem, struct err *err)
{
	/*
	 * Shared, to read the bytes of the file: uprobes of other tools insert breakpoints into
	 * private mappings, even read-only ones (valid_vma, kernel/events/uprobes.c).
	 */
	return map_image(fd, shown, PROT_READ, MAP_SHARED, ret_mem, err);
}

int elf_mem_map_debug(int fd, const char *shown, struct elf_mem *ret_mem, struct err *err)
{
	return map_image(fd, shown, PROT_READ | PROT_WRITE, MAP_PRIVATE, ret_mem, err);
}

int elf_mem_take(uint8_t *bytes, size_t size, const char *shown, struct elf_mem *ret_mem,
	struct err *err)
{
	struct elf_mem mem = { .bytes = bytes, .size = size };
	int ret;

	ret = mem_begin(&mem, shown, err);
	if (ret) {
		elf_mem_done(&mem);
		return ret;
	}
	*ret_mem = mem;
	return 0;
}

void elf_mem_done(struct elf_mem *mem)
{
	if (mem->elf)
		elf_end(mem->elf);
	if (mem->watch)
		munmap((void *)(uintptr_t)mem->bytes, mem->size);
	else
		free((void *)(uintptr_t)mem->bytes);
	elf_watch_free(mem->watch);
	memset(mem, 0, sizeof(*mem));
}

Elf_Scn *elf_mem_section(
	const struct elf_mem *mem, uint32_t type, const char *name, GElf_Shdr *ret_shdr)
{
	Elf_Scn *scn = NULL;
	size_t strings = 0;
	GElf_Shdr sh;

	if (name && elf_getshdrstrndx(mem->elf, &strings) < 0)
		return NULL;
	while ((scn = elf_nextscn(mem->elf, scn))) {
		const char *found;

		if (!gelf_getshdr(scn, &sh) || (type && sh.sh_type != type))
			continue;
		if (name) {
			found = elf_strptr(mem->elf, strings, sh.sh_name);
			if (!found || strcmp(found, name) != 0)
				continue;
		}
		*ret_shdr = sh;
		return scn;
	}
	return NULL;
}

const uint8_t *elf_mem_bytes(const struct elf_mem *mem, const GElf_Shdr *shdr)
{
	if (shdr->sh_type == SHT_NOBITS || shdr->sh_offset > mem->size ||
		shdr->sh_size > mem->size - shdr->sh_offset || !shdr->sh_size)
		return NULL;
	return mem->bytes + shdr->sh_offset;
}

void elf_mem_notes(
	const struct elf_mem *mem, char hex[2 * ELF_MAX_BUILD_ID + 1], bool *ret_go)
{
	struct note_scan s = { .hex = hex, .budget = ELF_MAX_NOTES };
	Elf_Scn *scn = NULL;
	size_t cnt = 0;
	GElf_Shdr sh;
	GElf_Phdr ph;

	hex[0] = '\0';
	/* sections first: in a separate debug file the segments' offsets lead nowhere */
	while ((scn = elf_nextscn(mem->elf, scn))) {
		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_NOTE)
			continue;
		if (elf_mem_bytes(mem, &sh))
			notes_scan(
				&s, elf_mem_bytes(mem, &sh), sh.sh_size, sh.sh_addralign);
	}
	elf_getphdrnum(mem->elf, &cnt);
	for (size_t i = 0; i < cnt && !hex[0]; i++) {
		if (!gelf_getphdr(mem->elf, i, &ph) || ph.p_type != PT_NOTE)
			continue;
		if (ph.p_offset <= mem->size && ph.p_filesz <= mem->size - ph.p_offset)
			notes_scan(&s, mem->bytes + ph.p_offset, ph.p_filesz, ph.p_align);
	}
	*ret_go = s.go;
}

bool elf_name_is_clean(const char *name, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = 1;
		if (name[i] > 0x20 && name[i] < 0x7f)
			continue;
		n = utf8_len(name + i, len - i);
		if (n < 2 || utf8_is_control(name + i, n))
			return false;
	}
	return len > 0;
}

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
			.memory = ph.p_memsz,
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
	f->info.mtime_ns = mtime_of(&st);
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
		(uint64_t)st.st_size != f->info.size || mtime_of(&st) != f->info.mtime_ns)
		return err_set(err, -EBADMSG, "'%s' changed while it was read", f->path);
	return 0;
}

enum segment_kind { ANY, CODE, DATA };
enum segment_place { AT_ADDR, AT_OFFSET };

/* Returns the segment of @kind that has @at, or NULL. DATA is writable, and can begin as zeros. */
static const struct elf_segment *segment_of(const struct elf_file *f, enum segment_kind kind,
	enum segment_place place, uint64_t at)
{
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[i];
		uint64_t start = place == AT_ADDR ? s->addr : s->offset;

		if ((kind == CODE && !s->exec) || (kind == DATA && !s->write))
			continue;
		if (at >= start && at - start < (kind == DATA ? s->memory : s->size))
			return s;
	}
	return NULL;
}

const uint8_t *elf_file_bytes(const struct elf_file *f, uint64_t addr, size_t *ret_size)
{
	const struct elf_segment *s = segment_of(f, ANY, AT_ADDR, addr);

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
	const struct elf_segment *s = segment_of(f, CODE, AT_ADDR, addr);

	if (!s)
		return -ERANGE;
	*ret_offset = s->offset + (addr - s->addr);
	return 0;
}

bool elf_file_is_writable(const struct elf_file *f, uint64_t addr)
{
	const struct elf_segment *s = segment_of(f, CODE, AT_ADDR, addr);

	return s && s->write;
}

int elf_file_offset_to_addr(const struct elf_file *f, uint64_t offset, uint64_t *ret_addr)
{
	const struct elf_segment *s = segment_of(f, CODE, AT_OFFSET, offset);

	if (!s)
		return -ERANGE;
	*ret_addr = s->addr + (offset - s->offset);
	return 0;
}

bool elf_file_head_to_data(
	const struct elf_file *f, uint64_t after, uint64_t *ret_addr, uint64_t *ret_offset)
{
	const struct elf_segment *head = NULL, *s;

	for (size_t i = 0; i < f->segment_cnt && !head; i++)
		if (!f->segments[i].offset)
			head = &f->segments[i];
	s = head ? segment_of(f, DATA, AT_ADDR, head->addr + after) : NULL;
	if (!s)
		return false;
	*ret_addr = head->addr + after;
	*ret_offset = s->offset + (*ret_addr - s->addr);
	return true;
}

bool elf_file_offset_to_data(const struct elf_file *f, uint64_t offset, uint64_t *ret_addr)
{
	const struct elf_segment *s = segment_of(f, DATA, AT_OFFSET, offset);

	if (!s)
		return false;
	*ret_addr = s->addr + (offset - s->offset);
	return true;
}

/* --- The code that the kernel has mapped into this process, as into all others: vdso(7) ---------- */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* since Linux 6.3, include/uapi/linux/memfd.h */
#endif

/* Returns the end of the last part: a segment, or the section headers after the segments. */
static size_t image_size(const Elf64_Ehdr *image)
{
	const Elf64_Phdr *ph = (const void *)((const char *)image + image->e_phoff);
	size_t size = image->e_shoff + (size_t)image->e_shnum * image->e_shentsize;

	for (int i = 0; i < image->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && ph[i].p_offset + ph[i].p_filesz > size)
			size = ph[i].p_offset + ph[i].p_filesz;
	return size;
}

static int make_file(void)
{
	int fd = memfd_create("vdso", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	return fd < 0 ? memfd_create("vdso", MFD_CLOEXEC) : fd;
}

int elf_vdso_open(struct elf_file **ret_file)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address from the kernel */
	const Elf64_Ehdr *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_close_ int fd = -1;
	int code;

	if (!image)
		return -ENOENT;
	fd = make_file();
	code = fd < 0 ? -errno : file_write(fd, image, image_size(image));
	return code ?: elf_file_open_fd(TAKE_FD(fd), ELF_VDSO, -1, NULL, ret_file, NULL);
}
