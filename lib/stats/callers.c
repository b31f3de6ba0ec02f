// SPDX-License-Identifier: BSD-2-Clause
// Names of code addresses: callers, and GPU kernels.
#include <limits.h>
#include <search.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "elf/dwarf.h"
#include "internal.h"
#include "proc/proc.h"

/*
 * Callers: return addresses of processes as "function+0x1f" or "file+0x1f".
 *
 * A program is mapped at other addresses in each process, and an exited process has no mappings. So
 * the group stores the names next to the rows, and the BPF programs record the mapped file of each
 * caller.
 */

#define PROC "/proc"

/* A mapped file, opened once. */
struct code_file {
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	struct code_known *known;
};

struct code_proc {
	pid_t pid;
	uint64_t start_ns;
	struct proc_maps maps; /* empty if it has exited */
};

struct callers {
	struct code_file *files;
	struct code_proc *procs;
	size_t file_cnt, proc_cnt;
};

struct callers *callers_new(void)
{
	return xcalloc(1, sizeof(struct callers));
}

static void known_free(struct code_known *known)
{
	if (!known)
		return;
	elf_file_free(known->elf);
	kernel_names_done(&known->kernels);
	free(known);
}

void callers_free(struct callers *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->file_cnt; i++)
		known_free(c->files[i].known);
	for (size_t i = 0; i < c->proc_cnt; i++)
		proc_maps_done(&c->procs[i].maps);
	free(c->files);
	free(c->procs);
	free(c);
}

/* --- the mapped file at an address ---------------------------------------------------------- */

/* Returns the mappings of a process that is still running after they were read. */
static const struct code_proc *proc_of(struct callers *c, pid_t pid, uint64_t start_ns)
{
	struct code_proc *proc;

	for (size_t i = c->proc_cnt; i--;)
		if (c->procs[i].pid == pid && c->procs[i].start_ns == start_ns)
			return &c->procs[i];
	proc = array_add(c->procs, c->proc_cnt);
	*proc = (struct code_proc) { .pid = pid, .start_ns = start_ns };
	if (!proc_is_first_ns() || !proc_alive(PROC, pid, start_ns) ||
		proc_maps_read(PROC, pid, &proc->maps, NULL))
		return proc;
	if (!proc_alive(PROC, pid, start_ns))
		proc_maps_done(&proc->maps);
	return proc;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Opens the file of @map. Returns NULL if its functions cannot be read. */
static struct elf_file *open_code(pid_t pid, const struct proc_map *map)
{
	_cleanup_free_ char *dir = NULL;
	const struct elf_func *funcs;
	_cleanup_close_ int root = -1;
	struct elf_file *elf = NULL;
	size_t cnt;
	int fd = proc_open_mapped(PROC, pid, map, NULL);

	if (fd < 0)
		return NULL;
	if (!proc_same_mnt_ns(PROC, pid))
		root = proc_open_root(PROC, pid, NULL);
	dir = xstrndup(map->path, (size_t)(base_of(map->path) - map->path));
	if (elf_file_open_fd(fd, map->path, root >= 0 ? root : -1, dir, &elf, NULL))
		return NULL;
	if (!elf_file_funcs(elf, &funcs, &cnt, NULL))
		return elf;
	elf_file_free(elf);
	return NULL;
}

/* Finds or adds the cache entry of a file. *@ret_new: the caller must fill it. */
static struct code_known *known_of(
	struct callers *c, uint32_t major, uint32_t minor, uint64_t ino, bool *ret_new)
{
	struct code_known *known;

	*ret_new = false;
	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i].ino == ino && c->files[i].dev_major == major &&
			c->files[i].dev_minor == minor)
			return c->files[i].known;
	known = xcalloc(1, sizeof(*known));
	*array_add(c->files, c->file_cnt) = (struct code_file) { major, minor, ino, known };
	*ret_new = true;
	return known;
}

static struct code_known *file_of(struct callers *c, pid_t pid, const struct proc_map *map)
{
	bool is_new;
	struct code_known *known =
		known_of(c, map->dev_major, map->dev_minor, map->ino, &is_new);

	if (is_new)
		known->elf = open_code(pid, map);
	return known;
}

