// SPDX-License-Identifier: BSD-2-Clause
// Files of fitting names that look-ups came by, and what became of each.
#include <errno.h>
#include <string.h>

#include "library_internal.h"

static bool seen_before(
	const struct libfind *lf, const char *path, const struct lib_file *file)
{
	for (size_t i = 0; i < lf->seen_cnt; i++)
		if (lf->seen[i].file == file && strcmp(lf->seen[i].path, path) == 0)
			return true;
	return false;
}

int libfind_see(struct libfind *lf, const char *path, const struct lib_file *file,
	const char *why)
{
	struct lib_seen *grown;

	if (seen_before(lf, path, file))
		return 0;
	grown = array_grow(lf->seen, lf->seen_cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	lf->seen = grown;
	grown[lf->seen_cnt] = (struct lib_seen) {
		.path = strdup(path),
		.file = file,
		.why = why ? strdup(why) : NULL,
	};
	lf->seen_cnt++;
	return grown[lf->seen_cnt - 1].path && (!why || grown[lf->seen_cnt - 1].why)
		? 0
		: -ENOMEM;
}

void libfind_seen_done(struct libfind *lf)
{
	for (size_t i = 0; i < lf->seen_cnt; i++) {
		free((char *)lf->seen[i].path);
		free((char *)lf->seen[i].why);
	}
	free(lf->seen);
}

const struct lib_seen *libfind_seen(const struct libfind *lf, size_t *ret_cnt)
{
	*ret_cnt = lf->seen_cnt;
	return lf->seen;
}
