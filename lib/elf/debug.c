// SPDX-License-Identifier: BSD-2-Clause
// Symbols kept elsewhere: separate debug files and .gnu_debugdata.
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>

#include "proc/proc.h"
#include "internal.h"

#define DEBUG_DIR "/usr/lib/debug"

/* A file at @path, below the file's own root or this process's; -1 when there is none. */
static int open_at(const struct elf_file *f, bool own_root, const char *path)
{
	if (!own_root)
		return proc_open_regular(path, NULL);
	return proc_open_in_root(f->root_fd, path, 0, NULL);
}

/* Whether the image is the debug file of @f: the same machine and no other build id. */
static bool belongs(const struct elf_file *f, const struct elf_mem *mem, bool need_id)
{
	char hex[2 * ELF_MAX_BUILD_ID + 1];
	bool go;

	if (memcmp(mem->bytes + offsetof(Elf64_Ehdr, e_machine),
		    f->mem.bytes + offsetof(Elf64_Ehdr, e_machine),
		    sizeof(Elf64_Half)) != 0)
		return false;
	elf_mem_notes(mem, hex, &go);
	if (!hex[0] || !f->build_id[0])
		return !need_id;
	return strcmp(hex, f->build_id) == 0;
}

static bool has_table(const struct elf_mem *mem)
{
	GElf_Shdr sh;

	return elf_mem_section(mem, SHT_SYMTAB, NULL, &sh) && elf_mem_bytes(mem, &sh);
}

/* What a debug file is looked for. */
struct search {
	bool (*has)(const struct elf_mem *mem);
	int (*map)(int fd, const char *shown, struct elf_mem *ret_mem, struct err *err);
	struct elf_mem *to;
	char *path; /* of what was found; owned by who looks */
};

/* Opens @path as the debug file; with @crc only if the file's checksum is that. */
static bool try_file(struct elf_file *f, struct search *s, bool own_root, const char *path,
	const uint32_t *crc)
{
	_cleanup_close_ int fd = open_at(f, own_root, path);
	struct elf_mem mem;

	if (fd < 0 || s->map(fd, path, &mem, NULL))
		return false;
	if (!belongs(f, &mem, !crc) || !s->has(&mem) ||
		(crc && lzma_crc32(mem.bytes, mem.size, 0) != *crc)) {
		elf_mem_done(&mem);
		return false;
	}
	*s->to = mem;
	s->path = xstrdup(path);
	return true;
}

static bool by_build_id(struct elf_file *f, struct search *s, bool own_root)
{
	char path[sizeof(DEBUG_DIR) + 2 * ELF_MAX_BUILD_ID + 32];

	if (strlen(f->build_id) < 4)
		return false;
	snprintf(path, sizeof(path), DEBUG_DIR "/.build-id/%.2s/%s.debug", f->build_id,
		f->build_id + 2);
	return try_file(f, s, own_root, path, NULL);
}

/*
 * What debuginfod-find(1) has fetched for this user, which names files by build id alone
 * (debuginfod_find_debuginfo(3)).
 */
static bool by_debuginfod(struct elf_file *f, struct search *s)
{
	static const struct {
		const char *variable, *below;
	} caches[] = { { "DEBUGINFOD_CACHE_PATH", "" },
		{ "XDG_CACHE_HOME", "/debuginfod_client" },
		{ "HOME", "/.cache/debuginfod_client" } };
	char path[PATH_MAX];

	if (!f->build_id[0])
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(caches); i++) {
		const char *dir = secure_getenv(caches[i].variable);

		if (!dir || dir[0] != '/' ||
			snprintf(path, sizeof(path), "%s%s/%s/debuginfo", dir,
				caches[i].below, f->build_id) >= (int)sizeof(path))
			continue;
		if (try_file(f, s, false, path, NULL))
			return true;
	}
	return false;
}

