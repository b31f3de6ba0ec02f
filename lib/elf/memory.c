// SPDX-License-Identifier: BSD-2-Clause
// ELF images in memory: mapped, perhaps cut short; the header's checks, sections, notes.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/text.h"
#include "internal.h"

/* --- files that are cut short while they are read ----------------------------------------------- */

/*
 * A file is mapped, not copied (there are libraries of gigabytes), and whoever may write it
 * can make any page of it vanish: touching that is SIGBUS, the end of the command. So the
 * pages from there on become zeros, and the file is known to have changed: whatever was
 * read of it is refused.
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

/* Returning repeats the access. One that is not of these files ends the process as ever. */
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

/* Whole pages: what lies behind the end of the file in its last page is zeros. */
struct elf_watch *elf_watch_new(const uint8_t *bytes, size_t size)
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

void elf_watch_free(struct elf_watch *watch)
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

/* The header table of @cnt entries at @offset must lie in the file. */
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
	size_t budget; /* bytes that may still be looked at */
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

/* Notes are padded to 4 bytes, or to 8 where their section or segment is so aligned. */
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
	 * Shared, so that the file's own bytes are seen: uprobes of others put breakpoints into
	 * private mappings, even those that are only read (valid_vma, kernel/events/uprobes.c).
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