/* Converts the offset of code or data to an address. False if it is neither. */
static bool has_addr(const struct code_at *at, bool is_data, uint64_t *ret_addr)
{
	if (!at->known || !at->known->elf)
		return false;
	return is_data ? elf_file_offset_to_data(at->known->elf, at->offset, ret_addr)
		       : !elf_file_offset_to_addr(at->known->elf, at->offset, ret_addr);
}

/* True if the file at @at is the one of @word in a key: by now another one can be mapped there. */
static bool is_place(const struct code_at *at, uint64_t word)
{
	const struct elf_info *info;

	if (!word)
		return true;
	info = at->known && at->known->elf ? elf_file_info(at->known->elf) : NULL;
	return info && place_word((uint32_t)info->ino, info->mtime_ns, at->offset) == word;
}

/* Finds the file and offset that a running process has mapped at @addr. False if there is none. */
static bool callers_code(
	struct callers *c, pid_t pid, uint64_t start_ns, uint64_t addr, struct code_at *ret)
{
	const struct code_proc *p = proc_of(c, pid, start_ns);
	const struct proc_map *map = proc_maps_at(&p->maps, addr, &ret->offset);

	if (!map)
		return false;
	ret->known = file_of(c, pid, map);
	ret->file = base_of(map->path);
	if (!has_addr(ret, false, &ret->addr))
		ret->known = NULL;
	return true;
}

/* --- names ---------------------------------------------------------------------------------- */

/* Writes "name+0x1f", with the name truncated to @size. */
static void put_place(char *to, size_t size, const char *name, uint64_t behind)
{
	char offset[24];
	int len = snprintf(offset, sizeof(offset), "+0x%llx", (unsigned long long)behind);

	snprintf(to, size, "%.*s%s", (int)size - 1 - len, name, offset);
}

/* @at is the last byte of the call instruction; the return address may be in the next function. */
static bool put_function(const struct code_at *at, struct fsn_caller *to)
{
	_cleanup_free_ char *plain = NULL;
	const struct elf_func *func;

	func = at->known ? elf_file_func_at(at->known->elf, at->addr) : NULL;
	if (!func)
		return false;
	plain = demangle(func->names->name, DEMANGLE_NAME);
	put_place(to->text, sizeof(to->text), plain ? plain : func->names->name,
		at->addr + 1 - func->addr);
	return true;
}

/* --- static data ---------------------------------------------------------------------------- */

/* Finds the file with the data at @addr: the last one that begins before it. */
static const struct proc_map *map_before(const struct proc_maps *maps, uint64_t addr)
{
	const struct proc_map *map = NULL;

	for (size_t i = 0; i < maps->cnt; i++)
		if (maps->maps[i].head && maps->maps[i].head <= addr &&
			(!map || maps->maps[i].head > map->head))
			map = &maps->maps[i];
	return map;
}

/* Writes "variable", "variable+0x10" or, without a symbol, "file+0x4010". */
static void put_data(const struct code_at *at, struct fsn_caller *to)
{
	uint64_t begin = 0;
	_cleanup_free_ char *name = elf_file_variable_at(at->known->elf, at->addr, &begin);
	_cleanup_free_ char *plain = name ? demangle(name, DEMANGLE_NAME) : NULL;

	if (name && begin == at->addr)
		snprintf(to->text, sizeof(to->text), "%s", plain ? plain : name);
	else
		put_place(to->text, sizeof(to->text), plain ? plain : name ? name : at->file,
			at->addr - begin);
}

/* Finds the file whose static data a running process has at @addr. False if there is none. */
static bool callers_data(
	struct callers *c, pid_t pid, uint64_t start_ns, uint64_t addr, struct code_at *ret)
{
	const struct proc_map *map = map_before(&proc_of(c, pid, start_ns)->maps, addr);

	ret->known = map ? file_of(c, pid, map) : NULL;
	if (!ret->known || !ret->known->elf ||
		!elf_file_head_to_data(ret->known->elf, addr - map->head, &ret->addr, &ret->offset))
		return false;
	ret->file = base_of(map->path);
	return true;
}

static void put_named(const struct code_at *at, bool is_data, struct fsn_caller *to)
{
	if (is_data)
		put_data(at, to);
	else if (!put_function(at, to))
		put_place(to->text, sizeof(to->text), at->file, at->offset + 1);
}

