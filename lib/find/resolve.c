// SPDX-License-Identifier: BSD-2-Clause
// The resolver: finds functions by symbols, and the remaining ones by demangled names.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "elf/dwarf.h"
#include "elf/elf_file.h"
#include "internal.h"

/* Objects and targets. A function is one target, even if several names refer to it. */

/* --- objects -------------------------------------------------------------------------------- */

static void id_of(const struct stat *st, struct object_id *ret_id)
{
	*ret_id = (struct object_id) {
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = st->st_size,
		.mtime_ns = st->st_mtim.tv_sec * 1000000000ULL + st->st_mtim.tv_nsec,
	};
}

int object_identify(const struct object *object, struct object_id *ret_id, struct err *err)
{
	struct stat st;

	if (!object->elf) {
		memset(ret_id, 0, sizeof(*ret_id));
		return 0;
	}
	if (fstat(elf_file_fd(object->elf), &st))
		return err_sys(err, -errno, "cannot read '%s'", object->path);
	id_of(&st, ret_id);
	return 0;
}

const struct elf_info *object_file(const struct object *object)
{
	return object->elf ? elf_file_info(object->elf) : NULL;
}

int object_check(const struct object *object, struct err *err)
{
	return object->elf ? elf_file_check(object->elf, err) : 0;
}

static bool is_of(const struct stat *st, const struct object_id *id)
{
	struct object_id now;

	id_of(st, &now);
	return !memcmp(&now, id, sizeof(now));
}

bool object_is_open(int fd, const struct object_id *id)
{
	struct stat st;

	return !fstat(fd, &st) && is_of(&st, id);
}

bool object_is_stale(const char *path, const struct object_id *id)
{
	struct stat st;

	/* A path of another mount namespace cannot be checked from here. */
	if (strstr(path, " (pid "))
		return false;
	if (stat(path, &st))
		return errno == ENOENT || errno == ENOTDIR;
	return !is_of(&st, id);
}

size_t objects_find(const struct objects *objects, const struct object *object)
{
	size_t i = 0;

	while (i < objects->cnt && objects->object[i] != object)
		i++;
	return i;
}

void objects_add(struct objects *objects, const struct object *object)
{
	if (objects_find(objects, object) < objects->cnt)
		return;
	*array_add(objects->object, objects->cnt) = object;
}

void objects_done(struct objects *objects)
{
	free(objects->object);
}

/* --- targets -------------------------------------------------------------------------------- */

void targets_add(struct targets *targets, const struct target *target)
{
	*array_add(targets->target, targets->cnt) = *target;
}

void targets_miss(struct targets *targets, const struct request *request)
{
	*array_add(targets->missing, targets->missing_cnt) = request;
}

void *targets_keep(struct targets *targets, size_t size)
{
	return *array_add(targets->kept, targets->kept_cnt) = xcalloc(1, size);
}

const char *targets_text(struct targets *targets, const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(targets_keep(targets, size), text, size);
}

void targets_cut(struct targets *targets, size_t cnt)
{
	while (targets->cnt > cnt)
		plan_done(&targets->target[--targets->cnt].plan);
	targets->missing_cnt = 0;
}

void targets_done(struct targets *targets)
{
	targets_cut(targets, 0);
	for (size_t i = 0; i < targets->kept_cnt; i++)
		free(targets->kept[i]);
	free(targets->target);
	free(targets->missing);
	free(targets->kept);
}

/* --- from matches to targets ----------------------------------------------------------------- */

static size_t hash_place(const struct object *lib, uint64_t addr)
{
	uint64_t h = (uintptr_t)lib * 0x9e3779b97f4a7c15ull ^ addr;

	h *= 0xff51afd7ed558ccdull;
	return h ^ h >> 32;
}

