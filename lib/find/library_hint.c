// SPDX-License-Identifier: BSD-2-Clause
// Names near to a library that was not found.
#include <string.h>

#include "base/suggest.h"
#include "library_internal.h"

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
		const struct proc_maps *maps = &lf->procs[i].maps;

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
	if (lf->denied)
		return err_hint(err, "%zu processes may not be looked at; try with sudo",
			lf->denied);
	return err->code;
}
