// SPDX-License-Identifier: BSD-2-Clause
// Parses FUNCTION and LIB arguments, matches them, and suggests similar names.
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/util.h"
#include "elf/elf_file.h"
#include "internal.h"
#include "proc/proc.h"

/* --- FUNCTION ------------------------------------------------------------------------------- */

/* True if @text must be a demangled name. */
static bool is_qualified(const char *text, bool regex)
{
	if (regex)
		return strstr(text, "::") || strstr(text, "\\(") || strchr(text, ' ');
	return strstr(text, "::") || strpbrk(text, "(<{ ~") ||
		strncmp(text, "operator", 8) == 0;
}

/* Returns the ':' that ends the name of a library: a single one after a valid name. */
static const char *lib_end(const char *text)
{
	const char *p = text;

	while (isalnum((unsigned char)*p) || (*p && strchr("_./+-", *p)) ||
		(*text == '/' && *p && *p != ':'))
		p++;
	return p > text && *p == ':' && p[1] && p[1] != ':' ? p : NULL;
}

/* Prefixes of bcc and bpftrace for "LIB:func". All of them time calls from entry to return. */
static bool is_prefix(const char *func, size_t len)
{
	static const char *const words[] = { "p", "r", "u", "uprobe", "uretprobe", "usdt" };

	return ANY_WHERE(ARRAY_SIZE(words), i, strlen(words[i]) == len &&
		!strncmp(func, words[i], len));
}

#define DIGITS "0123456789"

/* "SOURCE:LINE": a name with a suffix, but that of no library, and a number of characters @digits. */
static bool is_line(const char *text, const char *digits)
{
	const char *colon = strrchr(text, ':'), *base = strrchr(text, '/'), *dot;

	base = base ? base + 1 : text;
	if (!colon || colon < base || !colon[1] || colon[1 + strspn(colon + 1, digits)])
		return false;
	dot = memrchr(base, '.', (size_t)(colon - base));
	return dot && dot > base && strncmp(dot, ".so:", 4) != 0;
}

const char *function_lib(const char *func, size_t *ret_len)
{
	const char *end = lib_end(func), *second;

	if (!end || (is_line(func, DIGITS) && end == strrchr(func, ':')))
		return NULL;
	if (is_prefix(func, (size_t)(end - func))) {
		second = lib_end(end + 1);
		if (second) {
			func = end + 1;
			end = second;
		}
	}
	*ret_len = (size_t)(end - func);
	return func;
}

static void split_lib(struct arg *a)
{
	size_t len;
	const char *lib = function_lib(a->name, &len);

	if (!lib)
		return;
	a->lib = a->name + (lib - a->name);
	a->lib[len] = '\0';
	a->name = a->lib + len + 1;
}

/* Parses a complete number without a prefix. */
static bool parse_digits(const char *digits, int base, uint64_t *ret_value)
{
	char *end;

	if (!isxdigit((unsigned char)*digits))
		return false;
	errno = 0;
	*ret_value = strtoull(digits, &end, base);
	return !*end && !errno;
}

/* Parses a complete number: hexadecimal after 0x, otherwise decimal. */
static bool parse_number(const char *text, uint64_t *ret_value)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');

	return parse_digits(hex ? text + 2 : text, hex ? 16 : 10, ret_value);
}

static int split_plus(struct arg *a, struct err *err)
{
	char *plus = strrchr(a->name, '+');

	if (!plus)
		return 0;
	if (parse_number(plus + 1, &a->plus)) {
		*plus = '\0';
		a->has_plus = true;
		return 0;
	}
	if (plus == a->name)
		return err_set(err, -EINVAL, "bad file offset '%s': +0xNUMBER is needed",
			a->req->func);
	return 0;
}

/* "name@VERSION", "name@@VERSION", "name@0xOFFSET". */
static void split_version(struct arg *a)
{
	char *at = strchr(a->name, '@');

	if (!at || at == a->name || !at[1])
		return;
	*at++ = '\0';
	if (*at == '@')
		at++;
	a->has_at = at[0] == '0' && parse_number(at, &a->at);
	if (!a->has_at)
		a->version = at;
}

/* "0xADDR" of nm(1), and "sub_ADDR" of disassemblers, which can also be a name. */
static void parse_address(struct arg *a)
{
	size_t skip = strncmp(a->name, "sub_", 4) == 0 ? 4 : strncmp(a->name, "0x", 2) == 0 ? 2 : 0;

	a->has_addr = skip && parse_digits(a->name + skip, 16, &a->addr);
}