static void table_grow(struct resolver *r)
{
	size_t size = r->table_size ? r->table_size * 2 : 256;
	uint32_t *table = xcalloc(size, sizeof(*table));

	for (size_t i = r->first; i < r->res->cnt; i++) {
		const struct target *t = &r->res->target[i];
		size_t at = hash_place(t->object, t->addr);

		while (table[at & (size - 1)])
			at++;
		table[at & (size - 1)] = i + 1;
	}
	free(r->table);
	r->table = table;
	r->table_size = size;
}

/*
 * Returns the slot of the target at that address, 0 if it has none: of the function, or with @place
 * of the places with that name, as several lines can share an address.
 */
static uint32_t *table_slot(struct resolver *r, const struct object *lib, uint64_t addr,
	const char *place)
{
	size_t at = hash_place(lib, addr), mask = r->table_size - 1;

	for (;; at++) {
		uint32_t *slot = &r->table[at & mask];
		const struct target *t;

		if (!*slot)
			return slot;
		t = &r->res->target[*slot - 1];
		if (t->object == lib && t->addr == addr &&
			(place ? t->places && !strcmp(t->name, place) : !t->places))
			return slot;
	}
}

/* True if matches that cannot be probed are skipped. */
static bool is_lenient(const struct arg *a)
{
	return a->req->optional || a->regex || a->patterned || a->lines;
}

/* A second request for the same function: if it is by name, the function is no longer optional. */
static void fold(struct arg *a, struct target *t)
{
	if (!is_lenient(a))
		t->from_pattern = false;
	if (t->refused)
		a->refused++;
	else
		a->hits++;
}

static void target_add(struct resolver *r, const struct target *new)
{
	targets_add(r->res, new);
	if (2 * (r->res->cnt - r->first) > r->table_size)
		table_grow(r);
	else
		*table_slot(r, new->object, new->addr, new->places ? new->name : NULL) = r->res->cnt;
}

/* Returns the reason why a function cannot be probed, by its symbol; NULL if it can. */
static const char *refusal(const struct arg *a, const struct match *m)
{
	if (elf_file_is_writable(m->lib->elf, m->addr))
		return "it is mapped writable, and the kernel refuses probes there";
	if (!m->func)
		return m->framed ? "a cold part of a function or a PLT, not a function" : NULL;
	if (m->func->kind == ELF_IFUNC)
		return "an IFUNC: which implementation runs is decided by each process";
	if (!m->func->in_code)
		return "not in an executable segment of the file";
	if (m->name && m->name->piece && strstr(m->name->name, ".cold"))
		return "a cold part of a function, not a function";
	if (a->has_plus && *a->name && m->func->size && a->plus >= m->func->size)
		return "the offset is beyond the function's end";
	return NULL;
}

/* Returns the text of a mangled name; NULL for any other name. */
static const char *demangled_text(
	struct resolver *r, const char *symbol, enum demangle_form form)
{
	_cleanup_free_ char *text = demangle_is_mangled(symbol) ? demangle(symbol, form) : NULL;

	return text ? targets_text(r->res, text) : NULL;
}

/*
 * Sets the default name to print: as typed, or as in the symbol table; functions that a pattern
 * matches have demangled names.
 */
static void set_names(struct resolver *r, const struct arg *a, const struct match *m,
	struct target *t)
{
	const char *given = a->req->name, *base = m->name ? m->name->base : NULL;
	char buf[1024];

	if (m->name) {
		t->symbol = m->name->name;
		t->demangled = demangled_text(r, t->symbol, DEMANGLE_ARGS);
		if (!given && !m->shown && is_lenient(a))
			given = demangled_text(r, base ? base : t->symbol, DEMANGLE_NAME);
	}
	if (given) {
		snprintf(buf, sizeof(buf), "%s%s", given,
			base ? m->name->name + strlen(base) : "");
		t->name = targets_text(r->res, buf);
	} else if (m->shown) {
		t->name = targets_text(r->res, m->shown);
	} else if (m->name) {
		t->name = m->name->name;
	} else {
		snprintf(buf, sizeof(buf), "+0x%" PRIx64, t->offset);
		t->name = targets_text(r->res, buf);
	}
}

