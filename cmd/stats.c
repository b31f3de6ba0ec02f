// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop stats: the statistics that the kernel keeps.
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

#include "cli/cmd.h"
#include "internal.h"
#include "show/text.h"

enum {
	KEY_SORT = 0x100,
	KEY_TOP,
	KEY_BY,
	KEY_HIST,
	KEY_ERRORS,
	KEY_SLOW,
	KEY_TREE,
	KEY_RESET,
	KEY_FORMAT,
	KEY_SAVE,
	KEY_DIFF,
	KEY_FAIL_IF,
	KEY_WATCH,
	KEY_MIN,
	KEY_BUCKETS,
	KEY_LIBRARY_LABEL,
	KEY_LINES,
};

/* What some take is known when the command runs: options_describe(). */
static struct argp_option options[] = {
	{ "sort", KEY_SORT, "KEY", 0, NULL, 1 },
	{ "top", KEY_TOP, "N", 0, "Only the first N", 1 },
	{ "hist", KEY_HIST, NULL, 0, "A histogram for each function", 1 },
	{ "errors", KEY_ERRORS, NULL, 0, "Failed calls by return code", 1 },
	{ "slow", KEY_SLOW, NULL, 0, "The remembered slow calls", 1 },
	{ "tree", KEY_TREE, NULL, 0, "Who called whom", 1 },
	{ "interval", 'i', "SEC", 0, "What came in each interval, until Ctrl-C", 1 },
	{ "watch", KEY_WATCH, NULL, 0, "Rates, redrawn in place", 1 },
	{ "fail-if", KEY_FAIL_IF, "COND", 0, "Status 3 if it holds: p99>5ms, errors>0, ...", 1 },
	{ "reset", KEY_RESET, NULL, 0, "Start afresh after reading, no call lost or twice", 1 },
	{ "all", 'a', NULL, 0, NULL, USAGE_MORE },
	{ "by", KEY_BY, NULL, 0, NULL, USAGE_MORE },
	{ "min", KEY_MIN, "SHARE", 0, NULL, USAGE_MORE },
	{ "lines", KEY_LINES, NULL, 0, NULL, USAGE_MORE },
	{ "diff", KEY_DIFF, "FILE", 0, NULL, USAGE_MORE },
	{ "duration", 'd', "SEC", 0, NULL, USAGE_MORE },
	{ "output", 'o', "FILE", 0, NULL, USAGE_MORE },
	{ "format", KEY_FORMAT, NULL, 0, NULL, USAGE_MORE },
	{ "buckets", KEY_BUCKETS, "N", 0, NULL, USAGE_MORE },
	{ "library-label", KEY_LIBRARY_LABEL, "soname|path", 0, NULL, USAGE_MORE },
	{ "save", KEY_SAVE, "FILE", 0, NULL, USAGE_MORE },
	{ "timestamp", 'T', NULL, 0, NULL, USAGE_MORE },
	{ 0 }
};

static const char help[] =
	"Show statistics of groups; without GROUP, of all.\v"
	"Examples:\n"
	"  funcsnoop stats --diff before.json --fail-if 'p99>25%'";

/* --- options -------------------------------------------------------------------------------- */

static void options_describe(void)
{
	static char sort[WORDS_LEN + 16], by[WORDS_LEN], format[WORDS_LEN];
	char words[WORDS_LEN];

	snprintf(sort, sizeof(sort), "Order by %s", stats_sort_words(words));
	for (struct argp_option *o = options; o->name; o++) {
		if (o->key == KEY_SORT)
			o->doc = sort;
		else if (o->key == KEY_BY)
			o->arg = view_by_words(by);
		else if (o->key == KEY_FORMAT)
			o->arg = stats_format_words(format);
	}
}

/* Of --by stack and --diff, in any order, one is made. */
static void set_view(struct argp_state *state, struct stats_options *o, const char *name)
{
	const struct view *view = view_find(name), *stack = view_find("stack"),
			  *diff = view_find("diff");

	if (o->view_set && ((o->view == stack && view == diff) || (o->view == diff && view == stack)))
		view = view_find("stack-diff");
	else if (o->view_set && o->view != view)
		argp_error(state,
			"--by, --hist, --errors, --slow, --tree and --diff exclude each other");
	o->view = view;
	o->view_set = true;
}

