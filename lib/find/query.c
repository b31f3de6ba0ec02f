// SPDX-License-Identifier: BSD-2-Clause
// What a LIB argument means, by names alone.
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "library_internal.h"

/* auditwheel puts 8 hexadecimal digits of a checksum there; others have more or fewer. */
#define HASH_MIN 6
#define HASH_MAX 64

/* Steps over "-HASH" of a wheel's library. */
static const char *skip_hash(const char *p)
{
	const char *q = p + 1;

	if (*p != '-')
		return p;
	while (isdigit((unsigned char)*q) || (*q >= 'a' && *q <= 'f'))
		q++;
	return q - p - 1 >= HASH_MIN && q - p - 1 <= HASH_MAX ? q : p;
}

/* Nothing, or further version numbers: ".13", ".13.0.48". */
static bool is_version_tail(const char *p)
{
	while (*p == '.' && isdigit((unsigned char)p[1])) {
		for (p++; isalnum((unsigned char)*p) || *p == '_'; p++)
			;
	}
	return !*p;
}

int lib_query_parse(const char *lib, struct lib_query *ret_query)
{
	const char *so = strstr(lib, ".so");
	struct lib_query q = { .text = lib };

	/* ".so" must end there or a version begin: not "foo.sock" */
	while (so && so[3] && so[3] != '.')
		so = strstr(so + 3, ".so");
	if (so == lib)
		so = NULL;
	q.stem = !so;
	if (so)
		q.prefix = strndup(lib, so - lib);
	else if (strncmp(lib, "lib", 3) == 0 && lib[3])
		q.prefix = strdup(lib);
	else if (asprintf(&q.prefix, "lib%s", lib) < 0)
		q.prefix = NULL;
	q.suffix = strdup(so ? so : ".so");
	if (!q.prefix || !q.suffix) {
		lib_query_done(&q);
		return -ENOMEM;
	}
	*ret_query = q;
	return 0;
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

bool libfind_name_matches(const char *lib, const char *file_name)
{
	__cleanup(lib_query_done) struct lib_query q = { 0 };

	return lib_query_parse(lib, &q) == 0 && lib_query_matches(&q, file_name);
}
