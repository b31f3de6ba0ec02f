// SPDX-License-Identifier: BSD-2-Clause
// Parses FUNCTION and LIB arguments, matches LIB by name, and suggests similar libraries.
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

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

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == len && !strncmp(func, words[i], len))
			return true;
	return false;
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
