// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop run: attach, look and detach in one command, around another one perhaps.
//
// Its options are those of attach, stats and stream: each is sorted to the line of its own
// command, which that command's reader reads.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "internal.h"

/* Whose option a key is; letters are in to_of(). */
enum { TO_ATTACH = 0x1000, TO_STATS = 0x2000, TO_STREAM = 0x3000, TO_MASK = 0xf000 };

enum {
	KEY_STREAM = 0x100,
	KEY_FORMAT,
	KEY_SHOW_SLOW,
	KEY_SHOW_SAMPLE,
	KEY_NO_CHILDREN,
};

static const struct argp_option options[] = {
	{ "lib", 'l', "LIB", 0, "Library, program: path, soname, stem; repeatable", 1 },
	{ "pid", 'p', "PID", 0, "Only this process; it tells the library", 1 },
	{ "duration", 'd', "SEC", 0, "End after so long; else Ctrl-C or COMMAND's end",
		1 },
	{ "interval", 'i', "SEC", 0, "What came in each interval", 1 },
	{ "stream", KEY_STREAM, NULL, 0, "Calls as they happen, then the table", 1 },
	{ "slow", TO_ATTACH, "[FUNC=]DUR", 0, "Calls of this length or more are slow",
		1 },
	{ "output", 'o', "FILE", 0, "Write there, not on a screen", 1 },
	/* attach's */
	{ "count", TO_ATTACH | 1, NULL, 0, NULL, USAGE_MORE },
	{ "no-keys", TO_ATTACH | 31, NULL, 0, NULL, USAGE_MORE },
	{ "config", TO_ATTACH | 2, "FILE", 0, NULL, USAGE_MORE },
	{ "name", TO_ATTACH | 3, "NAME", 0, NULL, USAGE_MORE },
	{ "regex", 'r', NULL, 0, NULL, USAGE_MORE },
	{ "children", TO_ATTACH | 12, NULL, 0, NULL, USAGE_MORE },
	{ "no-children", KEY_NO_CHILDREN, NULL, 0, NULL, USAGE_MORE },
	{ "watch", TO_STATS | 8, NULL, 0, NULL, USAGE_MORE },
	{ "comm", TO_ATTACH | 4, "NAME", 0, NULL, USAGE_MORE },
	{ "cgroup", TO_ATTACH | 5, "PATH", 0, NULL, USAGE_MORE },
	{ "uid", TO_ATTACH | 14, "USER", 0, NULL, USAGE_MORE },
	{ "tid", TO_ATTACH | 15, "TID", 0, NULL, USAGE_MORE },
	{ "if", TO_ATTACH | 16, "COND", 0, NULL, USAGE_MORE },
	{ "key", TO_ATTACH | 19, "KEYS", 0, NULL, USAGE_MORE },
	{ "sum", TO_ATTACH | 20, "ARG", 0, NULL, USAGE_MORE },
	{ "keys", TO_ATTACH | 21, "N", 0, NULL, USAGE_MORE },
	{ "cpu", 'c', "N", 0, NULL, USAGE_MORE },
	{ "stacks", TO_ATTACH | 24, "HOW", 0, NULL, USAGE_MORE },
	{ "rate", TO_ATTACH | 32, "N", 0, NULL, USAGE_MORE },
	{ "duty", TO_ATTACH | 35, "1/N", 0, NULL, USAGE_MORE },
	{ "memory", TO_ATTACH | 33, NULL, 0, NULL, USAGE_MORE },
	{ "blocks", TO_ATTACH | 34, "N", 0, NULL, USAGE_MORE },
	{ "sample", TO_ATTACH | 6, "N", 0, NULL, USAGE_MORE },
	{ "overhead", TO_ATTACH | 17, "SHARE", 0, NULL, USAGE_MORE },
	{ "budget", TO_ATTACH | 17, "SHARE", OPTION_HIDDEN, NULL, USAGE_MORE },
	{ "no-processes", TO_ATTACH | 7, NULL, 0, NULL, USAGE_MORE },
	{ "split", TO_ATTACH | 30, NULL, 0, NULL, USAGE_MORE },
	{ "no-nesting", TO_ATTACH | 18, NULL, 0, NULL, USAGE_MORE },
	{ "raw", TO_ATTACH | 13, NULL, 0, NULL, USAGE_MORE },
	{ "exit", TO_ATTACH | 8, "HOW", 0, NULL, USAGE_MORE },
	{ "site", TO_ATTACH | 9, "HOW", 0, NULL, USAGE_MORE },
	{ "link", TO_ATTACH | 10, "KIND", 0, NULL, USAGE_MORE },
	{ "force", TO_ATTACH | 11, NULL, 0, NULL, USAGE_MORE },
	/* stats' */
	{ "all", 'a', NULL, 0, NULL, USAGE_MORE },
	{ "hist", TO_STATS, NULL, 0, NULL, USAGE_MORE },
	{ "errors", TO_STATS | 1, NULL, 0, NULL, USAGE_MORE },
	{ "tree", TO_STATS | 9, NULL, 0, NULL, USAGE_MORE },
	{ "by", TO_STATS | 2, "WHAT", 0, NULL, USAGE_MORE },
	{ "sort", TO_STATS | 3, "KEY", 0, NULL, USAGE_MORE },
	{ "top", TO_STATS | 4, "N", 0, NULL, USAGE_MORE },
	{ "show-slow", KEY_SHOW_SLOW, NULL, 0, NULL, USAGE_MORE },
	{ "timestamp", 'T', NULL, 0, NULL, USAGE_MORE },
	{ "lines", TO_STATS | 10, NULL, 0, NULL, USAGE_MORE },
	{ "save", TO_STATS | 5, "FILE", 0, NULL, USAGE_MORE },
	{ "diff", TO_STATS | 6, "FILE", 0, NULL, USAGE_MORE },
	{ "fail-if", TO_STATS | 7, "COND", 0, NULL, USAGE_MORE },
	{ "format", KEY_FORMAT, "HOW", 0, NULL, USAGE_MORE },
	/* stream's */
	{ "failed", TO_STREAM, NULL, 0, NULL, USAGE_MORE },
	{ "min", TO_STREAM | 1, "DUR", 0, NULL, USAGE_MORE },
	{ "alert", TO_STREAM | 4, NULL, 0, NULL, USAGE_MORE },
	{ "number", TO_STREAM | 2, "N", 0, NULL, USAGE_MORE },
	{ "function", 'f', "FUNC", 0, NULL, USAGE_MORE },
	{ "show-sample", KEY_SHOW_SAMPLE, "N", 0, NULL, USAGE_MORE },
	{ "events", TO_STREAM | 3, "HOW", 0, NULL, USAGE_MORE },
	{ "buffer", TO_STREAM | 5, "SIZE", 0, NULL, USAGE_MORE }, { 0 }
};