/* A view, or keys of a group: which it has is known when it is opened. */
void stats_parse_by(struct argp_state *state, struct stats_options *o, char *arg)
{
	const struct view *view = view_find(arg);
	char *at, *rest;

	if (view && view->flags & VIEW_BY) {
		set_view(state, o, arg);
		return;
	}
	if (!o->diff_path)
		set_view(state, o, "key");
	o->choice.by_text = arg;
	rest = o->by = strdup(arg);
	if (!rest)
		argp_failure(state, EXIT_FAILED, 0, "out of memory");
	while ((at = strsep(&rest, ","))) {
		if (!strncmp(at, "arg:", 4))
			at += 4;
		if (!*at || o->choice.by_cnt == FSN_KEYS)
			argp_error(state, "--by is %s or up to %d keys, not '%s'",
				view_by_words(o->words), FSN_KEYS, arg);
		o->choice.by[o->choice.by_cnt++] = at;
	}
}

static void parse_sort(struct argp_state *state, struct stats_options *o, const char *arg)
{
	char words[WORDS_LEN];

	o->choice.sorted = true;
	if (!stats_sort_parse(arg, &o->choice.sort))
		argp_error(state, "--sort is %s, not '%s'", stats_sort_words(words), arg);
}

static void add_check(struct argp_state *state, struct stats_options *o, const char *arg)
{
	struct check *checks = array_grow(o->checks, o->check_cnt, sizeof(*checks));
	struct err err = {};

	if (!checks) {
		argp_failure(state, EXIT_FAILED, 0, "out of memory");
		return;
	}
	o->checks = checks;
	if (check_parse(arg, &checks[o->check_cnt++], &err))
		argp_error(state, "%s%s%s", err.msg, err.hint[0] ? "; known are " : "",
			err.hint);
}

