// SPDX-License-Identifier: BSD-2-Clause
// Errors of the resolver, and the names that were perhaps meant.
#include <errno.h>
#include <string.h>

#include "demangle.h"
#include "resolve_priv.h"

/* Demangled names that may be shown, until the hint is written. */
#define SHOWN_MAX 4096

struct near {
	struct suggest s;
	char **strings;
	size_t cnt;
};

static void near_done(struct near *n)
{
	for (size_t i = 0; i < n->cnt; i++)
		free(n->strings[i]);
	free(n->strings);
}

static const char *last_part(const char *name)
{
	const char *p = name, *next;

	while ((next = strstr(p, "::")))
		p = next + 2;
	return p;
}

/* A demangled name, for something demangled or for the last part of one. */
static void offer_demangled(
	struct near *n, const struct elf_name *name, bool qualified, const char *where)
{
	char **grown, *text;

	if (n->cnt >= SHOWN_MAX)
		return;
	text = demangle(name->name, DEMANGLE_NAME);
	grown = text ? array_grow(n->strings, n->cnt, sizeof(*grown)) : NULL;
	if (!grown) {
		free(text);
		return;
	}
	n->strings = grown;
	n->strings[n->cnt++] = text;
	if (qualified || strcmp(last_part(text), n->s.wanted) == 0)
		suggest_offer(&n->s, text, where);
}

/* The identifier that a near name most likely shares: of "a::b::c" rather b than c. */
static struct ident shared_ident(const char *wanted)
{
	const char *last = last_part(wanted);
	char scope[256];
	struct ident id = { 0 };

	if (last == wanted || (size_t)(last - wanted) >= sizeof(scope))
		return text_ident(wanted, false, false);
	memcpy(scope, wanted, last - wanted);
	scope[last - wanted] = '\0';
	id = text_ident(scope, false, false);
	if (id.len)
		id.p = wanted + (id.p - scope);
	return id;
}

static void offer_lib(struct near *n, const struct arg *a, const struct lib_file *lib,
	const char *where)
{
	struct ident id = shared_ident(a->name);
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(lib->elf, &funcs, &cnt, NULL))
		return;
	for (size_t i = 0; i < cnt; i++) {
		for (uint32_t k = 0; k < funcs[i].name_cnt; k++) {
			const struct elf_name *name = &funcs[i].names[k];
			bool mangled = demangle_is_mangled(name->name);

			if (name->piece && !strchr(a->name, '.') &&
				strncmp(name->name, a->name, strlen(a->name)) != 0)
				continue;

			if (!a->qualified && mangled == demangle_is_mangled(a->name))
				suggest_offer(&n->s, name->name, where);
			if (mangled && id.len >= 3 &&
				memmem(name->name, name->len, id.p, id.len))
				offer_demangled(n, name, a->qualified, where);
		}
	}
}

static const struct lib_file *importer(const struct arg *a)
{
	for (size_t i = 0; i < a->lib_cnt; i++) {
		if (elf_file_imports(a->libs[i]->elf, a->name, strlen(a->name)))
			return a->libs[i];
	}
	return NULL;
}

/* "x", or "x (and 3 more names)", and where it was looked for. */
static int set_missing(struct resolver *r, const struct arg *a, size_t more)
{
	const char *kind = a->regex || a->patterned ? "function matches" : "function";
	char others[64] = "", where[256] = "";

	if (more)
		snprintf(others, sizeof(others), " (and %zu more name%s)", more,
			more == 1 ? "" : "s");
	if (a->lib_cnt > 1)
		snprintf(where, sizeof(where), " and %zu more", a->lib_cnt - 1);
	return err_set(r->err, -ENOENT, "no %s '%s'%s in %s%s", kind, a->req->func,
		others, a->libs[0]->path, where);
}

/* Whether any of the libraries has a function by name. */
static bool has_names(const struct arg *a)
{
	const struct elf_func *funcs;
	size_t cnt;

	for (size_t i = 0; i < a->lib_cnt; i++) {
		if (elf_file_funcs(a->libs[i]->elf, &funcs, &cnt, NULL) || cnt)
			return true;
	}
	return false;
}

int resolve_fail_missing(struct resolver *r, const struct arg *a, size_t more)
{
	__cleanup(near_done) struct near n = { 0 };
	const struct lib_file *imports = importer(a);
	char text[ERR_HINT_LEN];

	if (imports) {
		err_set(r->err, -ENOENT,
			"'%s' is only imported by %s: another library "
			"defines it",
			a->name, imports->path);
		err_hint(r->err, "name that library with --lib, or as LIB:%s", a->name);
		return -ENOENT;
	}
	set_missing(r, a, more);
	if (!has_names(a))
		err_hint(r->err,
			"it has no symbols: debug symbols, or +0xOFFSET in the file, "
			"would do");
	if (a->regex || a->patterned || !r->err)
		return -ENOENT;
	suggest_init(&n.s, a->name);
	for (size_t i = 0; i < a->lib_cnt; i++)
		offer_lib(&n, a, a->libs[i], a->lib_cnt > 1 ? a->libs[i]->path : NULL);
	if (suggest_text(&n.s, text, sizeof(text)))
		err_hint(r->err, "%s", text);
	return -ENOENT;
}

/* Functions that look like implementations behind an IFUNC: "__memcpy_avx_unaligned". */
static size_t list_implementations(const struct arg *a, char *buf, size_t size)
{
	const struct elf_func *funcs;
	size_t cnt, found = 0, at = 0;

	buf[0] = '\0';
	if (elf_file_funcs(a->why_lib->elf, &funcs, &cnt, NULL))
		return 0;
	for (size_t i = 0; i < cnt; i++) {
		const char *name = funcs[i].names[0].name, *p = name;
		size_t len = strlen(a->name);

		p += 2 * (strncmp(p, "__", 2) == 0);
		if (funcs[i].kind != ELF_FUNC || strncmp(p, a->name, len) != 0 ||
			(p[len] != '_' && p[len] != '.') || funcs[i].names[0].piece ||
			strncmp(p + len, "_chk", 4) == 0)
			continue;
		if (found++ < 6 && at < size)
			at += snprintf(buf + at, size - at, "%s%s", at ? ", " : "", name);
	}
	return found;
}

int resolve_fail_refused(struct resolver *r, const struct arg *a)
{
	char list[ERR_HINT_LEN / 2];
	size_t cnt;

	err_set(r->err, -EOPNOTSUPP, "function '%s' in %s can't be probed: %s",
		a->req->func, a->why_lib->path, a->why);
	if (!strstr(a->why, "IFUNC"))
		return -EOPNOTSUPP;
	cnt = list_implementations(a, list, sizeof(list));
	if (cnt)
		err_hint(r->err, "its implementations: %s%s", list,
			cnt > 6 ? ", ..." : "");
	else
		err_hint(r->err,
			"its implementations have no names here: debug symbols of "
			"the library give them");
	return -EOPNOTSUPP;
}