/* What .gnu_debuglink names: a file, with no folder, of the checksum *@ret_crc; or NULL. */
static const char *debuglink(const struct elf_file *f, uint32_t *ret_crc)
{
	const char *name = dwelf_elf_gnu_debuglink(f->mem.elf, ret_crc);

	return name && name[0] && !strchr(name, '/') && strlen(name) <= NAME_MAX ? name
										 : NULL;
}

static bool by_debuglink(struct elf_file *f, struct search *s, bool own_root)
{
	static const char *const places[] = { "%s/%s", "%s/.debug/%s",
		DEBUG_DIR "%s/%s" };
	char path[PATH_MAX];
	const char *name;
	uint32_t crc;

	name = f->dir ? debuglink(f, &crc) : NULL;
	if (!name)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		int n = snprintf(path, sizeof(path), places[i], f->dir, name);
#pragma GCC diagnostic pop

		if (n > 0 && (size_t)n < sizeof(path) &&
			try_file(f, s, own_root, path, &crc))
			return true;
	}
	return false;
}

/* Unpacks xz data into at most ELF_MAX_DEBUGDATA bytes; NULL when that fails. */
static uint8_t *unpack(const uint8_t *in, size_t in_size, size_t *ret_size)
{
	lzma_stream xz = LZMA_STREAM_INIT;
	_cleanup_free_ uint8_t *out = NULL;
	size_t cap = 0;
	lzma_ret ret;

	if (lzma_stream_decoder(&xz, ELF_MAX_DEBUGDATA, 0) != LZMA_OK)
		return NULL;
	xz.next_in = in;
	xz.avail_in = in_size;
	do {
		if (!xz.avail_out) {
			size_t room = cap ? cap : 1u << 20;
			uint8_t *grown = NULL;

			if (cap + room <= ELF_MAX_DEBUGDATA)
				grown = realloc(out, cap + room);
			if (!grown)
				break;
			out = grown;
			xz.next_out = out + cap;
			xz.avail_out = room;
			cap += room;
		}
		ret = lzma_code(&xz, LZMA_FINISH);
	} while (ret == LZMA_OK);
	*ret_size = xz.total_out;
	lzma_end(&xz);
	return cap && ret == LZMA_STREAM_END ? TAKE_PTR(out) : NULL;
}

static bool by_debugdata(struct elf_file *f)
{
	const uint8_t *in;
	uint8_t *out;
	GElf_Shdr sh;
	size_t size;

	if (!elf_mem_section(&f->mem, 0, ".gnu_debugdata", &sh))
		return false;
	in = elf_mem_bytes(&f->mem, &sh);
	out = in ? unpack(in, sh.sh_size, &size) : NULL;
	if (!out)
		return false;
	return elf_mem_take(out, size, f->path, &f->debugdata, NULL) == 0 &&
		has_table(&f->debugdata);
}

static bool find(struct elf_file *f, struct search *s)
{
	if (f->root_fd >= 0 && (by_build_id(f, s, true) || by_debuglink(f, s, true)))
		return true;
	return by_build_id(f, s, false) || (f->root_fd < 0 && by_debuglink(f, s, false)) ||
		by_debuginfod(f, s);
}

bool elf_debug_open(
	struct elf_file *f, enum elf_table *ret_table, const struct elf_mem **ret_mem)
{
	struct search s = { .has = has_table, .map = elf_mem_map, .to = &f->debug };
	bool found = find(f, &s);

	free(s.path);
	*ret_table = found ? ELF_TABLE_DEBUG : ELF_TABLE_DEBUGDATA;
	*ret_mem = found ? &f->debug : &f->debugdata;
	return found || by_debugdata(f);
}

char *elf_debug_find(
	struct elf_file *f, bool (*has)(const struct elf_mem *mem), struct elf_mem *ret_mem)
{
	struct search s = { .has = has, .map = elf_mem_map_debug, .to = ret_mem };

	find(f, &s);
	return s.path;
}