static error_t parse_delivery(int key, char *arg, struct argp_state *state)
{
	struct stats_options *o = state->input;

	switch (key) {
	case 'i':
		o->interval_ns = seconds_parse(state, "--interval", arg);
		return 0;
	case 'd':
		o->duration_ns = seconds_parse(state, "--duration", arg);
		return 0;
	case 'T':
		o->timestamps = true;
		return 0;
	case KEY_WATCH:
		o->watch = true;
		return 0;
	case KEY_FORMAT:
		choice_parse(state, options, key, arg);
		o->format = stats_format_find(arg);
		return 0;
	case 'o':
		o->output = strcmp(arg, "-") ? arg : NULL;
		return 0;
	case KEY_SAVE:
		o->save = arg;
		return 0;
	case KEY_FAIL_IF:
		add_check(state, o, arg);
		return 0;
	case KEY_RESET:
		o->reset = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void stats_parse_buckets(struct argp_state *state, struct stats_options *o, const char *arg)
{
	o->choice.bucket_cnt = strcmp(arg, "none")
		? number_parse(state, "--buckets", arg, 1, METRIC_BUCKETS)
		: 0;
	o->for_metrics = "--buckets";
}

void stats_parse_top(struct argp_state *state, struct stats_options *o, const char *arg)
{
	char *end;

	o->choice.top = strtoul(arg, &end, 10);
	if (!o->choice.top || *end || !isdigit((unsigned char)arg[0]))
		argp_error(state, "--top '%s' is not a number from 1 on", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stats_options *o = state->input;

	switch (key) {
	case 'a':
		o->choice.all = true;
		return 0;
	case KEY_SORT:
		parse_sort(state, o, arg);
		return 0;
	case KEY_TOP:
		stats_parse_top(state, o, arg);
		return 0;
	case KEY_BUCKETS:
		stats_parse_buckets(state, o, arg);
		return 0;
	case KEY_LIBRARY_LABEL:
		o->choice.path_labels = choice_parse(state, options, key, arg);
		o->for_metrics = "--library-label";
		return 0;
	case KEY_LINES:
		o->choice.lines = true;
		return 0;
	case KEY_MIN:
		o->choice.min_share = share_parse(state, "--min", arg);
		return 0;
	case KEY_BY:
		stats_parse_by(state, o, arg);
		return 0;
	case KEY_HIST:
		set_view(state, o, "hist");
		return 0;
	case KEY_ERRORS:
		set_view(state, o, "errors");
		return 0;
	case KEY_SLOW:
		set_view(state, o, "slow");
		o->slow = true;
		return 0;
	case KEY_TREE:
		set_view(state, o, "tree");
		o->tree = true;
		return 0;
	case KEY_DIFF:
		o->view_set &= !o->choice.by_cnt; /* it is of keys then */
		set_view(state, o, "diff");
		o->diff_path = arg;
		return 0;
	default:
		return parse_delivery(key, arg, state);
	}
}

/* Options that make no sense together: why, or NULL. */
static const char *contradiction(const struct stats_options *o)
{
	bool loop = o->interval_ns || o->duration_ns;

	if (o->g->json && o->format && !(o->format->flags & FORMAT_JSON))
		return "--json and another --format exclude each other";
	if (o->format && o->format->flags & FORMAT_METRICS &&
		!(o->view->flags & VIEW_METRICS))
		return "metrics are of functions, processes, cgroups and keys: no --by library or stack, no --hist, --errors, --slow, --tree or --diff";
	if (o->for_metrics && !(o->format && o->format->flags & FORMAT_METRICS))
		return "--buckets and --library-label go with --format prometheus or openmetrics";
	if (o->choice.min_share && !(o->view->flags & VIEW_STACKS))
		return "--min goes with --by stack";
	if (o->format && o->format->flags & FORMAT_STACKS && (o->view_set && !(o->view->flags & VIEW_STACKS)))
		return "--format folded, flame and pprof are of stacks: no --by but stack, no --hist, --errors, --slow or --tree";
	if (o->format && o->format->flags & FORMAT_BINARY && o->diff_path)
		return "--format pprof has one reading: no --diff; flame and folded have both";
	if (o->format && o->format->flags & FORMAT_BINARY && !o->output && isatty(STDOUT_FILENO))
		return "--format pprof is nothing for a terminal: --output";
	if (loop && o->format && o->format->flags & FORMAT_CUMULATIVE && !o->output)
		return "metrics with --interval need --output, which is written anew each time";
	if (o->reset && o->format && o->format->flags & FORMAT_CUMULATIVE)
		return "metrics are counted on from one reading to the next: no --reset";
	if (o->watch &&
		(o->format || o->g->json || o->output || o->save || o->diff_path ||
			o->reset || o->check_cnt))
		return "--watch shows what is now: no --format, --json, --output, --save, --diff, --reset, --fail-if";
	if (loop && (o->save || o->diff_path))
		return "--save and --diff do not go with --interval or --duration";
	for (size_t i = 0; i < o->check_cnt; i++)
		if (o->checks[i].relative && !o->diff_path && !check_is_share(&o->checks[i]))
			return "--fail-if with percent needs --diff, but of on_cpu, queued and blocked";
	return NULL;
}

/* --- running -------------------------------------------------------------------------------- */

void stats_options_done(struct stats_options *o)
{
	saved_free(o->before);
	free(o->checks);
	free(o->by);
}

/* --- a report for each interval, until a signal or the end ---------------------------------- */

#define TICK_NS 20000000ULL

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = 1;
}

/* Signals arrive only while waiting: no report is left half-way. */
static void signals_begin(const struct stats_options *o, sigset_t *ret_waiting)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; !o->until_fd && i < ARRAY_SIZE(signals); i++) {
		sigaddset(&blocked, signals[i]);
		sigaction(signals[i], &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &blocked, ret_waiting);
}

static void wait_until(const struct stats_options *o, uint64_t at_ns, const sigset_t *waiting)
{
	struct pollfd until = { .fd = o->until_fd, .events = POLLIN };

	while (!stop) {
		uint64_t left = ns_until(at_ns);
		struct timespec ts = timespec_of(o->tick && left > TICK_NS ? TICK_NS : left);
		int n = ppoll(&until, o->until_fd > 0, &ts, waiting);

		if (o->tick)
			o->tick(o->ready_arg);

		stop |= n > 0;
		if (!n && !ns_until(at_ns))
			return;
	}
}

/*
 * Windows of several nodes are the same ones: intervals of whole seconds begin at multiples of
 * them, whatever the clock that is waited by.
 */
static bool is_aligned(const struct stats_options *o)
{
	return o->interval_ns && o->interval_ns % 1000000000 == 0 && !o->until_fd;
}

/* The multiple of @step nearest to @at_ns, by CLOCK_REALTIME. */
static uint64_t align(uint64_t at_ns, uint64_t step)
{
	uint64_t off = (clock_ns(CLOCK_REALTIME) + at_ns - clock_ns(CLOCK_MONOTONIC)) % step;

	return off > step / 2 ? at_ns + step - off : at_ns - off;
}

/* The next multiple of the interval that is still to come, or the end. */
static uint64_t next_tick(const struct stats_options *o, uint64_t start, uint64_t last)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC),
		 end = o->duration_ns ? start + o->duration_ns : UINT64_MAX;
	uint64_t step = o->interval_ns ? o->interval_ns : o->duration_ns,
		 next = last + step;

	if (next <= now) /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): one of them is given */
		next = start + ((now - start) / step + 1) * step;
	if (is_aligned(o))
		next = align(next, step);
	/* Clocks differ by a little: what is left is no interval. */
	return next < end && end - next > step / 8 ? next : end;
}