int match_add(struct resolver *r, struct arg *a, const struct match *m)
{
	struct target t = {
		.request = a->req,
		.object = m->lib,
		.func = m->func,
		.addr = m->addr,
		.from_pattern = is_lenient(a),
		.known = a->req->known,
		.around = m->around,
		.refused = refusal(a, m),
	};
	uint32_t *slot;

	if (t.refused && !t.from_pattern) {
		a->why = t.refused;
		a->why_lib = m->lib;
		return 0;
	}
	t.inside = m->func && !m->places ? t.addr != m->func->addr : m->inside;
	if (elf_file_addr_to_offset(m->lib->elf, t.addr, &t.offset) && !t.refused)
		return err_set(r->err, -EINVAL,
			"'%s' is not in an executable segment of %s", a->req->func,
			m->lib->path);
	t.site_offset = t.offset;
	if (!r->table_size)
		table_grow(r);
	slot = table_slot(r, m->lib, t.addr, m->places ? m->shown : NULL);
	if (*slot) {
		fold(a, &r->res->target[*slot - 1]);
		return 0;
	}
	t.is_clone = m->name && m->name->base;
	if (m->places) {
		size_t size = m->place_cnt * sizeof(*m->places);

		t.places = memcpy(targets_keep(r->res, size), m->places, size);
		t.place_cnt = m->place_cnt;
		t.places_split = m->places_split;
	}
	t.note = m->note ? targets_text(r->res, m->note) : NULL;
	set_names(r, a, m, &t);
	target_add(r, &t);
	if (t.refused)
		a->refused++;
	else
		a->hits++;
	return 0;
}

static void resolver_done(struct resolver *r)
{
	for (size_t i = 0; i < r->arg_cnt; i++)
		arg_done(&r->args[i]);
	free(r->args);
	free(r->table);
}

/*
 * Ranks the functions of an exact name: the default version first, then other versions, then local
 * ones.
 */
static unsigned int rank_of(const struct elf_func *fn, const struct elf_name *n)
{
	unsigned int label = fn->kind == ELF_LABEL ? 4 : 0;

	if (n->table == ELF_TABLE_DYNSYM)
		return label + (n->is_default ? 0 : 1);
	return label + (n->is_local ? 3 : 2);
}

/* Returns the name to print if the request has none. */
static const char *shown_name(
	const struct arg *a, const struct elf_name *n, char *buf, size_t size)
{
	int len = 0;

	if (a->has_plus)
		len = snprintf(buf, size, "%s+0x%" PRIx64, n->name, a->plus);
	else if (n->version && (a->version || !n->is_default))
		len = snprintf(buf, size, "%s@%s", n->name, n->version);
	return len > 0 && (size_t)len < size ? buf : NULL;
}

static int add_name(struct resolver *r, struct arg *a, const struct object *lib,
	const struct elf_func *fn, const struct elf_name *n)
{
	char buf[1024];
	struct match m = {
		.lib = lib,
		.func = fn,
		.name = n,
		.addr = fn->addr + (a->has_plus ? a->plus : 0),
		.shown = shown_name(a, n, buf, sizeof(buf)),
	};

	return match_add(r, a, &m);
}

/* A request for a function includes its clones, unless it has a version or an offset. */
static int find_clones(struct resolver *r, struct arg *a, const struct object *lib,
	const struct elf_func *funcs, size_t cnt)
{
	int ret = 0;

	if (a->version || a->has_at || a->has_plus || !elf_file_has_clones(lib->elf))
		return 0;
	for (size_t i = 0; !ret && i < cnt; i++)
		for (uint32_t k = 0; !ret && k < funcs[i].name_cnt; k++) {
			const struct elf_name *n = &funcs[i].names[k];

			if (n->base && !strcmp(n->base, a->name))
				ret = add_name(r, a, lib, &funcs[i], n);
		}
	return ret;
}