static void parse_line(struct arg *a)
{
	char *colon = strrchr(a->name, ':');
	uint64_t line;

	/* Without LIB:, "a.out:*" has all functions of a program. */
	if (a->lib && is_line(a->name, DIGITS "*?") && strpbrk(colon, "*?"))
		a->lines = colon + 1;
	else if (is_line(a->name, DIGITS) && parse_digits(colon + 1, 10, &line) && line <= INT_MAX)
		a->line = line;
	if (!a->line && !a->lines)
		return;
	*colon = '\0';
	while (!strncmp(a->name, "./", 2))
		a->name += 2;
}

int arg_parse(
	const struct request *req, struct arg *ret_arg, struct err *err)
{
	struct arg a = { .req = req, .regex = req->regex };
	int ret = 0;

	a.buf = a.name = xstrdup(req->func);
	if (!req->literal)
		split_lib(&a);
	if (!req->regex && !req->literal)
		parse_line(&a);
	if (!req->regex && !a.line && !a.lines) {
		if (!req->literal)
			ret = split_plus(&a, err);
		split_version(&a);
		if (!req->literal)
			parse_address(&a);
		a.glob = !req->literal && pattern_is_glob(a.name);
	}
	if (!ret && !*a.name && !a.has_plus)
		ret = err_set(
			err, -EINVAL, "the name of a function is empty: '%s'", req->func);
	if (!ret && a.glob && a.has_plus)
		ret = err_set(err, -EINVAL, "'%s': a pattern takes no offset", req->func);
	a.qualified = is_qualified(a.name, req->regex);
	if (!ret && (a.regex || a.glob)) {
		/* spaces are not significant in demangled names */
		if (a.glob && a.qualified)
			text_normalize(a.name, a.name);
		ret = pattern_init(
			&a.pattern, a.regex ? PATTERN_REGEX : PATTERN_GLOB, a.name, err);
	}
	if (ret) {
		free(a.buf);
		return ret;
	}
	*ret_arg = a;
	return 0;
}

void arg_done(struct arg *a)
{
	free(a->buf);
	free(a->whole);
	objects_done(&a->own_libs);
	pattern_done(&a->pattern);
}

bool arg_is_open(const struct arg *a)
{
	return !a->hits && !a->refused && !a->why;
}

bool arg_is_missing(const struct arg *a)
{
	return arg_is_open(a) && !a->req->optional;
}

bool arg_version_fits(
	const struct arg *a, const struct elf_func *fn, const struct elf_name *n)
{
	if (a->has_at)
		return fn->in_code && fn->offset == a->at;
	return !a->version || (n->version && strcmp(n->version, a->version) == 0);
}

/* --- LIB ------------------------------------------------------------------------------------ */

/* auditwheel inserts 8 hexadecimal digits of a checksum; other tools use more or fewer. */
#define HASH_MIN 6
#define HASH_MAX 64

/* Skips "-HASH" in the name of a wheel's library. */
static const char *skip_hash(const char *p)
{
	const char *q = p + 1;

	if (*p != '-')
		return p;
	while (isdigit((unsigned char)*q) || (*q >= 'a' && *q <= 'f'))
		q++;
	return q - p - 1 >= HASH_MIN && q - p - 1 <= HASH_MAX ? q : p;
}

/* True for an empty text or more version numbers: ".13", ".13.0.48". */
static bool is_version_tail(const char *p)
{
	while (*p == '.' && isdigit((unsigned char)p[1])) {
		for (p++; isalnum((unsigned char)*p) || *p == '_'; p++)
			;
	}
	return !*p;
}

void lib_query_parse(const char *lib, struct lib_query *ret_query)
{
	const char *so = strstr(lib, ".so");
	struct lib_query q = { .text = lib };

	/* ".so" must be followed by the end or a version: not "foo.sock" */
	while (so && so[3] && so[3] != '.')
		so = strstr(so + 3, ".so");
	if (so == lib)
		so = NULL;
	q.stem = !so;
	if (so)
		q.prefix = xstrndup(lib, so - lib);
	else if (strncmp(lib, "lib", 3) == 0 && lib[3])
		q.prefix = xstrdup(lib);
	else
		q.prefix = xasprintf("lib%s", lib);
	q.suffix = xstrdup(so ? so : ".so");
	*ret_query = q;
}

