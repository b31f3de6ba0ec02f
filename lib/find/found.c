// SPDX-License-Identifier: BSD-2-Clause
// Targets: one for each function, whatever number of names it was asked for by.
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "elf/demangle.h"
#include "internal.h"

static size_t hash_place(const struct object *lib, uint64_t addr)
{
	uint64_t h = (uintptr_t)lib * 0x9e3779b97f4a7c15ull ^ addr;

	h *= 0xff51afd7ed558ccdull;
	return h ^ h >> 32;
}

static int table_grow(struct resolver *r)
{
	size_t size = r->table_size ? r->table_size * 2 : 256;
	uint32_t *table = calloc(size, sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < r->res->target_cnt; i++) {
		const struct resolve_target *t = &r->res->targets[i];
		size_t at = hash_place(t->lib, t->addr);

		while (table[at & (size - 1)])
			at++;
		table[at & (size - 1)] = i + 1;
	}
	free(r->table);
	r->table = table;
	r->table_size = size;
	return 0;
}

/* The slot of the target at that place; it holds 0 when there is none yet. */
static uint32_t *table_slot(struct resolver *r, const struct object *lib, uint64_t addr)
{
	size_t at = hash_place(lib, addr), mask = r->table_size - 1;

	for (;; at++) {
		uint32_t *slot = &r->table[at & mask];
		const struct resolve_target *t;

		if (!*slot)
			return slot;
		t = &r->res->targets[*slot - 1];
		if (t->lib == lib && t->addr == addr)
			return slot;
	}
}

/* Notes that @t was also asked for as @name. */
static int add_also(struct resolver *r, struct resolve_target *t, const char *name)
{
	const char **grown;

	if (!name || strcmp(name, t->name) == 0)
		return 0;
	for (size_t i = 0; i < t->also_cnt; i++) {
		if (strcmp(t->also[i], name) == 0)
			return 0;
	}
	grown = array_grow((void *)t->also, t->also_cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	t->also = grown;
	grown[t->also_cnt] = pool_copy(r->res, name);
	if (!grown[t->also_cnt])
		return -ENOMEM;
	t->also_cnt++;
	return 0;
}

/* Asked for again: by its name it must be there, whatever a pattern said before. */
static int fold(
	struct resolver *r, struct arg *a, struct resolve_target *t, const char *shown)
{
	if (!arg_is_lenient(a))
		t->from_pattern = false;
	if (t->refused)
		a->refused++;
	else
		a->hits++;
	/* a pattern asks for functions, not for names */
	return a->regex || a->patterned ? 0 : add_also(r, t, shown);
}

static int target_add(struct resolver *r, const struct resolve_target *new)
{
	struct resolve_target *grown;

	grown = array_grow(r->res->targets, r->res->target_cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	r->res->targets = grown;
	grown[r->res->target_cnt++] = *new;
	if (2 * r->res->target_cnt > r->table_size)
		return table_grow(r);
	*table_slot(r, new->lib, new->addr) = r->res->target_cnt;
	return 0;
}

/* Why a function can't be probed, by its symbol; NULL when it can. */
static const char *refusal(const struct arg *a, const struct match *m)
{
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
static int set_names(struct resolver *r, const struct arg *a, const struct match *m,
	struct resolve_target *t)
{
	char buf[64];

	if (m->name) {
		t->symbol = m->name->name;
		t->version = m->name->version;
		if (demangle_is_mangled(t->symbol)) {
			char *d = demangle(t->symbol, DEMANGLE_ARGS);

			t->demangled = d ? pool_copy(r->res, d) : NULL;
			free(d);
			if (d && !t->demangled)
				return -ENOMEM;
		}
	}
	if (a->req->name) {
		t->name = pool_copy(r->res, a->req->name);
	} else if (m->shown) {
		t->name = pool_copy(r->res, m->shown);
	} else if (m->name) {
		t->name = m->name->name;
	} else {
		snprintf(buf, sizeof(buf), "+0x%" PRIx64, t->offset);
		t->name = pool_copy(r->res, buf);
	}
	return t->name ? 0 : -ENOMEM;
}

const char *pool_copy(struct resolution *res, const char *text)
{
	char **grown = array_grow(res->strings, res->string_cnt, sizeof(*grown));

	if (!grown)
		return NULL;
	res->strings = grown;
	grown[res->string_cnt] = strdup(text);
	return grown[res->string_cnt] ? grown[res->string_cnt++] : NULL;
}

int match_add(struct resolver *r, struct arg *a, const struct match *m)
{
	struct resolve_target t = {
		.lib = m->lib,
		.func = m->func,
		.addr = m->addr,
		.from_pattern = arg_is_lenient(a),
		.req = a->ndx,
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
	if (!r->table_size && table_grow(r))
		return resolve_no_memory(r);
	slot = table_slot(r, m->lib, t.addr);
	if (*slot) {
		const char *shown = a->req->name ? a->req->name : m->shown;

		if (!shown && m->name)
			shown = m->name->name;
		return fold(r, a, &r->res->targets[*slot - 1], shown)
			? resolve_no_memory(r)
			: 0;
	}
	if (set_names(r, a, m, &t) || target_add(r, &t))
		return resolve_no_memory(r);
	if (t.refused) {
		a->refused++;
		r->res->refused_cnt++;
	} else {
		a->hits++;
	}
	return 0;
}