bool callers_name(struct callers *c, pid_t pid, uint64_t start_ns, uint64_t addr, uint64_t word,
	bool is_data, struct fsn_caller *ret)
{
	struct code_at at = {};
	bool found = is_data ? callers_data(c, pid, start_ns, addr, &at)
			     : callers_code(c, pid, start_ns, addr - 1, &at);

	if (!found || !is_place(&at, word))
		return false;
	*ret = (struct fsn_caller) { .addr = addr, .start = start_ns };
	put_named(&at, is_data, ret);
	return true;
}

/* --- callers of exited processes ------------------------------------------------------------ */

#define MINOR_BITS 20 /* MINORBITS, include/linux/kdev_t.h */

/* Completes the name of @part, which was cut: true if only one in the directory @path begins so. */
static bool whole_name(const char *path, const char *part, char name[NAME_MAX + 1])
{
	_cleanup_closedir_ DIR *dir = opendir(path[0] ? path : "/");
	const struct dirent *d;
	size_t found = 0;

	while (dir && (d = readdir(dir)))
		if (!strncmp(d->d_name, part, FSN_NAME_PART - 1) && !found++)
			snprintf(name, NAME_MAX + 1, "%s", d->d_name);
	return found == 1;
}

/* Appends the innermost @cnt parts to the path @at. */
static bool append_parts(
	const struct fsn_file_name *name, size_t cnt, const char *at, char path[PATH_MAX])
{
	size_t len = (size_t)snprintf(path, PATH_MAX, "%s", at);
	char part[NAME_MAX + 1];

	while (cnt-- && len < PATH_MAX) {
		size_t part_len = strnlen(name->part[cnt], FSN_NAME_PART);

		snprintf(part, sizeof(part), "%.*s", (int)part_len, name->part[cnt]);
		if (part_len >= FSN_NAME_PART - 1 && !whole_name(path, name->part[cnt], part))
			return false;
		len += (size_t)snprintf(path + len, PATH_MAX - len, "/%s", part);
	}
	return len < PATH_MAX;
}

/* Returns how many parts of the path are not of the directory @root, or 0 if the file is not below it. */
static size_t parts_below(const struct fsn_file_name *name, char *root)
{
	size_t cnt = name->cnt;
	char *rest = NULL;

	for (const char *at = strtok_r(root, "/", &rest); at; at = strtok_r(NULL, "/", &rest))
		if (!cnt || strncmp(name->part[--cnt], at, FSN_NAME_PART - 1))
			return 0;
	return cnt;
}

static bool is_file(const char *path, const struct fsn_file_id *id)
{
	_cleanup_close_ int fd = proc_open_regular(path, NULL);
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_ino == id->ino;
}

/*
 * Finds a mount of the file's file system, or of the part of it that has the file. Since 6.8 the path
 * of a file on an overlay is that in its layer, which is not mounted in a container, and ends like the
 * path below the overlay. The number is that of the layer, too.
 */
static bool path_in(const char *process, const char *below, const struct fsn_file_id *id,
	const struct fsn_file_name *name, char path[PATH_MAX])
{
	char line[2 * PATH_MAX], root[PATH_MAX], at[PATH_MAX], whole[PATH_MAX + 64];
	_cleanup_fclose_ FILE *f = NULL;
	unsigned int major, minor;

	snprintf(line, sizeof(line), PROC "/%s/mountinfo", process);
	f = fopen(line, "re");
	while (name->cnt <= FSN_NAME_PARTS && f && fgets(line, sizeof(line), f)) {
		bool is_overlay = strstr(line, " - overlay ");
		size_t cnt = 0, least;

		if (sscanf(line, "%*d %*d %u:%u %4095s %4095s", &major, &minor, root, at) != 4)
			continue;
		if (is_overlay || ((uint64_t)major << MINOR_BITS | minor) == id->dev)
			cnt = parts_below(name, root);
		least = is_overlay || !cnt ? 1 : cnt;
		snprintf(whole, sizeof(whole), "%s%s", below, strcmp(at, "/") ? at : "");
		for (; cnt >= least; cnt--)
			if (append_parts(name, cnt, whole, path) && is_file(path, id))
				return true;
	}
	return false;
}

/* The path of the file, below /proc/PID/root if only another mount namespace has it. */
static bool kept_path(
	const struct fsn_file_id *id, const struct fsn_file_name *name, char path[PATH_MAX])
{
	_cleanup_free_ pid_t *pids = NULL;
	char process[16], below[64];
	size_t cnt;

	if (path_in("self", "", id, name, path))
		return true;
	cnt = proc_mnt_namespaces(PROC, &pids);
	for (size_t i = 0; i < cnt; i++) {
		snprintf(process, sizeof(process), "%d", pids[i]);
		snprintf(below, sizeof(below), PROC "/%d/root", pids[i]);
		if (path_in(process, below, id, name, path))
			return true;
	}
	return false;
}