void lib_query_done(struct lib_query *q)
{
	free(q->prefix);
	free(q->suffix);
	*q = (struct lib_query) { 0 };
}

bool lib_query_matches(const struct lib_query *q, const char *name)
{
	size_t len = strlen(q->prefix), suffix_len = strlen(q->suffix);
	const char *p;

	if (strncmp(name, q->prefix, len) != 0)
		return false;
	p = skip_hash(name + len);
	return strncmp(p, q->suffix, suffix_len) == 0 && is_version_tail(p + suffix_len);
}

bool lib_query_may_match(const struct lib_query *q, const char *name)
{
	return strncmp(name, q->prefix, strlen(q->prefix)) == 0 && strstr(name, ".so");
}

/* --- similar names for one that was not found ----------------------------------------------- */

/* Compares stems, so that versions and suffixes do not hide similarities. */
static const char *wanted_stem(const struct lib_query *q)
{
	return strncmp(q->prefix, "lib", 3) == 0 ? q->prefix + 3 : q->prefix;
}

static void offer_places(const struct libfind *lf, bool whole, struct suggest *s)
{
	for (size_t i = 0; i < lf->places.cnt; i++) {
		const struct lib_place *p = &lf->places.places[i];

		suggest_offer(s, whole ? p->base : p->stem, p->dir);
	}
}

static void offer_mapped(const struct libfind *lf, struct suggest *s)
{
	for (size_t i = 0; i < lf->proc_cnt; i++) {
		const struct proc_maps *maps = lf->procs[i].maps;

		for (size_t k = 0; k < maps->cnt; k++) {
			const char *slash = strrchr(maps->maps[k].path, '/');

			if (maps->maps[k].exec && slash)
				suggest_offer(s, slash + 1, maps->maps[k].path);
		}
	}
}

int libfind_hint(struct libfind *lf, const struct lib_query *q, struct err *err)
{
	char text[ERR_HINT_LEN];
	struct suggest s;
	struct stat st;

	if (!err)
		return 0;
	/* a program is not searched in the current directory */
	if (!strchr(q->text, '/') && !stat(q->text, &st) && S_ISREG(st.st_mode))
		return err_hint(err, "did you mean './%s'", q->text);
	/* with a version: is there another version of the same library? */
	suggest_init(&s, q->stem ? wanted_stem(q) : q->text);
	offer_places(lf, !q->stem, &s);
	offer_mapped(lf, &s);
	if (!s.cnt) {
		suggest_init(&s, wanted_stem(q));
		offer_places(lf, false, &s);
	}
	if (suggest_text(&s, text, sizeof(text)))
		return err_hint(err, "%s", text);
	if (lf->denied && !(caps_effective() & CAPS_BIT(CAP_SYS_PTRACE)))
		return err_hint(err, "%zu process%s could not be examined: needs CAP_SYS_PTRACE%s",
			lf->denied, lf->denied == 1 ? "" : "es", caps_advice());
	return err->code;
}

/* --- similar names --------------------------------------------------------------------------- */

/* Limit of demangled names kept until the hint is written. */
#define SHOWN_MAX 4096

struct near {
	struct suggest s, members; /* .members: of a scope of the wanted name, the shortest first */
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

/* True if a mangled name has an identifier, after its length, that is like @wanted. */
static bool has_near_ident(const char *mangled, const char *wanted)
{
	char ident[256], *end;
	unsigned long len;

	for (const char *p = mangled; *p; p = end) {
		p += strcspn(p, "0123456789");
		len = strtoul(p, &end, 10);
		if (!len || len >= sizeof(ident) || strnlen(end, len) < len)
			continue;
		snprintf(ident, len + 1, "%s", end);
		if (suggest_distance(wanted, ident) != ~0u)
			return true;
	}
	return false;
}

/* True if @name is a member of @scope: "at::_ops::mm::call" of "mm" and of "_ops::mm". */
static bool is_member(const char *name, const char *scope)
{
	size_t len = strlen(scope) + 2, end = last_part(name) - name;

	return end >= len && !strncmp(name + end - len, scope, len - 2) &&
		(end == len || (end >= len + 2 && !strncmp(name + end - len - 2, "::", 2)));
}

/* Offers a demangled name, complete, by its last part or by its scope. */
static void offer_demangled(
	struct near *n, const struct elf_name *name, bool qualified, const char *where)
{
	const char *wanted = last_part(n->s.wanted);
	unsigned int edits;
	char *text;