/* Finds an exact name in one library. */
static int find_exact(struct resolver *r, struct arg *a, const struct object *lib,
	const struct elf_func *funcs, size_t cnt)
{
	const struct elf_name *first, *n;
	unsigned int best = ~0u, rank;
	int ret;

	first = elf_file_lookup(lib->elf, a->name, strlen(a->name));
	for (n = first; n; n = elf_name_next(lib->elf, n)) {
		rank = rank_of(&funcs[n->func], n);
		if (arg_version_fits(a, &funcs[n->func], n) && rank < best)
			best = rank;
	}
	for (n = first; n; n = elf_name_next(lib->elf, n)) {
		const struct elf_func *fn = &funcs[n->func];

		if (!arg_version_fits(a, fn, n))
			continue;
		if (rank_of(fn, n) != best && !a->version && !a->has_at)
			continue;
		ret = add_name(r, a, lib, fn, n);
		if (ret)
			return ret;
	}
	return find_clones(r, a, lib, funcs, cnt);
}

/* Returns the first of a function's names, best first, that matches the pattern; or NULL. */
static const struct elf_name *match_names(const struct arg *a, const struct elf_func *fn)
{
	for (uint32_t i = 0; i < fn->name_cnt; i++) {
		const struct elf_name *n = &fn->names[i];

		if ((n->piece && !n->base) || !arg_version_fits(a, fn, n))
			continue;
		if (pattern_match(&a->pattern, n->name) ||
			(n->base && pattern_match(&a->pattern, n->base)))
			return n;
	}
	return NULL;
}

/*
 * The compiler and the C library's start files add these functions to every file: patterns skip
 * them.
 */
static bool is_of_start_files(const char *name)
{
	static const char *const names[] = { "_init", "_fini", "_start", "frame_dummy",
		"register_tm_clones", "deregister_tm_clones", "call_weak_fn",
		"__do_global_ctors_aux", "__do_global_dtors_aux", "__libc_csu_init",
		"__libc_csu_fini", "_dl_relocate_static_pie" };

	return ANY_WHERE(ARRAY_SIZE(names), i, !strcmp(name, names[i])) ||
		!strncmp(name, "__x86.get_pc_thunk.", 19);
}

/*
 * The runtime and the standard library of Go, whose packages begin with these (go/src): "*" skips them.
 * The runtime's assembly has names without a package.
 */
static bool is_of_go_itself(struct elf_file *elf, const struct elf_func *func)
{
	static const char *const packages[] = { "archive", "bufio", "bytes", "cmp", "compress", "container",
		"context", "crypto", "database", "debug", "embed", "encoding", "errors", "expvar", "flag",
		"fmt", "go", "hash", "html", "image", "index", "internal", "io", "iter", "log", "maps", "math",
		"mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "slices", "sort",
		"strconv", "strings", "structs", "sync", "syscall", "testing", "text", "time", "type", "unicode",
		"unique", "unsafe", "vendor", "weak" };
	const char *name = func->names[0].name;
	size_t len = strcspn(name, "./:");

	if (!name[len])
		return elf_file_go(elf, func->addr) != ELF_GO_NOT;
	/* "go.uber.org/zap.New" is of a domain, "type..eq.a/b" is not. */
	if (name[len] == '.' && name[len + 1] != '.' && name[strcspn(name, "/[(")] == '/')
		return false;
	return ANY_WHERE(ARRAY_SIZE(packages), i,
		strlen(packages[i]) == len && !strncmp(name, packages[i], len));
}

static int find_pattern(struct resolver *r, struct arg *a, const struct object *lib,
	const struct elf_func *funcs, size_t cnt)
{
	const bool own = !strcmp(a->name, "*") && elf_file_info(lib->elf)->go;

	for (size_t i = 0; i < cnt; i++) {
		const char *name = funcs[i].names[0].name;
		const struct elf_name *n;
		int ret;

		if (funcs[i].kind == ELF_LABEL || is_of_start_files(name) ||
			(own && is_of_go_itself(lib->elf, &funcs[i])))
			continue;
		n = match_names(a, &funcs[i]);
		ret = n ? add_name(r, a, lib, &funcs[i], n) : 0;
		if (ret)
			return ret;
	}
	return 0;
}

