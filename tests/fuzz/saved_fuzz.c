// SPDX-License-Identifier: BSD-2-Clause
// Fuzzing what reads a saved document of statistics: groups with their names, or an error.
#include "stats/figures.h"

#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t touch_func(const struct saved_group *g, const struct saved_func *f)
{
	const struct saved_func *found = saved_func_find(g, f->name, f->library);
	size_t sum = strlen(f->name) + (f->library ? strlen(f->library) : 0);

	/* two with the same name and no library cannot be distinguished */
	if (found ? strcmp(found->name, f->name) != 0 : f->library != NULL)
		abort();
	for (enum figure_id id = 0; id < FIGURE_CNT; id++)
		sum += figure_known(&f->figures, id) ? f->figures.value[id].n
						     : strlen(figures[id].key);
	return sum + (saved_func_find(g, f->name, "/no/such") != NULL);
}

static size_t touch(const struct saved *saved)
{
	size_t sum = 0;

	for (size_t i = 0; i < saved->cnt; i++) {
		const struct saved_group *g = &saved->groups[i];

		sum += strlen(g->name) + (g->since ? strlen(g->since) : 0);
		if (!saved_group_find(saved, g->name, false))
			abort();
		for (size_t k = 0; k < g->func_cnt; k++)
			sum += touch_func(g, &g->funcs[k]);
	}
	return sum + (saved_group_find(saved, "no such", true) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);
	_cleanup_saved_ struct saved *saved = NULL;
	struct err err = { 0 };
	char path[64];
	int rc;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = saved_read(path, &saved, &err);
	if (rc ? saved || !err.msg[0] || err.code != rc : !saved)
		abort();
	return saved && touch(saved) == SIZE_MAX;
}
