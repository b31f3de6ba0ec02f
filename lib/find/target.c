// SPDX-License-Identifier: BSD-2-Clause
// Objects and targets: one for each function, whatever number of names it was asked for by.
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "elf/elf_file.h"
#include "internal.h"

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

bool object_is_stale(const char *path, const struct object_id *id)
{
	struct object_id now;
	struct stat st;

	/* A path of another mount namespace can't be looked at from here. */
	if (strstr(path, " (pid "))
		return false;
	if (stat(path, &st))
		return errno == ENOENT || errno == ENOTDIR;
	id_of(&st, &now);
	return memcmp(&now, id, sizeof(now)) != 0;
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
	objects->object = array_grow(objects->object, objects->cnt, sizeof(*objects->object));
	objects->object[objects->cnt++] = object;
}

void objects_done(struct objects *objects)
{
	free(objects->object);
}

/* --- targets -------------------------------------------------------------------------------- */

void targets_add(struct targets *targets, const struct target *target)
{
	targets->target = array_grow(targets->target, targets->cnt, sizeof(*targets->target));
	targets->target[targets->cnt++] = *target;
}

void targets_miss(struct targets *targets, const struct request *request)
{
	targets->missing =
		array_grow(targets->missing, targets->missing_cnt, sizeof(*targets->missing));
	targets->missing[targets->missing_cnt++] = request;
}

void *targets_keep(struct targets *targets, size_t size)
{
	targets->kept = array_grow(targets->kept, targets->kept_cnt, sizeof(*targets->kept));
	return targets->kept[targets->kept_cnt++] = xcalloc(1, size);
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

/* --- what the resolver makes of matches ----------------------------------------------------- */

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

/* The slot of the target at that place; it holds 0 when there is none yet. */
static uint32_t *table_slot(struct resolver *r, const struct object *lib, uint64_t addr)
{
	size_t at = hash_place(lib, addr), mask = r->table_size - 1;

	for (;; at++) {
		uint32_t *slot = &r->table[at & mask];
		const struct target *t;

		if (!*slot)
			return slot;
		t = &r->res->target[*slot - 1];
		if (t->object == lib && t->addr == addr)
			return slot;
	}
}

/* Asked for again: by its name it must be there, whatever a pattern said before. */
static void fold(struct arg *a, struct target *t)
{
	if (!arg_is_lenient(a))
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
		*table_slot(r, new->object, new->addr) = r->res->cnt;
}

/* Why a function can't be probed, by its symbol; NULL when it can. */
static const char *refusal(const struct arg *a, const struct match *m)
{
	if (elf_file_is_writable(m->lib->elf, m->addr))
		return "it is mapped writable, and the kernel refuses probes there";
	if (!m->func)
		return NULL;
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

/* Reads the name that is shown by default: as it was asked for, or as the symbol says. */
static void set_names(struct resolver *r, const struct arg *a, const struct match *m,
	struct target *t)
{
	char buf[1024];

	if (m->name) {
		t->symbol = m->name->name;
		if (demangle_is_mangled(t->symbol)) {
			char *d = demangle(t->symbol, DEMANGLE_ARGS);

			t->demangled = d ? targets_text(r->res, d) : NULL;
			free(d);
		}
	}
	if (a->req->name && m->name && m->name->base) {
		snprintf(buf, sizeof(buf), "%s%s", a->req->name,
			m->name->name + strlen(m->name->base));
		t->name = targets_text(r->res, buf);
	} else if (a->req->name) {
		t->name = targets_text(r->res, a->req->name);
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
		.from_pattern = arg_is_lenient(a),
		.known = a->req->known,
		.refused = refusal(a, m),
	};
	uint32_t *slot;

	if (t.refused && !t.from_pattern) {
		a->why = t.refused;
		a->why_lib = m->lib;
		a->why_name = m->name;
		return 0;
	}
	t.inside = m->func ? t.addr != m->func->addr : m->inside;
	if (elf_file_addr_to_offset(m->lib->elf, t.addr, &t.offset) && !t.refused)
		return err_set(r->err, -EINVAL,
			"'%s' is not in an executable segment of %s", a->req->func,
			m->lib->path);
	t.site_offset = t.offset;
	if (!r->table_size)
		table_grow(r);
	slot = table_slot(r, m->lib, t.addr);
	if (*slot) {
		fold(a, &r->res->target[*slot - 1]);
		return 0;
	}
	t.is_clone = m->name && m->name->base;
	set_names(r, a, m, &t);
	target_add(r, &t);
	if (t.refused)
		a->refused++;
	else
		a->hits++;
	return 0;
}