#define NO_START UINT64_MAX

/*
 * Finds the start of the frame around @addr, which is as reliable as a symbol; or NO_START. Sets
 * @m->framed to that of the frame.
 */
static int frame_start(struct match *m, uint64_t addr, uint64_t *ret_start, struct err *err)
{
	const struct plan_fde *fde;
	struct plan_image image;
	int ret;

	ret = elf_file_image(m->lib->elf, &image, err);
	if (ret)
		return ret;
	fde = image_fde(&image, addr);
	*ret_start = fde ? fde->start : NO_START;
	m->framed = fde && fde->framed;
	return 0;
}

static int check_one_file(struct resolver *r, const struct arg *a, const char *what)
{
	if (a->libs->cnt <= 1)
		return 0;
	return err_set(r->err, -EINVAL, "'%s' is %s in one file, but %zu libraries are meant",
		a->req->func, what, a->libs->cnt);
}

/* "+0xOFF": an offset in the file. */
static int find_offset(struct resolver *r, struct arg *a, const struct object *lib)
{
	struct match m = { .lib = lib };
	uint64_t start;
	char buf[1024];
	int ret;

	ret = check_one_file(r, a, "an offset");
	if (ret)
		return ret;
	if (elf_file_offset_to_addr(lib->elf, a->plus, &m.addr))
		return err_set(r->err, -EINVAL,
			"file offset 0x%" PRIx64 " is not in an executable segment of %s",
			a->plus, lib->path);
	m.func = elf_file_func_at(lib->elf, m.addr);
	if (m.func) {
		m.name = &m.func->names[0];
		snprintf(buf, sizeof(buf), "%s+0x%" PRIx64, m.name->name,
			m.addr - m.func->addr);
		if (m.addr != m.func->addr && strlen(buf) + 1 < sizeof(buf))
			m.shown = buf;
		return match_add(r, a, &m);
	}
	ret = frame_start(&m, m.addr, &start, r->err);
	if (ret)
		return ret;
	m.inside = m.addr != start;
	m.framed &= !m.inside;
	return match_add(r, a, &m);
}

char *resolve_start_name(const struct elf_func *func, uint64_t start)
{
	const struct elf_name *name = func && func->addr == start ? &func->names[0] : NULL;
	char *text = name && !name->piece ? demangle(name->name, DEMANGLE_NAME) : NULL;

	if (text)
		return text;
	return name ? xstrdup(name->name) : xasprintf("sub_%" PRIx64, start);
}

/* "0xADDR", "sub_ADDR": the function that starts at an address, by its symbol or its frame. */
static int find_address(struct resolver *r, struct arg *a)
{
	struct match m = { .lib = a->libs->object[0], .addr = a->addr + a->plus };
	_cleanup_free_ char *name = NULL, *shown = NULL;
	uint64_t start, offset;
	bool in_code = !elf_file_addr_to_offset(m.lib->elf, a->addr, &offset);
	int ret;

	/* "sub_add" can also be a name, which is not there */
	if (a->name[0] != '0' && (!in_code || a->libs->cnt > 1))
		return 0;
	ret = check_one_file(r, a, "an address");
	if (ret)
		return ret;
	if (!in_code)
		return a->req->optional ? 0 : resolve_fail_address(r, a);
	ret = frame_start(&m, a->addr, &start, r->err);
	if (ret)
		return ret;
	m.func = elf_file_func_at(m.lib->elf, a->addr);
	if (m.func && (start == NO_START || m.func->addr >= start)) {
		m.framed &= m.func->addr == start;
		start = m.func->addr;
	} else {
		m.func = NULL;
	}
	name = resolve_start_name(m.func, start == NO_START ? a->addr : start);
	if (start != a->addr && start != NO_START)
		return a->req->optional
			? 0
			: resolve_fail_inside(r, a, m.framed ? NULL : name, a->addr - start);
	if (a->has_plus)
		shown = xasprintf("%s+0x%" PRIx64, name, a->plus);
	m.name = m.func ? &m.func->names[0] : NULL;
	m.inside = a->plus || start == NO_START;
	m.shown = shown ? shown : name;
	return match_add(r, a, &m);
}

