// SPDX-License-Identifier: BSD-2-Clause
// The resolver: copies of functions that the compiler has inlined, by debug information.
#include <string.h>

#include "elf/dwarf.h"
#include "internal.h"

#define INTO_SHOWN 3
#define NAMES_READ 4 /* reading debug information for each of more takes long */

struct meant {
	const char *name, *wanted; /* as typed, and normalized */
	enum demangle_form form;
};

static bool text_is(const struct meant *m, const char *text)
{
	size_t len = strlen(text), end = strlen(m->wanted);

	if (len == end)
		return !strcmp(text, m->wanted);
	return len >= end + 2 && !strcmp(text + len - end, m->wanted) &&
		!memcmp(text + len - end - 2, "::", 2);
}

/* True if the user means a function with that name in the debug information. */
static bool is_meant(void *arg, const char *name)
{
	const struct meant *m = arg;
	_cleanup_free_ char *text = NULL;

	if (!strcmp(name, m->name))
		return true;
	text = demangle(name, m->form);
	if (!text)
		text = xstrdup(name);
	text_normalize(text, text);
	if (m->form == DEMANGLE_ARGS)
		text_drop_qualifiers(text);
	return text_is(m, text) || (text_drop_templates(text, text) && text_is(m, text));
}

static bool is_symbol(void *symbol, const char *name)
{
	return !strcmp(symbol, name);
}

/* "main, run and walk", "main, run, walk and 2 more" */
static void list_into(const struct object *lib, const struct elf_inlined *inlined, char *buf,
	size_t size)
{
	size_t cnt = inlined->into_cnt, shown = cnt < INTO_SHOWN ? cnt : INTO_SHOWN, at = 0;

	for (size_t i = 0; i < shown && at < size; i++) {
		uint64_t start = inlined->into[i];
		_cleanup_free_ char *name =
			resolve_start_name(elf_file_func_at(lib->elf, start), start);

		at += snprintf(buf + at, size - at, "%s%s",
			!i ? "" : i + 1 == cnt ? " and " : ", ", name);
	}
	if (shown < cnt && at < size)
		snprintf(buf + at, size - at, " and %zu more", cnt - shown);
}

/* Adds the copies of the function @name in @lib as one target. */
static int add_copies(struct resolver *r, struct arg *a, const struct object *lib,
	const char *name, const struct elf_inlined *inlined)
{
	_cleanup_free_ char *shown = xasprintf("%s (inlined)", name), *note = NULL;
	struct match m = { .lib = lib, .inside = true, .shown = shown,
		.places = inlined->copies, .place_cnt = inlined->copy_cnt,
		.places_split = inlined->split_cnt };
	char into[512], low[64] = "";

	a->copies_gone |= inlined->copies_gone;
	if (!inlined->copy_cnt)
		return 0;
	list_into(lib, inlined, into, sizeof(into));
	if (inlined->split_cnt)
		snprintf(low, sizeof(low), "; %zu in pieces may have run more often",
			inlined->split_cnt);
	m.note = note = xasprintf("'%s' was inlined into %s: %zu site%s counted, without times%s",
		name, into, m.place_cnt, m.place_cnt == 1 ? " is" : "s are", low);
	m.addr = m.places[0];
	m.func = elf_file_func_at(lib->elf, m.addr);
	return match_add(r, a, &m);
}

/* Adds the copies of a function without code of its own. */
static int find_missing(struct resolver *r, struct arg *a)
{
	_cleanup_free_ char *wanted = xstrdup(a->name);
	struct meant m = { a->name, wanted,
		text_has_args(a->name) ? DEMANGLE_ARGS : DEMANGLE_NAME };
	const struct object *importer;
	const char *import;
	int ret = 0;

	if (resolve_imports(a, &importer, &import))
		return 0;
	text_normalize(wanted, wanted);
	for (size_t i = 0; !ret && i < a->libs->cnt; i++) {
		__cleanup(elf_inlined_done) struct elf_inlined inlined;

		elf_inlined_find(a->libs->object[i]->elf, a->name, is_meant, &m, &inlined);
		ret = add_copies(r, a, a->libs->object[i], a->name, &inlined);
	}
	return ret;
}

/* Adds the other copies of the functions that were found for @a. */
static int find_others(struct resolver *r, struct arg *a)
{
	size_t end = r->res->cnt;
	int ret = 0;

	for (size_t i = r->first; !ret && i < end; i++) {
		const struct target *t = &r->res->target[i];
		__cleanup(elf_inlined_done) struct elf_inlined inlined = {};

		if (t->request != a->req || !t->symbol || t->inside || t->from_pattern ||
			!elf_inlined_is_quick(t->object->elf))
			continue;
		elf_inlined_find(t->object->elf, t->symbol, is_symbol,
			(void *)(uintptr_t)t->symbol, &inlined);
		ret = add_copies(r, a, t->object, t->name, &inlined);
	}
	return ret;
}

int resolve_inlined(struct resolver *r)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < r->arg_cnt; i++) {
		struct arg *a = &r->args[i];

		if (a->req->literal || a->req->optional || a->regex || a->patterned || a->has_plus ||
			a->has_at || a->version || a->line)
			continue;
		if (arg_is_open(a))
			ret = find_missing(r, a);
		else if (r->arg_cnt <= NAMES_READ)
			ret = find_others(r, a);
	}
	return ret;
}