bool group_file_path(const struct group *g, const struct fsn_file_id *id, char path[PATH_MAX])
{
	struct fsn_file_name name;

	if (group_fd(g, MAPID_FILE_NAMES) < 0 ||
		bpf_map_lookup_elem(group_fd(g, MAPID_FILE_NAMES), id, &name))
		return false;
	return kept_path(id, &name, path);
}

static struct code_known *file_kept(struct callers *c, const struct fsn_file_id *id,
	const struct fsn_file_name *name)
{
	char path[PATH_MAX];
	const struct elf_func *funcs;
	struct code_known *known;
	bool is_new;
	size_t cnt;

	known = known_of(c, (uint32_t)(id->dev >> MINOR_BITS),
		(uint32_t)(id->dev & ((1U << MINOR_BITS) - 1)), id->ino, &is_new);
	if (!known || !is_new)
		return known;
	if (kept_path(id, name, path) &&
		!elf_file_open(path, &known->elf, NULL) &&
		elf_file_funcs(known->elf, &funcs, &cnt, NULL)) {
		elf_file_free(known->elf);
		known->elf = NULL;
	}
	return known;
}

static bool place_kept(struct callers *c, const struct group *g, const struct fsn_called *called,
	uint64_t word, bool is_data, struct fsn_file_name *ret_name, struct code_at *ret)
{
	if (group_fd(g, MAPID_FILE_NAMES) < 0 ||
		bpf_map_lookup_elem(group_fd(g, MAPID_FILE_NAMES), &called->id, ret_name) || !ret_name->cnt)
		return false;
	ret_name->part[0][FSN_NAME_PART - 1] = '\0';
	*ret = (struct code_at) { .offset = called->offset };
	ret->known = file_kept(c, &called->id, ret_name);
	if (!is_place(ret, word) || !has_addr(ret, is_data, &ret->addr))
		ret->known = NULL;
	return true;
}

bool callers_name_kept(struct callers *c, const struct group *g, const struct fsn_called *called,
	uint64_t word, bool is_data, struct fsn_caller *ret)
{
	struct fsn_file_name name;
	struct code_at at;

	if (!place_kept(c, g, called, word, is_data, &name, &at) || (is_data && !at.known))
		return false;
	at.file = name.part[0];
	*ret = (struct fsn_caller) { .addr = called->addr, .start = called->start };
	put_named(&at, is_data, ret);
	return true;
}

bool callers_line(struct callers *c, const struct group *g, const struct stats_row *row,
	uint64_t addr, uint64_t word, const struct fsn_called *called, char *text, size_t size)
{
	struct elf_line line[ELF_LINES_MAX];
	struct fsn_file_name name;
	struct code_at at;

	if (!(callers_code(c, row->pid, row->start_ns, addr - 1, &at) && is_place(&at, word)) &&
		!(called && place_kept(c, g, called, word, false, &name, &at)))
		return false;
	if (!at.known || !elf_lines_at(at.known->elf, at.addr, line) || !line[0].line)
		return false;
	snprintf(text, size, " (%s:%u%s%s)", base_of(line[0].source), line[0].line,
		line[0].inlined ? " in " : "", line[0].inlined ? line[0].function : "");
	return true;
}

/* --- interned names ------------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *callers_intern(struct stats *s, const char *text)
{
	char **found = tfind(text, &s->places, compare_texts);

	if (!found)
		found = tsearch(xstrdup(text), &s->places, compare_texts);
	if (!found)
		alloc_failed();
	return *found;
}

void callers_done(struct stats *s)
{
	tdestroy(s->places, free);
}

/* --- names of launched GPU kernels --------------------------------------------------------- */

/*
 * The CUDA compiler generates two host functions for a kernel: one with the kernel's name, whose
 * address identifies it, and __device_stub__NAME, which the first one calls to launch it. Until
 * CUDA 12 the stub passes that address to the launch function. Later stubs pass a handle, which the
 * driver created at the first launch; then the kernel is found by the stub that contains the call.
 */

#define STUB "__device_stub__"
#define PROC "/proc"

