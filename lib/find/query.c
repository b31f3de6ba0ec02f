// SPDX-License-Identifier: BSD-2-Clause
// What a LIB argument means, by names alone, and what was perhaps meant.
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "proc/caps.h"

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

/* --- names near to one that was not found ---------------------------------------------------- */

/* Stems against stems, so that versions and endings don't hide what is near. */
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

	if (!err)
		return 0;
	/* a version was said: is there another one of the same library? */
	suggest_init(&s, q->stem ? wanted_stem(q) : q->text);
	offer_places(lf, !q->stem, &s);
	offer_mapped(lf, &s);
	if (!s.cnt) {
		suggest_init(&s, wanted_stem(q));
		offer_places(lf, false, &s);
	}
	if (suggest_text(&s, text, sizeof(text)))
		return err_hint(err, "%s", text);
	if (!strcmp(q->text, "t"))
		return err_hint(err,
			"t:CATEGORY:EVENT is a tracepoint elsewhere; functions of libraries and "
			"programs can be probed");
	if (lf->denied)
		return err_hint(err, "%zu processes may not be looked at: needs CAP_SYS_PTRACE%s",
			lf->denied, caps_advice());
	return err->code;
}
