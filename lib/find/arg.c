// SPDX-License-Identifier: BSD-2-Clause
// Taking a FUNCTION argument apart.
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "internal.h"

/* The ':' that ends a library's name: a single one, after what can be one. */
static char *lib_end(char *text)
{
	char *p = text;

	while (isalnum((unsigned char)*p) || (*p && strchr("_./+-", *p)) ||
		(*text == '/' && *p && *p != ':'))
		p++;
	return p > text && *p == ':' && p[1] && p[1] != ':' ? p : NULL;
}

/* "LIB:func", and bcc's "p:LIB:func" and "u:LIB:func". */
static void split_lib(struct arg *a)
{
	char *end = lib_end(a->name), *second;

	if (!end)
		return;
	if (end == a->name + 1 && (a->name[0] == 'p' || a->name[0] == 'u')) {
		second = lib_end(end + 1);
		if (second) {
			a->name = end + 1;
			end = second;
		}
	}
	*end = '\0';
	a->lib = a->name;
	a->name = end + 1;
}

/* A number to the end of the text: hexadecimal after 0x, else decimal. */
static bool parse_number(const char *text, uint64_t *ret_value)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = hex ? text + 2 : text;
	char *end;

	if (!isxdigit((unsigned char)*digits))
		return false;
	errno = 0;
	*ret_value = strtoull(digits, &end, hex ? 16 : 10);
	return !*end && !errno;
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

int arg_parse(
	const struct request *req, struct arg *ret_arg, struct err *err)
{
	struct arg a = { .req = req, .regex = req->regex };
	int ret = 0;

	a.buf = a.name = strdup(req->func);
	if (!a.buf)
		return err_sys(err, -ENOMEM, "cannot look for '%s'", req->func);
	if (!req->literal)
		split_lib(&a);
	if (!req->regex) {
		if (!req->literal)
			ret = split_plus(&a, err);
		split_version(&a);
		a.glob = !req->literal && pattern_is_glob(a.name);
	}
	if (!ret && !*a.name && !a.has_plus)
		ret = err_set(
			err, -EINVAL, "the name of a function is empty: '%s'", req->func);
	if (!ret && a.glob && a.has_plus)
		ret = err_set(err, -EINVAL, "'%s': a pattern takes no offset", req->func);
	a.qualified = text_is_qualified(a.name, req->regex);
	if (!ret && (a.regex || a.glob)) {
		/* demangled names are compared without idle spaces */
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

bool arg_is_lenient(const struct arg *a)
{
	return a->req->optional || a->regex || a->patterned;
}

bool arg_version_fits(
	const struct arg *a, const struct elf_func *fn, const struct elf_name *n)
{
	if (a->has_at)
		return fn->in_code && fn->offset == a->at;
	return !a->version || (n->version && strcmp(n->version, a->version) == 0);
}