static const char help[] = "Probe functions, show their calls, and remove the probes.\v"
			   "Examples:\n"
			   "  funcsnoop run cuda --stream -- python3 train.py";

/* A line as it would be typed. Its readers move the words of an argv about. */
struct line {
	char **arg; /* owned, as are all of its words */
	size_t cnt;
	char **argv; /* line_argv() */
};

struct reading_line {
	struct run_options *o;
	struct line attach, stats, stream;
	struct words words;
	const char *output, *format;
	bool show_slow, show_sample;
	const char *foreign; /* the first option of a stream's */
};

static void line_add(
	struct line *l, const char *head, const char *name, const char *value)
{
	char *text = NULL, **more = array_grow(l->arg, l->cnt, sizeof(*more));

	if (!more ||
		asprintf(&text, "%s%s%s%s", head, name, value ? "=" : "",
			value ? value : "") < 0) {
		fprintf(stderr, "funcsnoop run: out of memory\n");
		exit(EXIT_FAILED);
	}
	l->arg = more;
	more[l->cnt++] = text;
}

static void line_done(struct line *l)
{
	while (l->cnt)
		free(l->arg[--l->cnt]);
	free(l->arg);
	free(l->argv);
}

static char **line_argv(struct line *l)
{
	l->argv = calloc(l->cnt + 2, sizeof(*l->argv));
	if (!l->argv) {
		fprintf(stderr, "funcsnoop run: out of memory\n");
		exit(EXIT_FAILED);
	}
	l->argv[0] = (char *)"run";
	memcpy(l->argv + 1, l->arg, l->cnt * sizeof(*l->argv));
	return l->argv;
}

static int to_of(int key)
{
	if (strchr("lprc", key))
		return TO_ATTACH;
	if (strchr("aiT", key))
		return TO_STATS;
	return key == 'f' ? TO_STREAM : 0;
}