/* Adds the functions of @lib that have a frame and no name, if @a matches "sub_ADDR". */
static int find_unnamed_in(struct resolver *r, struct arg *a, const struct object *lib)
{
	struct plan_image image;
	int ret = elf_file_image(lib->elf, &image, r->err);

	for (size_t i = 0; !ret && i < image.fde_cnt; i++) {
		const struct plan_fde *fde = &image.fdes[i];
		struct match m = { .lib = lib, .addr = fde->start };
		_cleanup_free_ char *name = resolve_start_name(NULL, fde->start), *note = NULL;

		if (fde->framed || fde->start == image.entry || image_is_stub(&image, fde->start) ||
			elf_file_func_at(lib->elf, fde->start) || !pattern_match(&a->pattern, name))
			continue;
		m.shown = name;
		if (!a->hits)
			m.note = note = xasprintf("%s is stripped: its functions are named by their "
				"addresses, such as '%s'", lib->path, name);
		ret = match_add(r, a, &m);
	}
	return ret;
}

/* A pattern without a match in the names of stripped files. */
static int find_unnamed(struct resolver *r, struct arg *a)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < a->libs->cnt; i++)
		if (elf_file_is_stripped(a->libs->object[i]->elf))
			ret = find_unnamed_in(r, a, a->libs->object[i]);
	return ret;
}

static int add_line(struct resolver *r, struct arg *a, const struct object *lib,
	const struct elf_line_code *code)
{
	_cleanup_free_ char *shown = xasprintf("%s:%u", a->name, code->line), *note = NULL;
	struct match m = { .lib = lib, .addr = code->addrs[0], .inside = true, .shown = shown,
		.places = code->addrs, .place_cnt = code->cnt };
	struct elf_line lines[ELF_LINES_MAX];

	m.func = elf_file_func_at(lib->elf, m.addr);
	m.around = elf_lines_at(lib->elf, m.addr, lines) ? lines[0].function : NULL;
	if (!m.around && m.func)
		m.around = m.func->names[0].name;
	if (a->line && code->line != a->line)
		m.note = note = xasprintf("line %u of %s has no code: '%s' is the next that has",
			a->line, a->name, shown);
	return match_add(r, a, &m);
}

/* "SOURCE:*": each line that has code. */
static int add_lines(struct resolver *r, struct arg *a, const struct object *lib)
{
	struct elf_line_code *lines;
	size_t cnt = elf_lines_find(lib->elf, a->name, &lines);
	char number[16];
	int ret = 0;

	for (size_t i = 0; i < cnt; i++) {
		snprintf(number, sizeof(number), "%u", lines[i].line);
		if (!ret && pattern_glob(a->lines, number))
			ret = add_line(r, a, lib, &lines[i]);
		free(lines[i].addrs);
	}
	free(lines);
	return ret;
}

/* "SOURCE:LINE", in each library whose debug information has the file. */
static int find_line(struct resolver *r, struct arg *a)
{
	const char *why = NULL;
	bool has_file = false;
	int ret = 0;

	for (size_t i = 0; !ret && i < a->libs->cnt; i++) {
		const struct object *lib = a->libs->object[i];
		const struct elf_func *funcs;
		struct elf_line_code code;
		size_t cnt;

		/* Names the functions around lines, if there are symbols. */
		(void)!elf_file_funcs(lib->elf, &funcs, &cnt, NULL);
		if (a->lines)
			ret = add_lines(r, a, lib);
		if (a->lines && a->hits)
			continue;
		elf_line_find(lib->elf, a->name, a->lines ? INT_MAX : a->line, &code);
		if (a->lines && code.line)
			code.why = "no line that matches has code";
		if (code.cnt)
			ret = add_line(r, a, lib, &code);
		else if (!why || code.line)
			why = code.why;
		has_file |= code.line;
		free(code.addrs);
	}
	if (ret || !arg_is_missing(a))
		return ret;
	return resolve_fail_line(r, a, has_file, why);
}