	if (n->cnt >= SHOWN_MAX)
		return;
	text = demangle(name->name, DEMANGLE_NAME);
	if (!text)
		return;
	*array_add(n->strings, n->cnt) = text;
	edits = suggest_distance(wanted, last_part(text));
	if (edits != ~0u)
		suggest_offer_at(&n->s, text, edits, where);
	else if (is_member(text, n->s.wanted))
		suggest_offer_at(&n->members, text, strlen(last_part(text)), where);
	else if (qualified)
		suggest_offer(&n->s, text, where);
}

/* One member is as good as a name with the wanted last part. */
static void offer_member(struct near *n)
{
	if (!n->members.cnt)
		return;
	n->s.cnt -= n->s.cnt == SUGGEST_MAX;
	suggest_offer_at(&n->s, n->members.names[0], 0, n->members.where[0]);
}

/* The identifier that a similar name probably shares: in "a::b::c", b rather than c. */
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

/*
 * Offers names of @lib that are near the wanted one: its functions, demangled or not, and, because the
 * message names the library that defines them, its imports.
 */
static void offer_lib(struct near *n, const struct arg *a, const struct object *lib,
	const char *where)
{
	const char *wanted = n->s.wanted;
	struct ident id = shared_ident(wanted);
	bool go = elf_file_info(lib->elf)->go;
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(lib->elf, &funcs, &cnt, NULL))
		return;
	for (size_t i = 0; !a->qualified && elf_file_import(lib->elf, i); i++)
		suggest_offer(&n->s, elf_file_import(lib->elf, i), where);
	for (size_t i = 0; i < cnt; i++) {
		for (uint32_t k = 0; k < funcs[i].name_cnt; k++) {
			const struct elf_name *name = &funcs[i].names[k];
			bool mangled = demangle_is_mangled(name->name);

			if (name->piece && !strchr(wanted, '.') &&
				strncmp(name->name, wanted, strlen(wanted)) != 0)
				continue;

			if (go && (text_is_go(name->name, a->name, false) ||
					  text_is_go(name->name, a->name, true)))
				suggest_offer_at(&n->s, name->name, 0, where);
			else if (!a->qualified && mangled == demangle_is_mangled(wanted))
				suggest_offer(&n->s, name->name, where);
			if (mangled &&
				(has_near_ident(name->name, last_part(wanted)) ||
					(id.len >= 3 &&
						memmem(name->name, name->len, id.p, id.len))))
				offer_demangled(n, name, a->qualified, where);
		}
	}
}

/* --- names that a file only imports: the library that defines them ---------------------------- */

/* Enough for any program; libraries found later rarely define the function. */
#define CLOSURE_MAX 256

/*
 * Returns the file for @lib. If there are several, such as in containers, returns the one that the
 * dynamic linker would load here, or NULL if it would load none of them.
 */
static const struct object *only_file(struct libfind *finder, const char *lib)
{
	__cleanup(objects_done) struct objects found = { 0 };
	const struct object *ours = NULL;

	if (libfind_get(finder, lib, &found, NULL))
		return NULL;
	for (size_t i = 0; i < found.cnt; i++)
		if (found.cnt == 1 || !strcmp(found.object[i]->found_how, "ld.so.cache"))
			ours = found.object[i];
	return ours;
}

/* Searches the DT_RUNPATH of @file, where "$ORIGIN" is its own directory (ld.so(8)). */
static const struct object *by_runpath(
	struct libfind *finder, const struct object *file, const char *soname)
{
	const char *list = elf_file_info(file->elf)->runpath,
		   *slash = strrchr(file->path, '/');
	char path[PATH_MAX];

	for (; *list; list += strspn(list, ":")) {
		size_t len = strcspn(list, ":"), skip = 0;
		const struct object *found;

		if (strncmp(list, "$ORIGIN", 7) == 0)
			skip = 7;
		else if (strncmp(list, "${ORIGIN}", 9) == 0)
			skip = 9;
		if (snprintf(path, sizeof(path), "%.*s%.*s/%s",
			    skip && slash ? (int)(slash - file->path) : 0, file->path,
			    (int)(len - skip), list + skip, soname) < (int)sizeof(path) &&
			path[0] == '/') {
			found = only_file(finder, path);
			if (found)
				return found;
		}
		list += len;
	}
	return NULL;
}