static error_t sort_option(struct reading_line *r, int key, const char *arg)
{
	const struct argp_option *opt = options;

	while (opt->name && opt->key != key)
		opt++;
	if (!opt->name)
		return ARGP_ERR_UNKNOWN;
	switch (key < 0x80 ? to_of(key) : key & TO_MASK) {
	case TO_ATTACH:
		line_add(&r->attach, "--", opt->name, arg);
		return 0;
	case TO_STATS:
		line_add(&r->stats, "--", opt->name, arg);
		return 0;
	case TO_STREAM:
		r->foreign = r->foreign ? r->foreign : opt->name;
		line_add(&r->stream, "--", opt->name, arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct reading_line *r = state->input;

	switch (key) {
	case 'd':
		r->o->duration_ns = seconds_parse(state, "--duration", arg);
		return 0;
	case 'o':
		r->output = strcmp(arg, "-") ? arg : NULL;
		return 0;
	case KEY_STREAM:
		r->o->streams = true;
		return 0;
	case KEY_NO_CHILDREN:
		r->o->no_children = true;
		return 0;
	case KEY_FORMAT:
		r->format = arg;
		return 0;
	case KEY_SHOW_SLOW:
		r->show_slow = true;
		return 0;
	case KEY_SHOW_SAMPLE:
		line_add(&r->stream, "--", "sample", arg);
		r->show_sample = true;
		return 0;
	default:
		return sort_option(r, key, arg);
	}
}

/* Options that make no sense together: why, or NULL. */
static const char *contradiction(const struct reading_line *r)
{
	const struct run_options *o = r->o;

	if (r->show_sample && !o->streams)
		return "--show-sample goes with --stream only";
	if (o->streams && (o->stats.interval_ns || o->stats.watch))
		return "--stream excludes --interval and --watch";
	if (o->no_children && !o->command)
		return "--no-children goes with COMMAND only";
	if (o->command && o->stats.watch)
		return "--watch needs the screen, which is COMMAND's";
	if (o->attach.config && o->attach.words.cnt > 1)
		return "--config goes with one group";
	if (o->command && o->attach.draft.pid_cnt)
		return "--pid and COMMAND exclude each other";
	if (o->command && o->attach.attach.filter.tid_cnt)
		return "--tid and COMMAND exclude each other";
	return NULL;
}

/* What a machine reads must not be mixed with anything else. */
static const char *contradiction_of_format(struct run_options *o)
{
	bool machine = o->streams ? o->stream.format != stream_format_find("text")
				  : o->stats.format != stats_format_find("table");

	if (machine && o->command && !(o->streams ? o->stream.output : o->stats.output))
		return "with COMMAND, JSON and other formats go to a file: --output";
	o->table_apart = machine && o->streams && !o->stream.output;
	return NULL;
}

/* A word that can't name a group is a FUNCTION: GROUP was left out. */
static void sort_words(struct reading_line *r)
{
	const char *first = r->words.cnt ? r->words.word[0] : NULL;

	line_add(&r->attach, "--", "", NULL);
	if (first && strpbrk(first, ":*?[(+/~"))
		line_add(&r->attach, "", "run", NULL);
	for (size_t i = 0; i < r->words.cnt; i++)
		line_add(&r->attach, "", r->words.word[i], NULL);
}

/* NAME-PID, so that it is in nobody's way; a long NAME is cut. */
void run_group_name(const struct run_options *o, const char *suffix, char *ret_name)
{
	const struct attach_options *a = &o->attach;
	const char *name = a->name ? a->name : a->words.cnt ? a->words.word[0] : "run";
	char end[32];

	snprintf(end, sizeof(end), "-%d%s", getpid(), suffix);
	snprintf(ret_name, GROUP_NAME_MAX + 1, "%.*s%s", (int)(GROUP_NAME_MAX - strlen(end)),
		name, end);
}

static void add_views(struct reading_line *r)
{
	struct line *l = r->o->streams ? &r->stream : &r->stats;

	if (r->show_slow)
		line_add(l, "--", "slow", NULL);
	if (r->format)
		line_add(l, "--", "format", r->format);
	if (r->output)
		line_add(l, "--", "output", r->output);
	line_add(&r->stats, "--", "", NULL);
	line_add(&r->stats, "", r->o->name, NULL);
	line_add(&r->stream, "--", "", NULL);
	line_add(&r->stream, "", r->o->name, NULL);
}

/* Returns why the group cannot have the figures of the view, or NULL. */
static const char *contradiction_of_view(const struct run_options *o)
{
	const struct attach_options *a = &o->attach;
	const struct view *view = o->stats.view;

	if (view->flags & (VIEW_PROCESSES | VIEW_CGROUPS) && !a->attach.processes)
		return "--by process and --by cgroup cannot be combined with --no-processes";
	if (o->stats.tree && !a->attach.nesting)
		return "--tree cannot be combined with --no-nesting or --sample";
	if (view == view_find("hist") && a->draft.rules.count_only)
		return "--hist cannot be combined with --count";
	if (view == view_find("errors") && a->draft.rules.count_only)
		return "--errors cannot be combined with --count";
	if (view->flags & VIEW_SLEEPS && a->draft.rules.count_only)
		return "--by blocked-in cannot be combined with --count";
	return NULL;
}

/* Records all that the table shows, without more options. */
static bool show_recorded(struct run_options *o)
{
	bool stacks = o->stats.view->flags & (VIEW_STACKS | VIEW_SLEEPS) ||
		o->stats.format->flags & FORMAT_STACKS;

	o->attach.attach.split |= (o->stats.view->flags & VIEW_SLEEPS) != 0;
	return attach_options_show(
		&o->attach, o->stats.choice.by, o->stats.choice.by_cnt, stacks);
}

/* Each line is read with a copy of what is said for all: JSON is asked of one of them. */
static bool parse_lines(
	struct reading_line *r, struct globals *stats_g, struct globals *stream_g)
{
	struct run_options *o = r->o;
	const char *wrong;

	sort_words(r);
	if (!attach_options_parse(&o->attach, r->attach.cnt + 1, line_argv(&r->attach)))
		return false;
	run_group_name(o, "", o->name);
	add_views(r);
	*stats_g = *stream_g = *o->g;
	stats_g->json &= !o->streams;
	o->stats.g = stats_g;
	o->stream.g = stream_g;
	if (!stats_options_parse(&o->stats, r->stats.cnt + 1, line_argv(&r->stats)))
		return false;
	if (o->streams &&
		!stream_options_parse(
			&o->stream, r->stream.cnt + 1, line_argv(&r->stream)))
		return false;
	if (!show_recorded(o))
		return false;
	wrong = contradiction(r);
	if (!wrong)
		wrong = contradiction_of_view(o);
	if (!wrong)
		wrong = contradiction_of_format(o);
	if (!wrong)
		return true;
	cmd_usage(o->g, "%s", wrong);
	return false;
}

/* Cuts COMMAND off the line, at the first "--". False when there is nothing behind it. */
static bool cut_command(struct run_options *o, int *argc, char **argv)
{
	for (int i = 1; i < *argc; i++)
		if (!strcmp(argv[i], "--")) {
			o->command = argv + i + 1;
			*argc = i;
			argv[i] = NULL;
			return o->command[0];
		}
	return true;
}

static void reading_line_done(struct reading_line *r)
{
	line_done(&r->attach);
	line_done(&r->stats);
	line_done(&r->stream);
}

static void options_done(struct run_options *o)
{
	attach_options_done(&o->attach);
	stats_options_done(&o->stats);
	stream_options_done(&o->stream);
}

static int run(struct globals *g, int argc, char **argv)
{
	static const struct argp argp = { options, parse,
		.args_doc = "GROUP [FUNCTION...] [-- COMMAND [ARG...]]\n"
			    "LIB:FUNCTION... [-- COMMAND [ARG...]]",
		.doc = help };
	__cleanup(options_done) struct run_options o = { .g = g, .attach.g = g, .attach.ender_fd = -1 };
	__cleanup(reading_line_done) struct reading_line r = { .o = &o };
	struct globals stats_g, stream_g;
	struct err err = {};

	o.attach.attach.processes = true;
	o.attach.attach.nesting = true;
	o.attach.attach.access = (struct access)ACCESS_PRIVATE;
	if (!cut_command(&o, &argc, argv))
		return cmd_usage(g, "no command behind '--'");
	cmd_parse(g, &argp, argc, argv, &r, &r.words);
	if (r.foreign && !o.streams)
		return cmd_usage(g, "--%s goes with --stream only", r.foreign);
	if (!parse_lines(&r, &stats_g, &stream_g))
		return EXIT_USAGE;
	/* A file that cannot be read is an error before anything is attached. */
	if (o.stats.diff_path && saved_read(o.stats.diff_path, &o.stats.before, &err))
		return cmd_fail(g, &err);
	return run_session(&o);
}

const struct command cmd_run = { "run", "GROUP ... [-- COMMAND ...]",
	"attach, show, detach; around COMMAND", run };