static int find_in_lib(struct resolver *r, struct arg *a, const struct object *lib)
{
	const struct elf_func *funcs;
	size_t cnt;
	int ret;

	ret = elf_file_funcs(lib->elf, &funcs, &cnt, r->err);
	if (ret)
		return ret;
	if (a->has_plus && !*a->name)
		return find_offset(r, a, lib);
	if (a->regex || a->patterned)
		return find_pattern(r, a, lib, funcs, cnt);
	return find_exact(r, a, lib, funcs, cnt);
}

/* Completes "(*Store).Save" of Go by its package, if only one has it. */
static bool complete_go(struct arg *a, bool by_type)
{
	const char *whole = NULL;

	for (size_t i = 0; i < a->libs->cnt; i++) {
		struct elf_file *elf = a->libs->object[i]->elf;
		const struct elf_func *funcs;
		size_t cnt;

		if (!elf_file_info(elf)->go || elf_file_funcs(elf, &funcs, &cnt, NULL))
			continue;
		for (size_t k = 0; k < cnt; k++) {
			const char *name = funcs[k].names[0].name;

			if (!text_is_go(name, a->name, by_type))
				continue;
			if (whole && strcmp(whole, name) != 0)
				return false;
			whole = name;
		}
	}
	if (whole)
		a->name = a->whole = xstrdup(whole);
	return whole;
}

static int find_symbols(struct resolver *r, struct arg *a)
{
	const struct object *importer;
	const char *import;
	int ret;

	if (a->line || a->lines)
		return find_line(r, a);
	for (size_t i = 0; i < a->libs->cnt; i++) {
		ret = find_in_lib(r, a, a->libs->object[i]);
		if (ret)
			return ret;
	}
	if (a->has_addr && arg_is_open(a))
		return find_address(r, a);
	if (!arg_is_open(a))
		return 0;
	if (a->regex || a->patterned)
		return find_unnamed(r, a);
	if (!a->whole && !a->req->optional && !resolve_imports(a, &importer, &import) &&
		(complete_go(a, false) || complete_go(a, true)))
		return find_symbols(r, a);
	if (!a->glob)
		return 0;
	a->patterned = true; /* no exact match */
	/* a qualified name cannot match a mangled symbol */
	return a->qualified ? 0 : find_symbols(r, a);
}

static int find_libs(struct resolver *r, struct arg *a, const struct objects *objects)
{
	int ret;

	a->libs = a->req->objects ? a->req->objects : objects;
	if (a->lib) {
		if (!r->finder)
			return err_set(r->err, -EINVAL,
				"'%s': a library is not looked up here", a->req->func);
		ret = libfind_get(r->finder, a->lib, &a->own_libs, r->err);
		if (ret)
			return ret;
		a->libs = &a->own_libs;
	}
	if (a->libs->cnt)
		return 0;
	err_set(r->err, -EINVAL, "no library is given for '%s'", a->req->func);
	if (!resolve_hint_file(r, a))
		err_hint(r->err,
			"name it with --lib LIB, or in a configuration with the key \"lib\" or \"libs\"");
	return -EINVAL;
}

/* Finds the requests without a match, and decides whether that is an error. */
static int judge(struct resolver *r)
{
	const struct arg *missing = NULL;
	size_t missing_cnt = 0;

	for (size_t i = 0; i < r->arg_cnt; i++) {
		const struct arg *a = &r->args[i];

		if (a->hits)
			continue;
		if (a->req->optional) {
			if (!a->refused)
				targets_miss(r->res, a->req);
			continue;
		}
		if (a->why)
			return resolve_fail_refused(r, a);
		if (!arg_is_missing(a))
			continue; /* refused: the caller reports the reasons */
		if (!missing)
			missing = a;
		missing_cnt++;
	}
	return missing ? resolve_fail_missing(r, missing, missing_cnt - 1) : 0;
}

