// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop detach: remove probes and pins.
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/options.h"
#include "show/text.h"

static void show_progress(size_t done, size_t total, void *arg)
{
	const struct globals *g = arg;

	if (!g->quiet && total >= 10 && isatty(STDERR_FILENO))
		fprintf(stderr, "\rdetached %zu of %zu links%s", done, total,
			done == total ? "\n" : "");
}

static int detach(const struct globals *g, struct bpffs *fs, const char *name, struct err *err)
{
	_cleanup_close_ int fd = -1;
	int code;

	code = bpffs_open_group(fs, name, &fd, err);
	if (!code)
		code = bpffs_retire(fs, name, err);
	if (!code)
		code = bpffs_remove(fs, name, show_progress, (void *)g, err);
	return code;
}

static int run_parsed(const struct options *o)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	_cleanup_names_ char **all = NULL;
	char **names = o->words.word;
	size_t cnt = o->words.cnt;
	struct err err = {};
	int code;

	code = bpffs_open(o->g->bpffs, false, &fs, &err);
	if (!code)
		code = bpffs_lock(&fs, &err);
	if (!code && o->all)
		code = bpffs_groups(&fs, &all, &cnt, &err);
	if (o->all)
		names = all;
	/* One that is not there must not leave the others half done. */
	for (size_t i = 0; !code && i < cnt; i++) {
		_cleanup_close_ int fd = -1;

		code = bpffs_open_group(&fs, names[i], &fd, &err);
	}
	for (size_t i = 0; !code && i < cnt; i++)
		if (!groups_named_before(names, i))
			code = detach(o->g, &fs, names[i], &err);
	if (code)
		return cmd_fail(o->g, &err);
	return o->g->json ? json_print(json_object(o->g)) : EXIT_DONE;
}

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;

	cmd_parse(g, &cmd_detach, argc, argv, &o);
	if (o.all == (o.words.cnt > 0))
		return cmd_usage(g, "needs either groups or --all");
	return run_parsed(&o);
}

const struct command cmd_detach = { "detach", "GROUP... | --all", "remove probes and pins", run,
	ON_DETACH, "GROUP...\n--all",
	"Remove groups. After the command exits, none of their probes fires.\v"
	"Examples:\n"
	"  funcsnoop detach cuda\n"
	"  funcsnoop detach --all" };
