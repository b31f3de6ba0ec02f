// SPDX-License-Identifier: BSD-2-Clause
// Options of stats, stream and run: views, formats, conditions.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cli/options.h"
#include "stats/compare.h"

#define TEXT_OF_(n) #n
#define TEXT_OF(n)  TEXT_OF_(n)

/* --- views ---------------------------------------------------------------------------------- */

/* Sets the view. --by stack and --diff, in any order, are combined into one view. */
static int set_view(struct stats_options *o, const char *name, struct err *err)
{
	const struct view *view = view_find(name), *stack = view_find("stack"),
			  *diff = view_find("diff");

	if (o->view_set &&
		((o->view == stack && view == diff) ||
			(o->view == diff && view == stack)))
		view = view_find("stack-diff");
	else if (o->view_set && o->view != view)
		return err_set(err, -ERR_USAGE,
			"--by, --show and --diff exclude each other: one view at a time");
	o->view = view;
	o->view_set = true;
	return 0;
}

int read_view(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;

	o->slow |= !strcmp(option_part(opt), "slow");
	o->tree |= !strcmp(option_part(opt), "tree");
	return set_view(o, option_part(opt), err);
}

/*
 * Reads a view, or keys, which are checked when the groups are open. A repeated --by adds keys: each
 * of .choice.by is a part of .by.
 */
int read_by(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;
	const struct view *view = view_find(arg);
	char *one, *rest, words[WORDS_LEN];
	int code = 0;

	if (view && view->flags & VIEW_BY)
		return set_view(o, arg, err);
	if (!o->diff_path)
		code = set_view(o, "key", err);
	if (code)
		return code;
	rest = o->by_text ? xasprintf("%s,%s", o->by_text, arg) : xstrdup(arg);
	free(o->by_text);
	o->choice.by_text = o->by_text = rest;
	o->choice.by_cnt = 0;
	free(o->by);
	rest = o->by = xstrdup(o->by_text);
	while ((one = strsep(&rest, ","))) {
		if (!strncmp(one, "arg:", 4))
			one += 4;
		if (!*one || o->choice.by_cnt == FSN_KEYS)
			return err_set(err, -ERR_USAGE,
				"--by is %s or up to %d keys, not '%s'",
				view_by_words(words), FSN_KEYS, o->by_text);
		o->choice.by[o->choice.by_cnt++] = one;
	}
	return 0;
}

int read_metrics_by(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;
	int code = read_by(o, opt, arg, err);

	if (!code && !(o->view->flags & VIEW_METRICS))
		return err_set(err, -ERR_USAGE,
			"--by is process, cgroup or keys, not '%s'", arg);
	return code;
}

int read_diff(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;

	o->view_set &= !o->choice.by_cnt; /* it is of keys then */
	o->diff_path = arg;
	return set_view(o, "diff", err);
}

/* --- order, conditions, formats ------------------------------------------------------------- */

int read_sort(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;
	unsigned int choice;

	o->choice.sorted = true;
	return stats_sort_parse(arg, &o->choice.sort)
		? 0
		: read_choice(&choice, opt, arg, err);
}

/* Rows, or a share of a tree of stacks. */
int read_top(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;

	return strchr(arg, '%') ? read_share(&o->choice.min_share, opt, arg, err)
				: read_from_one(&o->choice.top, opt, arg, err);
}

/* Rows, or the size of the smallest one. */
int read_list_top(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct list_options *o = at;

	return *arg && !arg[strspn(arg, "0123456789")]
		? read_from_one(&o->top, opt, arg, err)
		: read_size(&o->min_bytes, opt, arg, err);
}

/* "5ms": at least this duration; "1/10": one call in 10. */
int read_only(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stream_options *o = at;

	if (!strncmp(arg, "1/", 2))
		return read_number(&o->filter.sample, opt, arg + 2, err);
	if (!duration_parse(arg, &o->filter.min_ns, NULL))
		return 0;
	return err_set(err, -ERR_USAGE,
		"--only is slow, failed, a duration such as 5ms, or 1/N, not '%s'", arg);
}

int read_check(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;
	char known[ERR_HINT_LEN];

	o->checks = array_grow(o->checks, o->check_cnt, sizeof(*o->checks));
	if (!check_parse(arg, &o->checks[o->check_cnt++], err))
		return 0;
	snprintf(known, sizeof(known), "%s", err->hint);
	return *known ? err_hint(err, "known are %s", known) : err->code;
}

/* Adds a finding to the mask at @at; the first value means all. */
int read_finding(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	unsigned int choice, *mask = at;
	int code = read_choice(&choice, opt, arg, err);

	if (!code)
		*mask |= choice ? 1U << (choice - 1) : (1U << COMPARE_CNT) - 1;
	return code;
}

int read_buckets(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;

	o->choice.bucket_cnt = 0;
	return strcmp(arg, "none") ? read_number(&o->choice.bucket_cnt, opt, arg, err)
				   : 0;
}

/* "prometheus:buckets=8,path" */
int read_format(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct options *o = at;
	char *name = strsep(&arg, ":");
	unsigned int choice;
	int code = read_choice(&choice, opt, name, err);

	o->stats.format = stats_format_find(name);
	return code || !arg ? code : read_parts(o, opt, arg, err);
}