/* --- handles -------------------------------------------------------------------------------- */

DEFINE_ORDER(compare_handles, struct handle, RISING(key.tgid) ?: RISING(key.word))

static void add_handle(struct handles *h, const struct fsn_handle *key, const struct fsn_handle_of *of)
{
	struct handle *new = array_add(h->handles, h->cnt);

	*new = (struct handle) { *key, *of };
	new->of.name[FSN_HANDLE_NAME - 1] = '\0';
}

void handles_read(const struct group *g, struct handles *ret_handles)
{
	struct fsn_handle_of of;
	struct fsn_handle key;
	int fd = group_fd(g, MAPID_HANDLES);

	*ret_handles = (struct handles) {};
	map_foreach(fd, &key)
		if (!bpf_map_lookup_elem(fd, &key, &of) && of.start)
			add_handle(ret_handles, &key, &of);
	if (ret_handles->cnt)
		qsort(ret_handles->handles, ret_handles->cnt, sizeof(struct handle),
			compare_handles);
	/* Rows that are newer than those just read may need the handles of a process that has exited. */
	if (ret_handles->cnt <= FSN_HANDLES / 2 || !g->write || !proc_is_first_ns())
		return;
	for (size_t i = 0; i < ret_handles->cnt; i++) {
		const struct handle *h = &ret_handles->handles[i];

		if (!proc_alive(PROC, (pid_t)h->key.tgid, h->of.start))
			(void)bpf_map_delete_elem(fd, &h->key);
	}
}

void handles_done(struct handles *h)
{
	free(h->handles);
}

static const struct fsn_handle_of *find_handle(
	const struct handles *h, const struct launch *l, uint64_t word)
{
	const struct handle key = { { word, (uint64_t)l->pid }, {} }, *found;

	found = h->cnt ? bsearch(&key, h->handles, h->cnt, sizeof(key), compare_handles) : NULL;
	return found && found->of.start == l->start_ns ? &found->of : NULL;
}

/* --- names ---------------------------------------------------------------------------------- */

