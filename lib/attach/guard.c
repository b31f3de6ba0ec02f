// SPDX-License-Identifier: BSD-2-Clause
// Keeping the overhead of new groups within their bounds after the command that attached them.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/attach.h"
#include "base/util.h"
#include "pins/bpffs.h"
#include "proc/proc.h"

#define LOOK_NS 2500000000ULL /* between looks for processes */

struct guarded {
	char name[GROUP_NAME_MAX + 1];
};

struct guard {
	struct bpffs fs;
	struct shed **of; /* NULL: gone */
	size_t cnt;
};

static void guard_add(struct guard *g, struct procs *procs, const char *name)
{
	struct shed *s = NULL;

	if (shed_new_group(name, &g->fs, procs, &s))
		return;
	g->of = array_grow(g->of, g->cnt, sizeof(struct shed *));
	g->of[g->cnt++] = s;
}

/* Forgets those that are gone. Returns how many are left. */
static size_t guard_look(struct guard *g)
{
	_cleanup_procs_ struct procs *procs = NULL;
	size_t kept = 0;

	if (procs_new("/proc", &procs, NULL))
		return 0;
	for (size_t i = 0; i < g->cnt; i++) {
		if (shed_look(g->of[i], procs))
			g->of[kept++] = g->of[i];
		else
			shed_free(g->of[i]);
	}
	return g->cnt = kept;
}

/* Time until the next shed_step(). */
static uint64_t guard_wait_ns(const struct guard *g)
{
	uint64_t ns = LOOK_NS;

	for (size_t i = 0; i < g->cnt; i++) {
		uint64_t left = shed_left_ns(g->of[i]);

		ns = left < ns ? left : ns;
	}
	return ns;
}

/* Until a group is gone, which must not wait: its maps are still there as long as they are open. */
static bool guard_is_there(struct guard *g)
{
	for (size_t i = 0; i < g->cnt; i++)
		if (!shed_is_there(g->of[i]))
			return guard_look(g);
	return g->cnt;
}

static void guard_stay(const char *dir, int fd)
{
	struct guard g = { .fs = BPFFS_NONE };
	struct procs *procs = NULL;
	struct guarded of;
	uint64_t end, look;
	ssize_t n;

	/* Names of groups, until the command has ended. */
	while ((n = read(fd, &of, sizeof(of))) == sizeof(of) || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		if (g.fs.fd < 0 &&
			(bpffs_open(dir, false, &g.fs, NULL) || procs_new("/proc", &procs, NULL)))
			_exit(0);
		guard_add(&g, procs, of.name);
	}
	procs_free(procs);
	if (!g.cnt || chdir("/"))
		_exit(0);
	end = clock_ns(CLOCK_MONOTONIC) + GUARD_NS;
	look = clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
	while (ns_until(end) && guard_is_there(&g)) {
		if (!ns_until(look)) {
			if (!guard_look(&g))
				break;
			look = clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
		}
		for (size_t i = 0; i < g.cnt; i++)
			shed_step(g.of[i]);
		sleep_ns(guard_wait_ns(&g) + 1);
	}
	_exit(0);
}

/* For tests: "none" starts no process, "off" lifts the programs' own limit as well. */
static bool is_set_to(const char *word)
{
	const char *how = secure_getenv("FUNCSNOOP_GUARD");

	return how && !strcmp(how, word);
}

bool guard_is_off(void)
{
	return is_set_to("off");
}

int guard_start(const char *dir, int *ret_fd, struct err *err)
{
	if (is_set_to("none") || is_set_to("off"))
		return 0;
	return stay_start("funcsnoop-bound", dir, guard_stay, ret_fd, err);
}

void guard_tell(int fd, const char *name)
{
	struct guarded of = {};

	snprintf(of.name, sizeof(of.name), "%s", name);
	(void)!write(fd, &of, sizeof(of));
}