int read_stream_format(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stream_options *o = at;
	unsigned int choice;

	o->format = stream_format_find(arg);
	return read_choice(&choice, opt, arg, err);
}

int read_events(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	enum { CALL, ENTRY, EXIT, ALL };
	struct stream_options *o = at;
	unsigned int which = CALL;
	int code = read_choice(&which, opt, arg, err);

	o->calls = which == CALL || which == ALL;
	o->entries = which == ENTRY || which == ALL;
	o->exits = which == EXIT || which == ALL;
	return code;
}

/* --- checks --------------------------------------------------------------------------------- */

/* Options that make no sense together: why, or NULL. */
static const char *stats_contradiction(struct stats_options *o)
{
	bool loop = o->interval_ns || o->duration_ns;

	if (o->g->json && o->format && !(o->format->flags & FORMAT_JSON))
		return "--json and another --format exclude each other";
	if (o->format && o->format->flags & FORMAT_METRICS &&
		!(o->view->flags & VIEW_METRICS))
		return "metrics are of functions, processes, cgroups and keys: no --by library or stack, no --show or --diff";
	if (option_given("format buckets|format path|library-label") &&
		!(o->format && o->format->flags & FORMAT_METRICS))
		return "buckets and path are details of --format prometheus and openmetrics";
	if (o->choice.min_share && !o->view_set)
		o->view = view_find("stack");
	else if (o->choice.min_share && !(o->view->flags & VIEW_STACKS))
		return "--top SHARE goes with --by stack";
	if (o->format && o->format->flags & FORMAT_STACKS &&
		(o->view_set && !(o->view->flags & VIEW_STACKS)))
		return "--format folded, flame and pprof are of stacks: no --by but stack, no --show";
	if (o->format && o->format->flags & FORMAT_BINARY && o->diff_path)
		return "--format pprof has one reading: no --diff; flame and folded have both";
	if (o->format && o->format->flags & FORMAT_BINARY && !o->output &&
		isatty(STDOUT_FILENO))
		return "--format pprof is nothing for a terminal: --output";
	if (loop && o->format && o->format->flags & FORMAT_CUMULATIVE && !o->output)
		return "metrics with --interval need --output, which is rewritten each time";
	if (o->reset && o->format && o->format->flags & FORMAT_CUMULATIVE)
		return "metrics are counted on from one reading to the next: no --reset";
	for (size_t i = 0; i < o->check_cnt; i++)
		if (o->checks[i].relative && !o->diff_path &&
			!check_is_share(&o->checks[i]))
			return "--fail-if with percent needs --diff, but of on_cpu, queued and blocked";
	return NULL;
}

bool stats_options_finish(struct stats_options *o)
{
	const char *wrong;

	if (o->format && o->format->flags & FORMAT_STACKS &&
		o->view == view_find("diff") && !o->choice.by_cnt)
		o->view = view_find("stack-diff");
	wrong = stats_contradiction(o);
	if (wrong) {
		cmd_usage(o->g, "%s", wrong);
		return false;
	}
	if (!o->format)
		o->format = stats_format_default(o->g->json);
	o->choice.sorted |= (o->view->flags & VIEW_SLEEPS) != 0;
	o->g->json = o->format->flags & FORMAT_JSON;
	return true;
}

static const char *stream_contradiction(const struct stream_options *o)
{
	const struct stream_filter *f = &o->filter;

	if (o->pids.cnt > FSN_STREAM_PIDS)
		return "at most " TEXT_OF(FSN_STREAM_PIDS) " processes can be chosen";
	if (o->g->json && o->format && o->format != &stream_json)
		return "--json and another --format exclude each other";
	if (o->format && o->format->calls_only && (o->entries || o->exits))
		return "a trace is made of calls: no --events with --format chrome or perfetto";
	if (o->format && o->format->piece && !o->output && isatty(STDOUT_FILENO))
		return "--format perfetto is nothing for a terminal: --output";
	if (o->entries && (f->slow || f->failed || f->min_ns))
		return "nothing is known of the call at its entry: no --only slow, failed or DUR";
	if (o->entries && o->calls && f->sample)
		return "--only 1/N would choose other entries than calls: not with --events all";
	if (o->alert && !o->calls)
		return "--alert is about calls: not with --events entry or exit";
	return NULL;
}

bool stream_options_finish(struct stream_options *o)
{
	const char *wrong = stream_contradiction(o);

	if (wrong) {
		cmd_usage(o->g, "%s", wrong);
		return false;
	}
	if (!o->format)
		o->format = o->g->json ? &stream_json : &stream_text;
	/* With --format json, errors are also printed as JSON. */
	o->g->json = o->format == &stream_json;
	o->filter.ends = o->calls || o->exits;
	o->filter.entries = o->entries;
	o->filter.pids = o->pids.of;
	o->filter.pid_cnt = o->pids.cnt;
	o->filter.funcs = o->funcs.of;
	o->filter.func_cnt = o->funcs.cnt;
	return true;
}