/* Adds dependencies in the order of the dynamic linker: breadth first. */
static void add_needed(
	struct objects *closure, struct libfind *finder, const struct object *file)
{
	const struct elf_info *info = elf_file_info(file->elf);

	for (size_t i = 0; i < info->needed_cnt && closure->cnt < CLOSURE_MAX; i++) {
		const struct object *found = by_runpath(finder, file, info->needed[i]);

		if (!found)
			found = only_file(finder, info->needed[i]);
		if (found)
			objects_add(closure, found);
	}
}

void libfind_closure(struct libfind *lf, struct objects *closure)
{
	for (size_t cnt = 0; cnt < closure->cnt; cnt++)
		if (closure->object[cnt]->elf)
			add_needed(closure, lf, closure->object[cnt]);
}

static bool defines(const struct object *file, const char *name)
{
	const struct elf_func *funcs;
	const struct elf_name *n;
	size_t cnt;

	if (elf_file_funcs(file->elf, &funcs, &cnt, NULL))
		return false;
	for (n = elf_file_lookup(file->elf, name, strlen(name)); n;
		n = elf_name_next(file->elf, n))
		if (n->table == ELF_TABLE_DYNSYM)
			return true;
	return false;
}

/*
 * Returns the library that exports @name, among the direct and indirect dependencies of @importer;
 * NULL if it is unknown, or @finder is NULL.
 */
static const struct object *definer_of(
	struct libfind *finder, const struct object *importer, const char *name)
{
	__cleanup(objects_done) struct objects closure = { 0 };

	if (!finder)
		return NULL;
	add_needed(&closure, finder, importer);
	for (size_t i = 0; i < closure.cnt; i++) {
		if (defines(closure.object[i], name))
			return closure.object[i];
		add_needed(&closure, finder, closure.object[i]);
	}
	return NULL;
}

static bool name_fits(const struct arg *a, const char *name)
{
	if (a->regex || a->patterned)
		return pattern_match(&a->pattern, name);
	return strcmp(name, a->name) == 0;
}

/* True if an imported name, or its demangled form, is the one that the user typed. */
static bool import_fits(const struct arg *a, const char *name)
{
	_cleanup_free_ char *text = NULL;

	if (name_fits(a, name))
		return true;
	if (!demangle_is_mangled(name))
		return false;
	text = demangle(name, text_has_args(a->name) ? DEMANGLE_ARGS : DEMANGLE_NAME);
	return text && name_fits(a, text);
}

size_t resolve_imports(
	const struct arg *a, const struct object **ret_importer, const char **ret_name)
{
	const char *name;
	size_t cnt = 0;

	for (size_t i = 0; i < a->libs->cnt && !cnt; i++)
		for (size_t k = 0; (name = elf_file_import(a->libs->object[i]->elf, k)); k++) {
			if (!import_fits(a, name) || cnt++)
				continue;
			*ret_importer = a->libs->object[i];
			*ret_name = name;
		}
	return cnt;
}

/* --- errors ---------------------------------------------------------------------------------- */

/* True if @a and @b were searched for in the same libraries. */
static bool is_same_place(const struct arg *a, const struct arg *b)
{
	return a->libs->cnt == b->libs->cnt &&
		!memcmp(a->libs->object, b->libs->object,
			a->libs->cnt * sizeof(*a->libs->object));
}

/* "'x', 'y'": the other missing names, as typed. Those that do not fit are counted. */
static void list_missing(
	const struct resolver *r, const struct arg *first, char *buf, size_t size)
{
	size_t len = 0, left = 0;

	for (const struct arg *a = first; a < r->args + r->arg_cnt; a++) {
		size_t room = strlen(a->req->func) + 5;

		if (!arg_is_missing(a))
			continue;
		if (len + room >= size)
			left++;
		else
			len += snprintf(buf + len, size - len, "%s'%s'", len ? ", " : "",
				a->req->func);
	}
	if (left && len < size)
		snprintf(buf + len, size - len, " and %zu more", left);
}