/* A name that is too long is truncated and ends in a hash, which distinguishes it from others. */
static bool put_name(const char *name, struct fsn_kernel *to)
{
	uint32_t hash = 2166136261U;

	if (strlen(name) < sizeof(to->text)) {
		snprintf(to->text, sizeof(to->text), "%s", name);
		return true;
	}
	for (const char *p = name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619U;
	snprintf(to->text, sizeof(to->text), "%.*s~%08x", (int)sizeof(to->text) - 10, name, hash);
	return true;
}

static bool put_mangled(const char *name, struct fsn_kernel *to)
{
	_cleanup_free_ char *plain = demangle(name, DEMANGLE_NAME);

	return put_name(plain ? plain : name, to);
}

/* Handles "__device_stub__Z3addPfi", and "space::__device_stub__add" of clang. */
static bool put_stub(const char *symbol, struct fsn_kernel *to)
{
	_cleanup_free_ char *outer = demangle(symbol, DEMANGLE_NAME), *inner = NULL;
	const char *whole = outer ? outer : symbol, *stub = strstr(whole, STUB);
	char *text = NULL;

	if (!stub || asprintf(&text, "%.*s_%s", (int)(stub - whole), whole,
			    stub + strlen(STUB)) < 0)
		return false;
	inner = stub == whole ? xstrndup(text, strcspn(text, " ")) : NULL;
	if (inner && demangle_is_mangled(inner)) {
		free(text);
		return put_mangled(inner, to);
	}
	memmove(text + (stub - whole), text + (stub - whole) + 1, strlen(text + (stub - whole)));
	put_name(text, to);
	free(text);
	return true;
}

static const struct kernel_names *kernels_of(struct code_known *known)
{
	if (!known->kernels_read && kernel_names_read(known->elf, &known->kernels, NULL))
		kernel_names_done(&known->kernels);
	known->kernels_read = true;
	return &known->kernels;
}

/* --- ways to find a kernel ------------------------------------------------------------------ */

/* @word is the address of a host function. Without a symbol it is named "file+0x1f". */
static bool by_function(
	struct callers *c, const struct launch *l, uint64_t word, struct fsn_kernel *ret)
{
	const struct kernel_name *kernel;
	const struct elf_func *func;
	struct code_at at;

	if (!callers_code(c, l->pid, l->start_ns, word, &at))
		return false;
	func = at.known ? elf_file_func_at(at.known->elf, at.addr) : NULL;
	if (func && func->addr == at.addr)
		return put_stub(func->names->name, ret) || put_mangled(func->names->name, ret);
	kernel = at.known ? kernel_names_find(kernels_of(at.known), at.addr) : NULL;
	if (kernel)
		return put_mangled(kernel->name, ret);
	put_place(ret->text, sizeof(ret->text), at.file, at.offset);
	return true;
}

/* @at is in a stub, or in other code that the compiler generates for one kernel. */
static bool by_code(const struct launch *l, const struct code_at *at, struct fsn_kernel *ret)
{
	const struct kernel_name *kernel;
	const struct elf_func *func;

	if (!at->known)
		return false;
	func = elf_file_func_at(at->known->elf, at->addr);
	if (func && put_stub(func->names->name, ret))
		return true;
	if (!l->compiled)
		return false;
	kernel = kernel_names_around(at->known->elf, kernels_of(at->known), at->addr);
	return kernel && put_mangled(kernel->name, ret);
}

/*
 * Finds it by the caller of the launch. In unoptimised code that is a helper, called by the stub.
 */
static bool by_caller(struct callers *c, const struct launch *l, struct fsn_kernel *ret)
{
	const unsigned long long *from = l->by.from;
	struct code_at at, outer;

	if (!from[0] || !callers_code(c, l->pid, l->start_ns, from[0] - 1, &at))
		return false;
	if (by_code(l, &at, ret))
		return true;
	return from[1] && callers_code(c, l->pid, l->start_ns, from[1] - 1, &outer) &&
		outer.known && outer.known == at.known &&
		kernel_calls(outer.known->elf, outer.addr + 1, at.addr) &&
		by_code(l, &outer, ret);
}

/*
 * Finds it by the call that returned the handle: its argument was the name of the kernel, the
 * address of a host function, or another handle.
 */
static bool by_handle(struct callers *c, const struct handles *h, const struct launch *l,
	struct fsn_kernel *ret)
{
	uint64_t word = l->by.word;

	for (int step = 0; step < 4; step++) {
		const struct fsn_handle_of *of = find_handle(h, l, word);

		if (!of)
			return step && by_function(c, l, word, ret);
		if (of->cut)
			return put_name(of->name, ret);
		if (!of->word)
			return *of->name && put_mangled(of->name, ret);
		word = of->word;
	}
	return false;
}

bool kernel_name(
	struct callers *c, const struct handles *h, const struct launch *l, struct fsn_kernel *ret)
{
	*ret = (struct fsn_kernel) { .word = l->by.word, .start = l->start_ns };
	return by_function(c, l, l->by.word, ret) || by_caller(c, l, ret) ||
		by_handle(c, h, l, ret);
}

/* --- GPU activity --------------------------------------------------------------------------- */

DEFINE_ORDER(compare_gpus, struct stats_gpu, RISING(pid))

/* Removes exited processes. They are shown until half of the table is used. */
static void forget_ended(const struct group *g, const struct stats *s)
{
	for (size_t i = 0; i < s->gpu_cnt; i++) {
		unsigned int pid = (unsigned int)s->gpus[i].pid;

		if (!proc_alive(PROC, s->gpus[i].pid, s->gpus[i].said.start))
			(void)bpf_map_delete_elem(group_fd(g, MAPID_GPUS), &pid);
	}
}

void stats_read_gpus(const struct group *g, struct stats *s)
{
	int fd = group_info(g).gpu ? group_map_fd(g, MAPID_GPUS, "GPUs", NULL) : -1;
	unsigned int key;

	map_foreach(fd, &key) {
		s->gpus = array_grow(s->gpus, s->gpu_cnt, sizeof(*s->gpus));
		s->gpus[s->gpu_cnt].pid = (pid_t)key;
		if (bpf_map_lookup_elem(fd, &key, &s->gpus[s->gpu_cnt].said))
			continue;
		s->gpus[s->gpu_cnt++].said.who[FSN_GPU_WHO - 1] = '\0';
	}
	if (s->gpu_cnt)
		qsort(s->gpus, s->gpu_cnt, sizeof(*s->gpus), compare_gpus);
	if (s->gpu_cnt > FSN_GPUS / 2 && g->write && proc_is_first_ns())
		forget_ended(g, s);
}