DEFINE_ORDER(by_place, struct target,
	RISING(request) ?: strcmp(x->object->path, y->object->path) ?: RISING(addr))

DEFINE_POINTER_ORDER(by_shown, struct target, RISING(object) ?: strcmp(x->name, y->name))

static bool shown_alike(struct target *const *t, size_t i, size_t cnt)
{
	return (i && !by_shown(&t[i - 1], &t[i])) ||
		(i + 1 < cnt && !by_shown(&t[i], &t[i + 1]));
}

/* Increasingly long names to print. The last form is unique in its file. */
enum shown_form { SHOWN_TEMPLATE, SHOWN_ARGS, SHOWN_OFFSET };

/* *ret_name is NULL if that form is not available. */
static const char *shown_form(struct resolver *r, const struct target *t, enum shown_form form)
{
	_cleanup_free_ char *text = NULL;

	if (t->is_clone && form != SHOWN_OFFSET) /* these forms would hide which clone it is */
		return NULL;
	if (form == SHOWN_ARGS)
		return t->demangled;
	if (form == SHOWN_TEMPLATE)
		text = t->demangled ? demangle(t->symbol, DEMANGLE_NAME) : NULL;
	else
		text = xasprintf("%s@0x%" PRIx64, t->name, t->offset);
	return text ? targets_text(r->res, text) : NULL;
}

/*
 * Gives different names to different functions of a file: first with template arguments, then with
 * arguments, then with the file offset, in a form that FUNCTION accepts.
 */
static void tell_apart(struct resolver *r, enum shown_form form)
{
	size_t cnt = r->res->cnt - r->first;
	_cleanup_free_ struct target **t = xmalloc((cnt + 1) * sizeof(*t));
	_cleanup_free_ bool *alike = xcalloc(cnt + 1, 1);

	for (size_t i = 0; i < cnt; i++)
		t[i] = &r->res->target[r->first + i];
	qsort(t, cnt, sizeof(*t), by_shown);
	for (size_t i = 0; i < cnt; i++)
		alike[i] = shown_alike(t, i, cnt);
	for (size_t i = 0; i < cnt; i++) {
		const char *name;

		if (!alike[i])
			continue;
		name = shown_form(r, t[i], form);
		if (name)
			t[i]->name = name;
	}
}

static int resolve_all(struct resolver *r, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt)
{
	int ret;

	for (size_t i = 0; i < req_cnt; i++) {
		ret = arg_parse(reqs[i], &r->args[i], r->err);
		if (ret)
			return ret;
		r->arg_cnt++;
		ret = find_libs(r, &r->args[i], objects);
		if (!ret)
			ret = find_symbols(r, &r->args[i]);
		if (ret)
			return ret;
	}
	ret = resolve_demangled(r);
	if (!ret)
		ret = resolve_inlined(r);
	if (!ret)
		ret = judge(r);
	if (ret)
		return ret;
	if (r->res->cnt > r->first)
		qsort(r->res->target + r->first, r->res->cnt - r->first,
			sizeof(*r->res->target), by_place);
	tell_apart(r, SHOWN_TEMPLATE);
	tell_apart(r, SHOWN_ARGS);
	tell_apart(r, SHOWN_OFFSET);
	return 0;
}

int resolve_functions(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	__cleanup(resolver_done) struct resolver r = {
		.finder = finder,
		.res = targets,
		.first = targets->cnt,
		.args = xcalloc(req_cnt + 1, sizeof(*r.args)),
		.err = err,
	};
	int ret;

	ret = resolve_all(&r, objects, reqs, req_cnt);
	if (ret)
		targets_cut(targets, r.first);
	return ret;
}