/* "no function 'x' in LIB", "no functions 'x', 'y' in LIB and 2 more" */
static int set_missing(struct resolver *r, const struct arg *a, size_t more)
{
	bool pattern = a->regex || a->patterned, elsewhere = false;
	char names[ERR_MSG_LEN / 2], where[64] = "";

	for (const struct arg *b = a; more && b < r->args + r->arg_cnt; b++)
		elsewhere |= arg_is_missing(b) && !is_same_place(a, b);
	list_missing(r, a, names, sizeof(names));
	if (elsewhere) /* each name includes its library */
		return err_set(r->err, -ENOENT, "no functions %s", names);
	if (a->libs->cnt > 1)
		snprintf(where, sizeof(where), " and %zu more", a->libs->cnt - 1);
	return err_set(r->err, -ENOENT, "no function%s %s in %s%s",
		more    ? "s" :
		pattern ? " matches" :
			  "",
		names, a->libs->object[0]->path, where);
}

/* Returns the first stripped library, or NULL. */
static const struct object *find_stripped(const struct arg *a)
{
	const struct elf_func *funcs;
	size_t cnt;

	for (size_t i = 0; i < a->libs->cnt; i++)
		if (!elf_file_funcs(a->libs->object[i]->elf, &funcs, &cnt, NULL) &&
			elf_file_is_stripped(a->libs->object[i]->elf))
			return a->libs->object[i];
	return NULL;
}

/* Suggests a source of the names that a stripped file lacks. */
static int hint_stripped(struct resolver *r, const struct object *lib)
{
	const char *id = elf_file_info(lib->elf)->build_id;

	if (!*id)
		return err_hint(r->err,
			"%s is stripped and has no build id: use an unstripped build of it, or "
			"0xADDR, the address of a function",
			lib->path);
	return err_hint(r->err,
		"%s is stripped: its -dbgsym or -dbg package has the names, or "
		"'debuginfod-find debuginfo %s' fetches them; 0xADDR needs none",
		lib->path, id);
}

static int fail_imported(struct resolver *r, const struct arg *a,
	const struct object *importer, const char *name)
{
	const struct object *definer = definer_of(r->finder, importer, name);

	err_set(r->err, -ENOENT, "'%s' is only imported by %s: %s defines it", a->name,
		importer->path, definer ? definer->path : "another library");
	return err_hint(r->err, "name that library with --lib, or as %s:%s",
		definer ? definer->path : "LIB", a->name);
}

static int hint_imported(struct resolver *r, const struct arg *a,
	const struct object *importer, const char *name, size_t cnt)
{
	const struct object *definer = definer_of(r->finder, importer, name);

	/* LIB: takes precedence over --lib. */
	if (definer && a->lib)
		return err_hint(r->err, "%zu name%s, such as '%s', %s only imported: use '%s:%s'",
			cnt, cnt == 1 ? "" : "s", name, cnt == 1 ? "is" : "are", definer->path,
			a->name);
	if (definer)
		return err_hint(r->err, "%zu name%s, such as '%s', %s only imported: --lib %s", cnt,
			cnt == 1 ? "" : "s", name, cnt == 1 ? "is" : "are", definer->path);
	return err_hint(r->err,
		"%zu name%s, such as '%s', %s only imported: probe the library that defines %s", cnt,
		cnt == 1 ? "" : "s", name, cnt == 1 ? "is" : "are", cnt == 1 ? "it" : "them");
}

/* Returns "LIB:" as typed before the name, or "". The caller frees it. */
static char *typed_lib(const struct arg *a)
{
	return a->lib ? xasprintf("%s:", a->lib) : xstrdup("");
}

/* Lists the versions of "name@VERSION" if the name exists. */
static bool hint_versions(struct resolver *r, const struct arg *a)
{
	_cleanup_free_ char *prefix = typed_lib(a);
	char list[ERR_HINT_LEN / 2] = "";
	size_t at = 0;

	for (size_t i = 0; a->version && i < a->libs->cnt; i++) {
		const struct elf_name *n =
			elf_file_lookup(a->libs->object[i]->elf, a->name, strlen(a->name));

		for (; n && at < sizeof(list); n = elf_name_next(a->libs->object[i]->elf, n))
			if (n->version)
				at += snprintf(list + at, sizeof(list) - at, "%s'%s%s@%s'",
					at ? " or " : "", prefix, n->name, n->version);
	}
	if (at)
		err_hint(r->err, "did you mean %s", list);
	return at;
}

/* The name without the special characters of a glob, for a comparison with names. */
static char *letters_of(const struct arg *a)
{
	char *text = xstrdup(a->name), *to = text;

	for (const char *from = a->name; *from; from++)
		if (!a->patterned || !strchr("*?[]", *from))
			*to++ = *from;
	*to = '\0';
	return text;
}