int stats_loop(const struct stats_options *o)
{
	struct reading readings[2] = { READING_NONE, READING_NONE };
	struct stats_run run = { .o = o };
	uint64_t start, tick;
	struct err err = {};
	sigset_t waiting;
	bool last = false;
	int code, at = 1;

	signals_begin(o, &waiting);
	if (is_aligned(o))
		wait_until(o, align(clock_ns(CLOCK_MONOTONIC) + (o->interval_ns + 1) / 2,
				      o->interval_ns), &waiting);
	/* With --reset the kernel keeps what intervals begin with. */
	code = o->reset ? 0 : reading_take(o, &readings[0], &err);
	start = tick = o->reset || code ? clock_ns(CLOCK_MONOTONIC) : readings[0].mono_ns;
	if (!code && o->ready)
		o->ready(o->ready_arg);
	while (!code && !last && !run.held) {
		tick = next_tick(o, start, tick);
		wait_until(o, tick, &waiting);
		last = stop || (o->duration_ns && tick >= start + o->duration_ns);
		code = stats_report(
			&run, &readings[at], o->reset ? NULL : &readings[!at], &err);
		/* Nor may the lock of a reset be held until the next. */
		at = o->reset ? at : !at;
		reading_done(&readings[at]);
		readings[at] = (struct reading)READING_NONE;
	}
	reading_done(&readings[!at]);
	if (code)
		return cmd_fail(o->g, &err);
	return stats_status(&run);
}

/* --- the command ----------------------------------------------------------------------------- */

static int run_once(const struct stats_options *o)
{
	_cleanup_reading_ struct reading now = READING_NONE;
	struct stats_run run = { .o = o };
	struct err err = {};

	if (stats_report(&run, &now, NULL, &err))
		return cmd_fail(o->g, &err);
	return stats_status(&run);
}

void stats_options_begin(struct stats_options *o)
{
	o->choice.sort = FIGURE_TOTAL;
	o->choice.bucket_cnt = METRIC_BUCKETS;
	o->view = view_find("function");
}

bool stats_options_parse(struct stats_options *o, int argc, char **argv)
{
	static const struct argp argp = { options, parse, .args_doc = "[GROUP...]",
		.doc = help };
	const char *wrong;

	stats_options_begin(o);
	options_describe();
	cmd_parse(o->g, &argp, argc, argv, o, &o->names);
	if (o->format && o->format->flags & FORMAT_STACKS && o->view == view_find("diff") &&
		!o->choice.by_cnt)
		o->view = view_find("stack-diff");
	wrong = contradiction(o);
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

/* Histograms one after the other become one picture, where that can be drawn. */
static bool draws_heat(const struct stats_options *o)
{
	return o->view == view_find("hist") && o->interval_ns && !o->output && !o->reset &&
		!o->check_cnt && !o->until_fd && o->format->flags & FORMAT_READERS && screen_can();
}

/* Of what a GPU does people want to see kernels first. */
static void choose_view(struct stats_options *o)
{
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	struct err err = {};

	if (o->view_set || o->watch || o->names.cnt != 1 || !(o->format->flags & FORMAT_READERS) ||
		groups_open(o->g, &o->names, GROUPS_REST | GROUPS_BRIEF, &groups, &err) || groups.cnt != 1 ||
		!group_info(groups.group[0]).gpu)
		return;
	for (size_t i = 0; i < FSN_KEYS && group_info(groups.group[0]).key[i]; i++)
		if (!strcmp(group_info(groups.group[0]).key[i], "kernel")) {
			o->view = view_find("key");
			o->choice.by[0] = "kernel";
			o->choice.by_cnt = 1;
		}
}

int stats_options_run(struct stats_options *o)
{
	struct err err = {};

	choose_view(o);

	if (o->diff_path && !o->before && saved_read(o->diff_path, &o->before, &err))
		return cmd_fail(o->g, &err);
	if (o->watch || draws_heat(o))
		return stats_watch(o);
	return o->interval_ns || o->duration_ns ? stats_loop(o) : run_once(o);
}

static int run(struct globals *g, int argc, char **argv)
{
	__cleanup(stats_options_done) struct stats_options o = { .g = g };

	return stats_options_parse(&o, argc, argv) ? stats_options_run(&o) : EXIT_USAGE;
}

const struct command cmd_stats = { "stats", "[GROUP...]", "statistics kept by the kernel",
	run };