/* Adds to the error of the missing function that the compiler has inlined it, if it has. */
static bool explain_inlined(struct resolver *r, const struct arg *a, size_t more)
{
	char msg[ERR_MSG_LEN];

	if (!a->copies_gone)
		return false;
	snprintf(msg, sizeof(msg), "%s", r->err->msg);
	err_set(r->err, -ENOENT, "%s: %s was inlined, and no code of it is left", msg,
		more ? a->req->func : "it");
	return true;
}

bool resolve_hint_file(struct resolver *r, const struct arg *a)
{
	__cleanup(objects_done) struct objects files = {};
	const char *name = a->req->func;

	if (a->lib || a->regex || a->patterned || !r->finder)
		return false;
	if (libfind_get(r->finder, name, &files, NULL)) {
		libfind_forgive(r->finder);
		return false;
	}
	err_hint(r->err, "use '%s:*' for all functions of that file", name);
	return true;
}

int resolve_fail_missing(struct resolver *r, const struct arg *a, size_t more)
{
	_cleanup_free_ char *prefix = typed_lib(a), *letters = letters_of(a);
	__cleanup(near_done) struct near n = { 0 };
	const struct object *importer = NULL, *stripped;
	char text[ERR_HINT_LEN];
	const char *name = NULL;
	size_t imported;

	imported = resolve_imports(a, &importer, &name);
	if (imported && !a->regex && !a->patterned)
		return fail_imported(r, a, importer, name);
	set_missing(r, a, more);
	if (!r->err || hint_versions(r, a) || resolve_hint_file(r, a))
		return -ENOENT;
	stripped = find_stripped(a);
	if (imported && !stripped)
		return hint_imported(r, a, importer, name, imported);
	suggest_init(&n.s, letters);
	suggest_init(&n.members, letters);
	n.s.prefix = prefix;
	for (size_t i = 0; !a->regex && i < a->libs->cnt; i++)
		offer_lib(&n, a, a->libs->object[i],
			a->libs->cnt > 1 ? a->libs->object[i]->path : NULL);
	offer_member(&n);
	if (explain_inlined(r, a, more))
		return -ENOENT;
	/*
	 * A stripped file lacks names, so the name meant is probably missing: offer only close
	 * matches.
	 */
	if (stripped && !suggest_is_near(&n.s))
		return hint_stripped(r, stripped);
	if (suggest_text(&n.s, text, sizeof(text)))
		err_hint(r->err, "%s", text);
	return -ENOENT;
}

int resolve_fail_address(struct resolver *r, const struct arg *a)
{
	err_set(r->err, -ENOENT, "no function '%s' in %s: its code has no such address",
		a->req->func, a->libs->object[0]->path);
	return err_hint(r->err,
		"addresses are those that nm and objdump print, not those in a process");
}

int resolve_fail_line(struct resolver *r, const struct arg *a, bool has_file, const char *why)
{
	err_set(r->err, -ENOENT, "no line '%s' in %s: %s", a->req->func,
		a->libs->object[0]->path, why);
	if (has_file)
		return -ENOENT;
	return err_hint(r->err,
		"lines are in the debug information of -g, or of a -dbgsym or -dbg package");
}

int resolve_fail_inside(
	struct resolver *r, const struct arg *a, const char *around, uint64_t offset)
{
	_cleanup_free_ char *prefix = typed_lib(a);

	err_set(r->err, -ENOENT, "no function '%s' in %s: none starts at that address",
		a->req->func, a->libs->object[0]->path);
	if (!around)
		return -ENOENT;
	return err_hint(r->err,
		"use '%s%s', the function around it, or '%s%s+0x%" PRIx64
		"' to count that instruction",
		prefix, around, prefix, around, offset);
}

/* Lists functions that look like implementations of an IFUNC: "__memcpy_avx_unaligned". */
static size_t list_implementations(const struct arg *a, char *buf, size_t size)
{
	_cleanup_free_ char *prefix = typed_lib(a);
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
			at += snprintf(buf + at, size - at, "%s'%s%s'", at ? ", " : "", prefix, name);
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
		err_hint(r->err, "probe its implementations: %s%s", list,
			cnt > 6 ? ", ..." : "");
	else
		err_hint(r->err,
			"its implementations have no names here: install the debug symbols of "
			"the library");
	return -EOPNOTSUPP;
}
